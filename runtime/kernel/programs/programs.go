// Package programs opens the programs that belong to the running one: those beside it.
//
// An upgrade replaces programs by rename, under processes that live for as long as a pod. Programs
// of two releases need not understand each other. So a process keeps the descriptor of each program
// that it has opened, and the kernel keeps the file. A directory for each release would need an
// owner that counts its processes, and no package manager leaves such a directory behind.
package programs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/trusted"
)

// The file names of the programs.
const (
	Agentjail  = "agentjail"
	Ctl        = "agentjailctl"          // commands for people, and the parser of projects' policies
	Enter      = "agentjail-enter"       // the init step, and the keeper
	Egress     = "agentjail-egress"      // the helper of a network by name
	EgressKeys = "agentjail-egress-keys" // the same with keys of its own, which it also makes
)

// Dir returns the directory of agentjail's programs: where the running program is, or was.
func Dir() (string, error) {
	self, err := os.Executable() // /proc/self/exe as this process began, which leads through every link
	if err != nil {
		return "", fmt.Errorf("finding this program's directory: %w", err)
	}
	return filepath.Dir(self), nil
}

// above is the least number of a held descriptor, by which a child executes it. The child's own
// files, fewer than half as many, take lower numbers, also while they change places
// (syscall.ForkExec).
const above = 64

// held are the programs that this process has opened, by name.
var held sync.Map

// Open opens a program beside the running one, which only root may have written. It returns the
// same file for the life of this process: other users of that file read it at positions of their
// own (pread(2)), and do not close it.
func Open(name string) (*os.File, error) {
	if f, ok := held.Load(name); ok {
		return f.(*os.File), nil
	}
	dir, err := Dir()
	if err != nil {
		return nil, err
	}
	f, err := open(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, above)
	f.Close()
	if err != nil {
		return nil, fmt.Errorf("keeping %s open: %w", f.Name(), err)
	}
	mine := os.NewFile(uintptr(fd), f.Name())
	if first, had := held.LoadOrStore(name, mine); had {
		mine.Close()
		return first.(*os.File), nil
	}
	return mine, nil
}

// Path opens a program as Open does, and returns the path by which this process and its children
// execute it.
func Path(name string) (string, error) {
	f, err := Open(name)
	if err != nil {
		return "", err
	}
	return openat.Proc(int(f.Fd())), nil
}

// Hold opens all programs that a process may need later. A missing one is opened when it is needed.
func Hold() {
	for _, name := range []string{Ctl, Enter, Egress, EgressKeys} {
		_, _ = Open(name)
	}
}

// Check reports what is wrong with the program at a path, or nil.
func Check(path string) error {
	f, err := open(path)
	if err == nil {
		f.Close()
	}
	return err
}

func open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing: it belongs beside agentjail (remedy: install both from one build)", path)
	}
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(int(f.Fd()), &st); err == nil {
		if st.Mode&unix.S_IFMT != unix.S_IFREG {
			err = fmt.Errorf("%s is not a file", path)
		} else {
			err = trusted.OwnerOf(int(f.Fd()), path, &st)
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
