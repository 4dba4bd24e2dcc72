package facts

import (
	"cmp"
	"strings"

	"agentjail.dev/runtime/observe/enginerecord"
)

// NameAnnotation has the name that a sandbox's caller gave it.
const NameAnnotation = "agentjail/name"

// Annotations with a container's name and its image's: containerd's CRI and CRI-O
// (pkg/annotations), nerdctl (pkg/labels).
var (
	nameAnnotations = []string{
		"io.kubernetes.cri.container-name", "io.kubernetes.cri-o.ContainerName", "io.kubernetes.cri-o.Name",
		"nerdctl/name", NameAnnotation,
	}
	imageAnnotations = []string{"io.kubernetes.cri.image-name", "io.kubernetes.cri-o.ImageName", "nerdctl/image-name"}
)

// EngineNames returns an engine's names of a container and its image, as far as the container's
// annotations, Docker's record of the container, or conmon's command line and Podman's storage have
// them.
func (p *Gathered) EngineNames() (name, image string) {
	first := func(keys []string) string {
		for _, k := range keys {
			if v := p.Bundle.Spec.Annotations[k]; v != "" {
				return v
			}
		}
		return ""
	}
	name, image = first(nameAnnotations), first(imageAnnotations)
	if name == "" && p.docker != nil {
		name, image = strings.TrimPrefix(p.docker.Name, "/"), p.docker.Config.Image
	}
	if p.conmon.Name != "" && image == "" {
		image, _ = enginerecord.PodmanImage(p.Bundle.Dir, p.Facts.ID)
	}
	return cmp.Or(name, p.conmon.Name), image
}

// Events returns where Podman keeps its events; "" for another engine's container.
func (p *Gathered) Events() string { return p.conmon.Events }

// Record returns the directory of Docker's record of the container, which has the exit status after
// the container's deletion; "" for another engine's container.
func (p *Gathered) Record() string {
	if p.docker == nil {
		return ""
	}
	return p.docker.Dir
}
