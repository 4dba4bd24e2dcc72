package engine

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// cniConfig is a bridge in the engine's own network namespace, with the node's ports that pods
// request; %q is where it keeps the addresses that it gave.
const cniConfig = `{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": "10.77.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}
]}
`

// WriteCNI configures the network of pods below an engine's directory, and returns where:
// a CRI runtime's conf_dir.
func WriteCNI(dir string) (string, error) {
	conf := filepath.Join(dir, "cni")
	if err := os.MkdirAll(conf, 0o700); err != nil {
		return "", err
	}
	return conf, os.WriteFile(filepath.Join(conf, "10-pods.conflist"), fmt.Appendf(nil, cniConfig, filepath.Join(dir, "ipam")), 0o600)
}

// PauseLayer builds the program that holds a pod's namespaces, and returns the file tree of its
// image (PauseImage).
func PauseLayer(dir string) ([]byte, error) {
	out := filepath.Join(dir, "pause")
	if err := Build("./tests/cri/pause", out); err != nil {
		return nil, err
	}
	program, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := w.WriteHeader(&tar.Header{Name: "pause", Mode: 0o755, Size: int64(len(program)), Typeflag: tar.TypeReg}); err != nil {
		return nil, err
	}
	if _, err := w.Write(program); err != nil {
		return nil, err
	}
	return layer.Bytes(), w.Close()
}
