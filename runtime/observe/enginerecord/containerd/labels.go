// Package containerd requests from containerd what it records of a container. It links gRPC, which
// the runtime's command line does not.
package containerd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	containers "github.com/containerd/containerd/api/services/containers/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// patience bounds the wait for an answer of containerd's.
const patience = 10 * time.Second

// maxAnswer bounds the answer, in bytes: containerd's own bound of a message
// (defaults.DefaultMaxSendMsgSize).
const maxAnswer = 16 << 20

// Labels returns the labels of the container id in a namespace of the containerd whose socket is at
// an address. Those
// of the image are among them.
func Labels(address, namespace, id string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := grpc.NewClient("unix:"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return nil, fmt.Errorf("calling containerd at %s: %w", address, err)
	}
	defer conn.Close()
	ctx = metadata.AppendToOutgoingContext(ctx, "containerd-namespace", namespace)
	answer, err := containers.NewContainersClient(conn).Get(ctx, &containers.GetContainerRequest{ID: id})
	if err != nil {
		return nil, fmt.Errorf("requesting the record of container %[2]s from containerd at %[1]s: %[3]w", address, id, err)
	}
	return answer.GetContainer().GetLabels(), nil
}

// Print prints the labels as JSON. Its arguments are those of Labels.
func Print(to io.Writer, args []string) error {
	if len(args) != 3 {
		return errors.New("arguments: the address, the namespace, the container")
	}
	labels, err := Labels(args[0], args[1], args[2])
	if err != nil {
		return err
	}
	return json.NewEncoder(to).Encode(labels)
}
