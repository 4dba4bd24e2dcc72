package install

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// NodeOptions say which programs to copy to a machine whose file tree is mounted in this one's, as a container that installs has it.
type NodeOptions struct {
	// From is the directory of the programs, Names are their names in it.
	From  string
	Names []string
	// Links are further names of the first program, which pick profiles.
	Links []string
	// Root is where the machine's file tree is mounted, To the directory on it, as seen there.
	Root, To string
}

// CopyToNode copies the programs, each in one step: what runs goes on with the file that it has. It says whether anything changed. No
// link of the machine leads out of Root (openat2(2), RESOLVE_IN_ROOT).
func CopyToNode(o NodeOptions) (changed bool, err error) {
	dir, err := nodeDir(o)
	if err != nil {
		return false, err
	}
	defer dir.Close()
	for _, name := range o.Names {
		program, err := os.ReadFile(filepath.Join(o.From, name))
		if err != nil {
			return changed, fmt.Errorf("reading a program: %w", err)
		}
		did, err := putProgram(dir, name, program)
		if err != nil {
			return changed, fmt.Errorf("copying %s to %s: %w", name, o.To, err)
		}
		changed = changed || did
	}
	for _, link := range o.Links {
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(int(dir.Fd()), link, buf)
		if err == nil && string(buf[:n]) == o.Names[0] {
			continue
		}
		if err == nil || errors.Is(err, unix.EINVAL) {
			return changed, fmt.Errorf("%s in %s is no link to %s: %w", link, o.To, o.Names[0], ErrConflict)
		}
		if err := unix.Symlinkat(o.Names[0], int(dir.Fd()), link); err != nil {
			return changed, fmt.Errorf("linking %s in %s: %w", link, o.To, err)
		}
		changed = true
	}
	return changed, nil
}

// nodeDir opens the directory on the machine, making it where it is missing.
func nodeDir(o NodeOptions) (*os.File, error) {
	if !filepath.IsAbs(o.Root) || !filepath.IsAbs(o.To) || filepath.Clean(o.To) != o.To {
		return nil, fmt.Errorf("%q and %q must be plain absolute paths", o.Root, o.To)
	}
	root, err := unix.Open(o.Root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: o.Root, Err: err}
	}
	defer unix.Close(root)
	open := func(path string) (int, error) {
		return unix.Openat2(root, path, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
	}
	fd, err := open(o.To)
	if errors.Is(err, unix.ENOENT) {
		parent, perr := open(filepath.Dir(o.To))
		if perr != nil {
			return nil, &os.PathError{Op: "open", Path: filepath.Join(o.Root, filepath.Dir(o.To)), Err: perr}
		}
		defer unix.Close(parent)
		if err := unix.Mkdirat(parent, filepath.Base(o.To), 0o755); err != nil {
			return nil, &os.PathError{Op: "mkdir", Path: filepath.Join(o.Root, o.To), Err: err}
		}
		fd, err = open(o.To)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: filepath.Join(o.Root, o.To), Err: err}
	}
	return os.NewFile(uintptr(fd), o.To), nil
}

// putProgram writes a program unless it is there already.
func putProgram(dir *os.File, name string, program []byte) (bool, error) {
	at := func(n string) string { return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), n) }
	if st, err := os.Lstat(at(name)); err == nil && st.Mode() == 0o755 {
		if have, err := os.ReadFile(at(name)); err == nil && bytes.Equal(have, program) {
			return false, nil
		}
	}
	c := &config{path: filepath.Join(dir.Name(), name), dir: int(dir.Fd()), name: name, exists: true}
	c.stat.Mode = 0o755 // and root's
	return true, c.put(name, program)
}

// RemoveFromNode removes what CopyToNode has put there. What is not there is no error.
func RemoveFromNode(o NodeOptions) error {
	dir, err := nodeDir(o)
	if err != nil {
		return err
	}
	defer dir.Close()
	for _, name := range append(append([]string{}, o.Links...), o.Names...) {
		if err := unix.Unlinkat(int(dir.Fd()), name, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing %s from %s: %w", name, o.To, err)
		}
	}
	return nil
}
