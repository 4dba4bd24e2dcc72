package install

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
)

// machinePath is where programs are looked for on a machine.
var machinePath = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// find is the path of a program on the machine, as seen there. os/exec would look a name up in this
// process's file tree, which is an image that has nothing but agentjail.
func (m Machine) find(name string) (string, error) {
	if strings.ContainsRune(name, '/') {
		return name, nil
	}
	for _, dir := range machinePath {
		path := filepath.Join(dir, name)
		fd, err := m.open(path, unix.O_PATH)
		if err != nil {
			continue
		}
		var st unix.Stat_t
		err = unix.Fstat(fd, &st)
		unix.Close(fd)
		if err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("the node has no program %s in %s", name, strings.Join(machinePath, ", "))
}

// The mark that containerd has to be restarted is in /run, which the machine's own restart empties:
// that restarts containerd, too.
const owedDir, owedName = "/run", "agentjail-restart-owed"

// restartPending reports whether an earlier run has changed containerd's configuration, or was
// about to, and not restarted it.
func (m Machine) restartPending() (bool, error) {
	fd, err := m.open(filepath.Join(owedDir, owedName), unix.O_PATH|unix.O_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, unix.Close(fd)
}

// markRestart makes the mark.
func (m Machine) markRestart() error {
	dir, err := m.directory(owedDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	fd, err := unix.Openat(int(dir.Fd()), owedName, unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("marking in %s/%s on the node that containerd is to be restarted: %w", owedDir, owedName, err)
	}
	return unix.Close(fd)
}

// clearRestart removes the mark.
func (m Machine) clearRestart() error {
	dir, err := m.open(owedDir, unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := unix.Unlinkat(dir, owedName, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("removing %s/%s on the node: %w", owedDir, owedName, err)
	}
	return nil
}

// open opens a path of the machine. No link there leads out of its file tree.
func (m Machine) open(path string, flags int) (int, error) {
	root, err := unix.Open(m.Root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: m.Root, Err: err}
	}
	defer unix.Close(root)
	fd, err := openat.Open(root, path, openat.InRoot, flags)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: filepath.Join(m.Root, path), Err: err}
	}
	return fd, nil
}
