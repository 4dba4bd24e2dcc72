package facts

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/atomicfile"
)

// maxDockerState bounds the size of Docker's record of a container, in bytes.
const maxDockerState = 1 << 20

// dockerBuildStep reports whether Docker has made a container for a RUN of its classic builder.
// Such a container has no label and no other mark. Only the builder requests this combination in
// its record (moby, builder/dockerfile, dispatchRun and hostConfigFromOptions): the image by its
// digest, no health check, no log, and no stream attached. The record belongs to the engine. A
// container cannot write it, and it can only refuse a start.
func dockerBuildStep(d *dockerContainer) bool {
	if d == nil {
		return false
	}
	var host struct {
		LogConfig struct{ Type string }
	}
	if !readRecord(filepath.Join(d.dir, "hostconfig.json"), &host) {
		return false
	}
	c := d.Config
	return strings.HasPrefix(c.Image, "sha256:") && host.LogConfig.Type == "none" &&
		slices.Equal(c.Healthcheck.Test, []string{"NONE"}) &&
		!c.Tty && !c.OpenStdin && !c.AttachStdin && !c.AttachStdout && !c.AttachStderr
}

// A dockerContainer is the part of Docker's record of a container that is of use here.
type dockerContainer struct {
	dir    string
	Name   string // begins with a slash
	Config struct {
		Image                                   string
		Labels                                  map[string]string // with those of the image
		Tty, OpenStdin                          bool
		AttachStdin, AttachStdout, AttachStderr bool
		Healthcheck                             struct{ Test []string }
	}
	MountPoints map[string]struct{ Type, Source string } // by destination
}

// image returns where Docker has mounted the image that a container is to have at a destination; ""
// for another mount.
func (d *dockerContainer) image(at string) string {
	if d == nil || d.MountPoints[at].Type != "image" {
		return ""
	}
	return d.MountPoints[at].Source
}

// readDocker reads Docker's record of a container. It returns nil for another engine's container,
// and for a record that cannot be read.
func readDocker(id string, s *specs.Spec) *dockerContainer {
	d := &dockerContainer{dir: dockerRecord(id, s)}
	if d.dir == "" || !readRecord(filepath.Join(d.dir, "config.v2.json"), d) {
		return nil
	}
	return d
}

// dockerRecord returns the directory in which dockerd keeps a container's record: the files that
// dockerd mounts in each container are there, wherever its data is.
func dockerRecord(id string, s *specs.Spec) string {
	for _, m := range s.Mounts {
		dir := filepath.Dir(m.Source)
		if filepath.IsAbs(dir) && filepath.Base(dir) == id && filepath.Base(filepath.Dir(dir)) == "containers" &&
			slices.Contains([]string{"/etc/hostname", "/etc/hosts", "/etc/resolv.conf"}, m.Destination) {
			return dir
		}
	}
	return ""
}

func readRecord(path string, to any) bool {
	data, err := atomicfile.Read(path, maxDockerState)
	return err == nil && json.Unmarshal(data, to) == nil
}
