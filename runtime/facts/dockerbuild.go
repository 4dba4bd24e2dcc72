package facts

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/observe/enginerecord"
)

// dockerBuildStep reports whether Docker has made a container for a RUN of its classic builder.
// Such a container has no label and no other mark. Only the builder requests this combination in
// its record (moby, builder/dockerfile, dispatchRun and hostConfigFromOptions): the image by its
// digest, no health check, no log, and no stream attached. The record belongs to the engine. A
// container cannot write it, and it can only refuse a start.
func dockerBuildStep(d *enginerecord.Docker) bool {
	if d == nil {
		return false
	}
	c := d.Config
	return strings.HasPrefix(c.Image, "sha256:") && d.LogDriver() == "none" &&
		slices.Equal(c.Healthcheck.Test, []string{"NONE"}) &&
		!c.Tty && !c.OpenStdin && !c.AttachStdin && !c.AttachStdout && !c.AttachStderr
}

// dockerImage returns where Docker has mounted the image that a container is to have at a
// destination; "" for another mount.
func dockerImage(d *enginerecord.Docker, at string) string {
	if d == nil || d.MountPoints[at].Type != "image" {
		return ""
	}
	return d.MountPoints[at].Source
}

// readDocker reads Docker's record of a container. It returns nil for another engine's container,
// and for a record that cannot be read. The record is in the directory of the files that dockerd
// mounts in each container, wherever its data is.
func readDocker(id string, s *specs.Spec) *enginerecord.Docker {
	for _, m := range s.Mounts {
		dir := filepath.Dir(m.Source)
		if filepath.IsAbs(dir) && filepath.Base(dir) == id && filepath.Base(filepath.Dir(dir)) == "containers" &&
			slices.Contains([]string{"/etc/hostname", "/etc/hosts", "/etc/resolv.conf"}, m.Destination) {
			return enginerecord.ReadDocker(dir)
		}
	}
	return nil
}
