package facts

import (
	"slices"
	"strings"

	"agentjail.dev/runtime/observe/enginerecord"
)

// dockerBuildStep reports whether Docker has made a container for a RUN of its classic builder.
// Such a container has no label and no other mark. Only the builder requests this combination in
// its record (moby, builder/dockerfile, dispatchRun and hostConfigFromOptions): the image by its
// digest, no health check, no log, and no stream attached. The record belongs to the engine. A
// container cannot write it, and it can only refuse a start.
func dockerBuildStep(d *enginerecord.Docker) (bool, error) {
	if d == nil {
		return false, nil
	}
	c := d.Config
	if !strings.HasPrefix(c.Image, "sha256:") || !slices.Equal(c.Healthcheck.Test, []string{"NONE"}) ||
		c.Tty || c.OpenStdin || c.AttachStdin || c.AttachStdout || c.AttachStderr {
		return false, nil
	}
	log, err := d.LogDriver()
	return log == "none", err
}

// dockerImage returns where Docker has mounted the image that a container is to have at a
// destination; "" for another mount.
func dockerImage(d *enginerecord.Docker, at string) string {
	if d == nil || d.MountPoints[at].Type != "image" {
		return ""
	}
	return d.MountPoints[at].Source
}
