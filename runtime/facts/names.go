package facts

import (
	"path/filepath"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// Annotations with a container's name and its image's: containerd's CRI and CRI-O
// (pkg/annotations), nerdctl (pkg/labels), Podman.
var (
	nameAnnotations  = []string{"io.kubernetes.cri.container-name", "io.kubernetes.cri-o.ContainerName", "io.kubernetes.cri-o.Name", "nerdctl/name"}
	imageAnnotations = []string{"io.kubernetes.cri.image-name", "io.kubernetes.cri-o.ImageName", "nerdctl/image-name"}
)

// EngineNames returns the names that an engine gave to a container and its image, as far as its
// annotations or, for Docker, its record of the container have them.
func EngineNames(id string, s *specs.Spec) (name, image string) {
	first := func(keys []string) string {
		for _, k := range keys {
			if v := s.Annotations[k]; v != "" {
				return v
			}
		}
		return ""
	}
	name, image = first(nameAnnotations), first(imageAnnotations)
	dir := dockerRecord(id, s)
	if name != "" || dir == "" {
		return name, image
	}
	var record struct {
		Name   string
		Config struct{ Image string }
	}
	if readRecord(filepath.Join(dir, "config.v2.json"), &record) {
		name, image = strings.TrimPrefix(record.Name, "/"), record.Config.Image
	}
	return name, image
}
