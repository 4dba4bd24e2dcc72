package guest

import (
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/jailinit"
	"agentjail.dev/runtime/spec/rings"
)

// A final is the end of the step: the restrictions that come last, since the step itself could not
// work under them, and the program that it becomes.
//
// Go's runtime maps memory and starts threads at any time, and dies if a resource limit refuses
// that. So the arguments of these system calls are made before the first call, and nothing is
// allocated from then on, not even for a message: a hard limit cannot be raised again.
type final struct {
	limits     []limit
	filter     unix.SockFprog // of length 0: none
	path       *byte
	argv, envv []*byte
	name       string // the program's path
	args, env  []string
	text       []byte // room for a message
}

// messageRoom is more than any message of a final takes beside the program's path.
const messageRoom = 512

// newFinal prepares all that run needs. argv has at least one entry.
func newFinal(o *jailinit.Orders, path string, argv, envv []string) (*final, error) {
	f := &final{name: path, args: argv, env: envv, text: make([]byte, 0, len(path)+messageRoom)}
	var err error
	if f.limits, err = limitsOf(o.Rlimits); err != nil {
		return nil, ringRefusal(rings.Resources, err.Error())
	}
	if len(o.Filter) > 0 {
		if f.filter, err = program(o.Filter); err != nil {
			return nil, ringRefusal(rings.Kernel, innerFilter+err.Error())
		}
	}
	if f.path, err = unix.BytePtrFromString(path); err != nil {
		return nil, err
	}
	if f.argv, err = syscall.SlicePtrFromStrings(argv); err != nil {
		return nil, err
	}
	f.envv, err = syscall.SlicePtrFromStrings(envv)
	return f, err
}

// become runs a final. It returns only by ending the process.
func (f *final) become() {
	// Go's runtime has raised the soft limit on open files. This puts it back, as it
	// does before every program, and then finds none of that name.
	_ = syscall.Exec("", nil, nil)
	// With one processor, which this thread holds until the end, no other thread of
	// the runtime's runs: none starts a thread or collects garbage.
	runtime.GOMAXPROCS(1)
	at, i, errno := f.run()
	f.fail(at, i, errno)
}

// A stage is the step of a final that failed.
type stage int

const (
	atLimit stage = iota
	atFilter
	atExec
)

// run makes the system calls, none of which notifies Go's scheduler: it would hand the processor to
// another thread. It returns what failed.
//
//go:nosplit
func (f *final) run() (at stage, i int, errno syscall.Errno) {
	if at, i, errno = f.restrict(); errno != 0 || at != atExec {
		return at, i, errno
	}
	_, _, errno = unix.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(f.path)), uintptr(unsafe.Pointer(&f.argv[0])),
		uintptr(unsafe.Pointer(&f.envv[0])))
	return atExec, 0, errno
}

// restrict sets the limits and loads the filter. It returns atExec where nothing is between this
// and the program; else what failed, for a limit also which, and 0 where the limit is another than
// was set.
//
// The limits come before the filter, which may refuse to set one.
//
//go:nosplit
func (f *final) restrict() (at stage, i int, errno syscall.Errno) {
	for i := range f.limits {
		l := &f.limits[i]
		if _, _, errno := unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, l.resource, uintptr(unsafe.Pointer(&l.want)), 0, 0, 0); errno != 0 {
			return atLimit, i, errno
		}
		_, _, errno := unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, l.resource, 0, uintptr(unsafe.Pointer(&l.have)), 0, 0)
		if errno != 0 || l.have.Cur != l.want.Cur || l.have.Max != l.want.Max {
			return atLimit, i, errno
		}
	}
	if f.filter.Len > 0 {
		if errno := rawAddFilter(&f.filter); errno != 0 {
			return atFilter, 0, errno
		}
	}
	return atExec, 0, 0
}

// innerFilter begins messages about the filter that is loaded last.
const innerFilter = "the inner filter: "

// fail ends the process with a message, within the memory that there is.
func (f *final) fail(at stage, i int, errno syscall.Errno) {
	status := jailinit.ExitRefused
	b := append(f.text[:0], "agentjail: refusing to start: "...)
	switch at {
	case atLimit:
		b = append(append(b, rings.Resources.String()...), ": "...)
		b = f.limits[i].appendWhy(b, errno)
	case atFilter:
		b = append(append(b, rings.Kernel.String()...), ": "+innerFilter...)
		b = append(b, filterError(errno)...)
	case atExec:
		status = jailinit.ExitNotExecutable
		if errno == unix.ENOENT {
			status = jailinit.ExitNotFound
		}
		b = append(f.text[:0], "exec "...)
		b = append(b, f.name...)
		b = append(b, ": "...)
		b = append(b, errno.Error()...)
	}
	b = append(b, '\n')
	_, _, _ = unix.RawSyscall(unix.SYS_WRITE, 2, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	for {
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(status), 0, 0)
	}
}

// appendWhy appends the message for a limit that could not be set.
func (l *limit) appendWhy(b []byte, errno syscall.Errno) []byte {
	b = append(b, limitName...)
	b = strconv.AppendUint(b, uint64(l.resource), 10)
	if errno != 0 {
		return append(append(b, ": "...), errno.Error()...)
	}
	return appendIsNot(b, l.have, l.want)
}
