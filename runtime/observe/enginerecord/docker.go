// Package enginerecord reads the files in which Docker, Podman and conmon record their containers.
// Each read is bounded. A missing file, or that of another container, has no result and no error.
package enginerecord

import (
	"encoding/json"
	"path/filepath"
	"time"

	"agentjail.dev/runtime/kernel/atomicfile"
)

// maxRecord bounds the size of Docker's record of a container, in bytes.
const maxRecord = 1 << 20

// Docker is the part of Docker's record of a container that is of use here.
type Docker struct {
	Dir      string `json:"-"`
	ID, Name string // the name begins with a slash
	State    struct {
		Running               bool
		ExitCode              int
		StartedAt, FinishedAt time.Time
	}
	Config struct {
		Image                                   string
		Labels                                  map[string]string // with those of the image
		Tty, OpenStdin                          bool
		AttachStdin, AttachStdout, AttachStderr bool
		Healthcheck                             struct{ Test []string }
	}
	MountPoints map[string]struct{ Type, Source string } // by destination
}

// ReadDocker reads the record in a directory of dockerd's; nil where it cannot be read.
func ReadDocker(dir string) *Docker {
	d := &Docker{Dir: dir}
	if !filepath.IsAbs(dir) || !readJSON(filepath.Join(dir, "config.v2.json"), maxRecord, d) {
		return nil
	}
	return d
}

// LogDriver returns the name of the container's log driver, and "" where it is not known.
func (d *Docker) LogDriver() string {
	var host struct {
		LogConfig struct{ Type string }
	}
	_ = readJSON(filepath.Join(d.Dir, "hostconfig.json"), maxRecord, &host)
	return host.LogConfig.Type
}

// Status returns the exit status of the container id, whose jail was made at one time and found
// ended at another; nil for the record of another run. Docker 29 records the time of a start before
// the runtime makes the container, and each release may record that of the end after the delete.
func (d *Docker) Status(id string, made, ended time.Time) *int {
	if d == nil || d.ID != id || d.State.Running {
		return nil
	}
	s := d.State
	if s.StartedAt.After(ended) || s.FinishedAt.Before(made) {
		return nil
	}
	return &s.ExitCode
}

func readJSON(path string, most int64, to any) bool {
	data, err := atomicfile.Read(path, most)
	return err == nil && json.Unmarshal(data, to) == nil
}
