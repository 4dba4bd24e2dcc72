// Package host is the host's side of the init step into a jail: it makes the
// files that a delegate hands to the jail's process.
package host

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/jailinit"
	"agentjail.dev/runtime/kernel/programs"
)

// Name is the step's file name. It lies in agentjail's own directory.
const Name = programs.Enter

// Files are those for a delegate's process, as descriptors from jailinit.ProgramFD on: the step,
// its orders and, where the step stays, its end of the pair of sockets at jailinit.LifeFD.
type Files struct {
	Passed []*os.File
	// Orders is the path of the orders for a sandbox, which passes no descriptors on; else "".
	Orders string
	// Life is our end of that pair: the jail ends when it is closed. It is nil where the step does
	// not stay, and the caller's to close.
	Life *os.File
}

// Close closes the files that Prepare made.
func (f *Files) Close() {
	for _, x := range f.Passed {
		x.Close()
	}
	f.Passed = nil
}

// Prepare makes the files; after an error there are none. dir is agentjail's directory of state,
// where a copy of the program is kept: no jail ever holds a file of the host's that is a program
// (CVE-2019-5736). The copy can be run and not read, so that the kernel keeps the process that runs
// it from being traced or looked into (would_dump in exec.c, since Linux 4.10), and a mount of its
// own that no other process sees makes it read-only. label is the copy's SELinux label, or "".
func Prepare(dir, label string, o *jailinit.Orders) (_ *Files, err error) {
	var f Files
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	add := func(x *os.File, err error) error {
		if err == nil {
			f.Passed = append(f.Passed, x)
		}
		return err
	}
	if err = add(program(dir, label)); err != nil {
		return nil, err
	}
	if err = add(pipe(o.Encode())); err != nil {
		return nil, fmt.Errorf("writing the orders of %s: %w", Name, err)
	}
	if !o.Init.Stays {
		return &f, nil
	}
	var pair [2]int
	if pair, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("making a pair of sockets: %w", err)
	}
	f.Life = os.NewFile(uintptr(pair[0]), "life")
	_ = add(os.NewFile(uintptr(pair[1]), "life"), nil)
	return &f, nil
}

// pipe returns the reading end of a pipe that holds data and has no other end. A
// security module lets a jail read its engine's pipes; it need not let it read
// other files.
func pipe(data []byte) (*os.File, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	r, w := os.NewFile(uintptr(fds[0]), "orders"), os.NewFile(uintptr(fds[1]), "orders")
	defer w.Close()
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, len(data)); err != nil {
		r.Close()
		return nil, fmt.Errorf("making a pipe of %d bytes: %w", len(data), err)
	}
	if _, err := w.Write(data); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Check reports what is wrong with the step in agentjail's directory dir, or nil.
func Check(dir string) error { return programs.Check(filepath.Join(dir, Name)) }
