// Package enginerecord reads what Docker, containerd, Podman and conmon record of their containers.
// Each read is bounded. But for what a start depends on, a missing file, or that of another
// container, has no result and no error.
package enginerecord

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/openat"
)

// maxRecord bounds the size of Docker's record of a container, in bytes. dockerd bounds no field of
// it. Arguments and environment reach containerd in one message of at most 16 MiB (containerd,
// defaults.DefaultMaxRecvMsgSize), and JSON writes a byte with at most six.
const maxRecord = 6 * 16 << 20

// maxImage bounds the size of an image's manifest or configuration, in bytes: containerd's client
// takes at most 8 MiB (core/images, handlers).
const maxImage = 8 << 20

// Docker is the part of Docker's record of a container that is of use here.
type Docker struct {
	Dir      string `json:"-"`
	ID, Name string // the name begins with a slash
	// Image is the digest of the image's configuration, or of its manifests in containerd's store.
	// ImageManifest is the container's of these.
	Image         string
	ImageManifest *descriptor
	Driver        string // of storage
	State         struct {
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

// A descriptor names content by its digest (image-spec, descriptor.md).
type descriptor struct{ Digest string }

// FindDocker reads the record of the container id, which dockerd keeps in its data root at
// containers/ID. The container's root file system, and the files that dockerd mounts in containers,
// lie in the same data root. It returns nil where no such directory has the container's record, and
// an error for a record that is not dockerd's, or cannot be read whole.
func FindDocker(id, root string, sources []string) (*Docker, error) {
	var dirs []string
	for at := filepath.Dir(root); filepath.IsAbs(root) && at != "/"; at = filepath.Dir(at) {
		dirs = append(dirs, filepath.Join(at, "containers", id))
	}
	for _, source := range sources {
		if all := filepath.Dir(filepath.Dir(source)); filepath.IsAbs(source) && filepath.Base(all) == "containers" {
			dirs = append(dirs, filepath.Join(all, id))
		}
	}
	for i, dir := range dirs {
		if slices.Contains(dirs[:i], dir) {
			continue
		}
		d, err := readDocker(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR):
		case errors.Is(err, fs.ErrPermission): // another user's engine: this process's has its user's files
		case err != nil:
			return nil, err
		case d.ID != id:
			return nil, fmt.Errorf("%s is the record of container %q", filepath.Join(dir, recordFile), d.ID)
		default:
			return d, nil
		}
	}
	return nil, nil
}

// recordFile is the name of the record (moby, container/container.go).
const recordFile = "config.v2.json"

// ReadDocker reads the record in a directory of dockerd's; nil where it cannot be read.
func ReadDocker(dir string) *Docker {
	if !filepath.IsAbs(dir) {
		return nil
	}
	d, err := readDocker(dir)
	if err != nil {
		return nil
	}
	return d
}

// readDocker reads the record in a directory. It is written by dockerd, which runs as root or as
// this process's user.
func readDocker(dir string) (*Docker, error) {
	d := &Docker{Dir: dir}
	return d, readOwn(filepath.Join(dir, recordFile), maxRecord, d)
}

// openOwn opens a file that only root or this process's user can have written.
func openOwn(path string) (*os.File, error) {
	f, err := openat.Regular(unix.AT_FDCWD, path, openat.Real)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err = unix.Fstat(int(f.Fd()), &st); err != nil {
		err = &os.PathError{Op: "stat", Path: path, Err: err}
	} else if st.Uid != 0 && st.Uid != uint32(os.Geteuid()) || st.Mode&0o022 != 0 {
		err = fmt.Errorf("%s: others than its engine can write it", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// readOwn reads a file of JSON that only root or this process's user can have written.
func readOwn(path string, most int64, to any) error {
	f, err := openOwn(path)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := atomicfile.ReadAll(f, most)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

// LogDriver returns the name of the container's log driver.
func (d *Docker) LogDriver() (string, error) {
	var host struct {
		LogConfig struct{ Type string }
	}
	err := readOwn(filepath.Join(d.Dir, "hostconfig.json"), maxRecord, &host)
	return host.LogConfig.Type, err
}

// ImageLabels returns the labels of the container's image, from dockerd's own store of images
// (moby, image/fs.go), or from that of the containerd that made the container's bundle
// (content/local). Content has the name of its digest.
func (d *Docker) ImageLabels(bundle string) (map[string]string, error) {
	config := d.Image
	store := filepath.Join(filepath.Dir(filepath.Dir(d.Dir)), "image", d.Driver, "imagedb/content")
	if d.ImageManifest != nil {
		// The link leads to the bundle's place in containerd's persistent files (core/runtime/v2,
		// NewBundle): ROOT/io.containerd.runtime.v2.task/NAMESPACE/ID.
		work, err := os.Readlink(filepath.Join(bundle, "work"))
		if err != nil {
			return nil, fmt.Errorf("finding containerd's files: %w", err)
		}
		store = filepath.Join(work, "../../..", "io.containerd.content.v1.content/blobs")
		var manifest struct{ Config descriptor }
		if err := readContent(store, d.ImageManifest.Digest, &manifest); err != nil {
			return nil, err
		}
		config = manifest.Config.Digest
	}
	var image struct {
		Config struct{ Labels map[string]string }
	}
	err := readContent(store, config, &image)
	return image.Config.Labels, err
}

// readContent reads the content of a digest in a store.
func readContent(store, digest string, to any) error {
	algorithm, name, ok := strings.Cut(digest, ":")
	if !ok || strings.ContainsAny(digest, "/.") {
		return fmt.Errorf("%q is not a digest", digest)
	}
	return readOwn(filepath.Join(store, algorithm, name), maxImage, to)
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
