package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strings"

	"agentjail.dev/tests/engine"
)

// A registry serves images for an engine that pulls, as far as the specification of distribution
// wants that (distribution-spec, "Pull"). What it has is not changed while it serves.
type registry struct {
	// manifests are named "HOST/NAME:TAG" and "sha256:DIGEST", blobs "sha256:DIGEST".
	manifests, blobs map[string][]byte
}

const manifestType = "application/vnd.oci.image.manifest.v1+json"

// add makes an image of one layer, an uncompressed tar archive, under its full names.
func (r *registry) add(layer []byte, config engine.ImageConfig, names ...string) error {
	var archive bytes.Buffer
	if err := engine.ImageArchive(&archive, names[0], layer, config); err != nil {
		return err
	}
	var index struct{ Manifests []struct{ Digest string } }
	for in := tar.NewReader(&archive); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		data, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		switch dir, file := path.Split(h.Name); {
		case dir == "blobs/sha256/":
			r.blobs["sha256:"+file] = data
		case file == "index.json":
			if err := json.Unmarshal(data, &index); err != nil {
				return err
			}
		}
	}
	if len(index.Manifests) != 1 {
		return fmt.Errorf("the archive of %s has %d manifests", names[0], len(index.Manifests))
	}
	manifest := r.blobs[index.Manifests[0].Digest]
	r.manifests[index.Manifests[0].Digest] = manifest
	for _, name := range names {
		r.manifests[name] = manifest
	}
	return nil
}

// registryAddress is where the registry serves, in the network namespace of an engine.
const registryAddress = "127.0.0.1:5000"

// during serves while f runs.
func (r *registry) during(f func() error) error {
	in, err := net.Listen("tcp", registryAddress)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: r}
	go func() { _ = server.Serve(in) }()
	defer server.Close()
	return f()
}

// ServeHTTP answers /v2/NAME/manifests/REFERENCE and /v2/NAME/blobs/DIGEST. The parameter ns, or
// the first part of the name, has the host that an engine means, for which this one stands in.
func (r *registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	name, ok := strings.CutPrefix(q.URL.Path, "/v2/")
	if name == "" || !ok {
		return
	}
	dir, ref := path.Split(name)
	name, kind := path.Split(strings.TrimSuffix(dir, "/"))
	var data []byte
	switch kind {
	case "blobs":
		data = r.blobs[ref]
	case "manifests":
		w.Header().Set("Content-Type", manifestType)
		if data = r.manifests[ref]; !strings.HasPrefix(ref, "sha256:") {
			data = r.manifests[path.Join(q.URL.Query().Get("ns"), name)+":"+ref]
		}
	}
	if data == nil {
		http.NotFound(w, q)
		return
	}
	w.Header().Set("Docker-Content-Digest", fmt.Sprintf("sha256:%x", sha256.Sum256(data)))
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	if q.Method != http.MethodHead {
		_, _ = w.Write(data)
	}
}
