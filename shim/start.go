package shim

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	bootapi "github.com/containerd/containerd/api/runtime/bootstrap/v1"
	"github.com/containerd/containerd/api/types"
	"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/manager"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/spec/bundle"
)

// maxBootstrap bounds the size of a daemon's parameters, in bytes.
const maxBootstrap = 10 << 20

// A command line, as far as starting needs it.
type commandLine struct {
	namespace, id, address string
	debug, info, version   bool
	action                 string
}

// parseArgs reads the flags that all releases of containerd pass to shims.
func parseArgs(args []string) (c commandLine, err error) {
	f := flag.NewFlagSet("shim", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&c.namespace, "namespace", "", "")
	f.StringVar(&c.id, "id", "", "")
	f.StringVar(&c.address, "address", "", "")
	f.BoolVar(&c.debug, "debug", false, "")
	f.BoolVar(&c.info, "info", false, "")
	f.BoolVar(&c.version, "v", false, "")
	f.BoolVar(&c.version, "version", false, "")
	for _, ignored := range []string{"socket", "debug-socket", "bundle", "publish-binary"} {
		f.String(ignored, "", "")
	}
	err = f.Parse(args)
	c.action = f.Arg(0)
	return c, err
}

// start executes the action of that name: it starts the process that serves, or finds the one that
// serves the container's group, and prints its address. Releases before 2.3 and those since speak
// different protocols; containerd's own packages speak only one of them.
func start(ctx context.Context, c commandLine, in io.Reader, out io.Writer) error {
	if c.namespace == "" || c.id == "" {
		return errors.New("start needs a namespace and an id")
	}
	// The daemon's package reads all of the configuration, of any size.
	if fi, err := os.Stat(bundle.ConfigName); err == nil && fi.Size() > bundle.MaxConfig {
		return fmt.Errorf("%s has %d bytes, and %d are allowed", bundle.ConfigName, fi.Size(), bundle.MaxConfig)
	}
	data, err := atomicfile.ReadAll(in, maxBootstrap)
	if err != nil {
		return fmt.Errorf("reading the daemon's parameters: %w", err)
	}
	params, legacy := c.bootstrap(data)
	if dir := params.GetSocketDir(); dir != "" {
		// The serving process reads that file (containerd, pkg/shim).
		_ = os.Remove("s")
		if err := os.Symlink(dir, "s"); err != nil {
			return fmt.Errorf("noting the directory of sockets: %w", err)
		}
	}
	res, err := manager.NewShimManager(runtimeName).Start(namespaces.WithNamespace(ctx, c.namespace), params)
	if err != nil {
		return err
	}
	if legacy {
		// Releases before 2.0 find the shim again by this file, and all before
		// 2.3 understand a plain address.
		if err := atomicfile.Write("address", []byte(res.Address), 0o600); err != nil {
			return err
		}
		_, err = io.WriteString(out, res.Address)
		return err
	}
	// Otherwise the daemon would run this program once more to query it.
	if err := res.AddExtension(&types.MountCapabilities{}); err != nil {
		return fmt.Errorf("reporting capabilities: %w", err)
	}
	if data, err = proto.Marshal(res); err != nil {
		return fmt.Errorf("encoding the answer: %w", err)
	}
	_, err = out.Write(data)
	return err
}

// bootstrap reads the daemon's parameters. Older daemons send the runtime's options alone. The only
// sign of those is that they do not name this container.
func (c commandLine) bootstrap(data []byte) (_ *bootapi.BootstrapParams, legacy bool) {
	p := &bootapi.BootstrapParams{}
	if len(data) > 0 && proto.Unmarshal(data, p) == nil && p.InstanceID == c.id && p.Namespace == c.namespace {
		return p, false
	}
	p = &bootapi.BootstrapParams{
		InstanceID: c.id, Namespace: c.namespace, ContainerdGrpcAddress: c.address,
		ContainerdTtrpcAddress: os.Getenv("TTRPC_ADDRESS"),
	}
	if c.debug {
		p.LogLevel = bootapi.LogLevel_LOG_LEVEL_DEBUG
	}
	var a anypb.Any
	if len(data) > 0 && proto.Unmarshal(data, &a) == nil {
		// Errors in the options are reported where they are used, at create.
		if o, err := normalise(&a); err == nil && o.ShimCgroup != "" {
			_ = p.AddExtension(o)
		}
	}
	return p, true
}

// serverFD is where the serving process has its socket.
const serverFD = 3

// ownSocket returns the path of the serving process's socket, or "".
func ownSocket() string {
	sa, err := unix.Getsockname(serverFD)
	if err != nil {
		return ""
	}
	if u, ok := sa.(*unix.SockaddrUnix); ok && filepath.IsAbs(u.Name) {
		return u.Name
	}
	return ""
}
