package install

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
)

// backupSuffix is added to the file's name.
const backupSuffix = ".before-agentjail"

// config is the configuration file, held by its directory: everything happens relative to that
// descriptor, and no symbolic link is followed in the last component.
type config struct {
	path    string
	dir     int // -1: the directory does not exist
	name    string
	exists  bool
	stat    unix.Stat_t
	content []byte
	xattrs  map[string][]byte
}

// openConfig reads the file. A file or directory that does not exist is no error.
func openConfig(path string) (*config, error) {
	if !plainPath(path) || path == "/" {
		return nil, fmt.Errorf("%q is not a plain absolute path", path)
	}
	c := &config{path: path, dir: -1, name: filepath.Base(path)}
	dir, err := unix.Open(filepath.Dir(path), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return c, nil
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: filepath.Dir(path), Err: err}
	}
	c.dir = dir
	if err := c.read(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *config) read() error {
	fd, err := unix.Openat(c.dir, c.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.ELOOP):
		return fmt.Errorf("%s is a symbolic link: name the file that it leads to", c.path)
	case err != nil:
		return &os.PathError{Op: "open", Path: c.path, Err: err}
	}
	f := os.NewFile(uintptr(fd), c.path)
	defer f.Close()
	if err := unix.Fstat(fd, &c.stat); err != nil {
		return &os.PathError{Op: "stat", Path: c.path, Err: err}
	}
	if c.stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%s is not a regular file", c.path)
	}
	if c.content, err = atomicfile.ReadAll(f, maxConfig); err != nil {
		return fmt.Errorf("%s: %w", c.path, err)
	}
	c.exists = true
	c.xattrs = readXattrs(fd)
	return nil
}

func (c *config) close() {
	if c.dir >= 0 {
		unix.Close(c.dir)
	}
}

// readXattrs reads the extended attributes (security labels, access control lists) as far as they
// can be read.
func readXattrs(fd int) map[string][]byte {
	names := make([]byte, 64<<10)
	n, err := unix.Flistxattr(fd, names)
	if err != nil {
		return nil
	}
	out := map[string][]byte{}
	for name := range bytes.SplitSeq(bytes.TrimSuffix(names[:n], []byte{0}), []byte{0}) {
		value := make([]byte, 64<<10)
		if n, err := unix.Fgetxattr(fd, string(name), value); err == nil && len(name) > 0 {
			out[string(name)] = value[:n]
		}
	}
	return out
}

// replace puts content in the file's place in one step: a reader sees all of the old or all of the
// new file, also after a crash. Owner, mode and attributes stay; a new file is root's and readable
// for all, like the directory, if that is missing, too.
func (c *config) replace(content []byte) error {
	if c.dir < 0 {
		directory := filepath.Dir(c.path)
		if err := os.MkdirAll(directory, 0o755); err != nil {
			return err
		}
		dir, err := unix.Open(directory, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return &os.PathError{Op: "open", Path: directory, Err: err}
		}
		c.dir = dir
	}
	return c.put(c.name, content)
}

// put writes a file of the directory with the attributes of the configuration file.
func (c *config) put(name string, content []byte) error {
	tmp := fmt.Sprintf(".%s.%s", name, rand.Text())
	fd, err := unix.Openat(c.dir, tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &os.PathError{Op: "create", Path: filepath.Join(filepath.Dir(c.path), tmp), Err: err}
	}
	f := os.NewFile(uintptr(fd), tmp)
	err = c.fill(f, content)
	if err := errors.Join(err, f.Close()); err != nil {
		_ = unix.Unlinkat(c.dir, tmp, 0)
		return err
	}
	if err := unix.Renameat(c.dir, tmp, c.dir, name); err != nil {
		_ = unix.Unlinkat(c.dir, tmp, 0)
		return &os.PathError{Op: "rename", Path: filepath.Join(filepath.Dir(c.path), name), Err: err}
	}
	return unix.Fsync(c.dir)
}

func (c *config) fill(f *os.File, content []byte) error {
	if _, err := f.Write(content); err != nil {
		return err
	}
	fd, mode := int(f.Fd()), uint32(0o644)
	if c.exists {
		if err := unix.Fchown(fd, int(c.stat.Uid), int(c.stat.Gid)); err != nil {
			return &os.PathError{Op: "chown", Path: f.Name(), Err: err}
		}
		mode = c.stat.Mode & 0o7777
	}
	if err := unix.Fchmod(fd, mode); err != nil { // not the mode of open: the umask
		return &os.PathError{Op: "chmod", Path: f.Name(), Err: err}
	}
	for name, value := range c.xattrs {
		// A label that the file system sets by itself may not be settable; what the kernel refuses
		// is no reason to fail.
		_ = unix.Fsetxattr(fd, name, value, 0)
	}
	return f.Sync()
}

// backup keeps the content as read beside the file and returns where.
func (c *config) backup() (string, error) {
	return c.path + backupSuffix, c.put(c.name+backupSuffix, c.content)
}

func (c *config) remove() error {
	if err := unix.Unlinkat(c.dir, c.name, 0); err != nil {
		return &os.PathError{Op: "remove", Path: c.path, Err: err}
	}
	return unix.Fsync(c.dir)
}

func dropBackup(path string) error {
	if err := os.Remove(path + backupSuffix); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
