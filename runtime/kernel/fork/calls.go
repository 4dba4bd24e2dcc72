package fork

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A call is a system call of a child that runs no Go code. The assembly knows
// its shape.
type call struct {
	nr   uintptr
	args [5]uintptr
	ret  int64 // the result, below 0 the number of an error
	what string
}

// previous as the first argument stands for the result of the call before.
const previous = ^uintptr(2)

// A script is what a child of ours does: system calls up to the first that
// fails. It keeps what their arguments point to where it is.
type script struct {
	calls []call
	pin   runtime.Pinner
}

// add appends a call; what names the attempt in an error.
func (s *script) add(what string, nr uintptr, args ...uintptr) {
	c := call{nr: nr, what: what, ret: -int64(syscall.ECANCELED)}
	copy(c.args[:], args)
	s.calls = append(s.calls, c)
}

// addOpen appends the opening of a file, whose descriptor is the previous result
// for the call that follows.
func (s *script) addOpen(path string, flags uintptr) error {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	s.pin.Pin(p)
	s.add("opening "+path, unix.SYS_OPENAT, atFDCWD, uintptr(unsafe.Pointer(p)), flags|unix.O_CLOEXEC)
	return nil
}

// addBuffer appends a call on the file that was just opened: read or write.
func (s *script) addBuffer(what string, nr uintptr, b []byte) {
	s.pin.Pin(&b[0])
	s.add(what, nr, previous, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
}

// atFDCWD is unix.AT_FDCWD as an argument.
const atFDCWD = ^uintptr(99)

// run has a child make the calls. The child shares our memory, so that no copy of this process is
// made, and has ended on return (clone(2), CLONE_VFORK). Until it is waited for, an ended process
// still is a member of its namespaces: ended, if not nil, is called at that time. A child that
// sends no signal at its end is only waited for by its number, also if something else in this
// process waits for all children (wait(2), __WALL). If this process is killed meanwhile, the child
// goes on to its end, which nothing delays.
func (s *script) run(flags uintptr, ended func(pid int) error) error {
	defer s.pin.Unpin()
	var first *call
	if len(s.calls) > 0 {
		s.pin.Pin(&s.calls[0])
		first = &s.calls[0]
	}
	pid, errno := cloneOnce(unix.CLONE_VM|unix.CLONE_VFORK|flags, first, uintptr(len(s.calls)))
	if errno != 0 {
		return errno
	}
	defer func() { _ = wait4(pid, nil, unix.WALL) }()
	for _, c := range s.calls {
		if c.ret < 0 {
			return fmt.Errorf("%s: %w", c.what, syscall.Errno(-c.ret))
		}
	}
	if ended == nil {
		return nil
	}
	return ended(pid)
}

// cloneOnce keeps other forks away meanwhile. A change of ids or of capabilities
// makes the memory undumpable (commit_creds in kernel/cred.c), which the child
// shares with us: that is undone, since files in /proc/PID of what is not
// dumpable take CAP_SYS_PTRACE to open (proc_pid_fd(5)).
func cloneOnce(flags uintptr, first *call, n uintptr) (int, syscall.Errno) {
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	beforeFork()
	pid, errno := cloneAndCall(flags, first, n)
	afterFork()
	if err == nil && dumpable == 1 {
		_ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	}
	return pid, errno
}

// cloneAndCall makes the child. It runs on our stack, and touches none of it.
// Between beforeFork and afterFork no stack may grow.
//
//go:nosplit
func cloneAndCall(flags uintptr, first *call, n uintptr) (pid int, errno syscall.Errno) {
	r := rawCloneAndCall(flags, first, n)
	if r < 0 {
		return 0, syscall.Errno(-r)
	}
	return int(r), 0
}

// rawCloneAndCall is clone(2) with these flags, followed by n calls and exit(2)
// in the child.
//
//go:noescape
func rawCloneAndCall(flags uintptr, first *call, n uintptr) (r int64)

// A Setting is a file of the kernel's, such as one below /proc/sys, and its text.
type Setting struct{ Path, Text string }

// WriteInside writes settings as a member of a user namespace: those of
// /proc/sys/user are those of the reader (namespaces(7)). The caller has
// CAP_SYS_ADMIN over the namespace.
func WriteInside(userns *os.File, settings []Setting) error {
	s := inside(userns)
	for _, x := range settings {
		if err := s.addOpen(x.Path, unix.O_WRONLY); err != nil {
			return err
		}
		s.addBuffer("writing "+x.Path, unix.SYS_WRITE, []byte(x.Text))
	}
	err := s.run(0, nil)
	runtime.KeepAlive(userns)
	return err
}

// ReadInside reads such files, each up to size bytes.
func ReadInside(userns *os.File, paths []string, size int) ([]Setting, error) {
	s := inside(userns)
	var texts [][]byte
	for _, p := range paths {
		if err := s.addOpen(p, unix.O_RDONLY); err != nil {
			return nil, err
		}
		b := make([]byte, size)
		texts = append(texts, b)
		s.addBuffer("reading "+p, unix.SYS_READ, b)
	}
	err := s.run(0, nil)
	runtime.KeepAlive(userns)
	if err != nil {
		return nil, err
	}
	var out []Setting
	for i, p := range paths {
		n := s.calls[2*i+2].ret // each after its open, and all after the join
		out = append(out, Setting{p, string(texts[i][:n])})
	}
	return out, nil
}

// inside begins a script in a user namespace. A thread of ours could not join
// one: only a process that has no other thread can (setns(2)).
func inside(userns *os.File) *script {
	s := new(script)
	s.add("joining the user namespace", unix.SYS_SETNS, userns.Fd(), unix.CLONE_NEWUSER)
	return s
}
