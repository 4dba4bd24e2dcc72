// Package fork starts processes in ways that os/exec cannot: as a member of a
// time namespace, or alone in a new user namespace that only serves as a
// mapping for idmapped mounts.
//
// os/exec clones with CLONE_VM. Such a child shares its parent's address space
// until it execs, and a task that shares one may not change its time namespace
// (time_namespaces(7); kernel/time/namespace.c timens_install). Here the child
// is a plain copy. Between clone and exec it runs only raw system calls on
// memory prepared beforehand, as the Go syscall package's own child does.
package fork

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These block signals around the clone and reset handlers in the child, so that
// no Go signal handler runs in a process without a scheduler.

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// Cmd is a program to start. It inherits the standard files, Files, and nothing
// else: every other file of a Go program is close-on-exec, and CloseOnExec makes sure
// of those that were inherited.
type Cmd struct {
	Path string
	Args []string // with Args[0]
	Env  []string
	// JoinTime is the time namespace to run in, or nil.
	JoinTime *os.File
	// NewTime, if not empty, makes a new time namespace with these lines for
	// /proc/self/timens_offsets and runs in it. The calling thread's later children
	// may be in it, too: its goroutine stays locked to it.
	NewTime string
	// Stdio take the place of our standard files, where not nil.
	Stdio [3]*os.File
	// Files become the descriptors from 3 on.
	Files []*os.File
	// DieWithParent sends SIGKILL when the calling thread ends. The caller
	// locks its goroutine to the thread.
	DieWithParent bool
}

// childArgs is all that the child touches.
type childArgs struct {
	path         *byte
	argv, envv   **byte
	joinTime     uintptr // fd or ^0
	offsets      *byte
	offsetsLen   uintptr
	offsetsPath  *byte
	childrenPath *byte
	stdio        [firstFile]uintptr // fd or ^0
	files        []uintptr
	pdeathsig    bool
	parent       int
	failFD       uintptr
}

// Process is a started child.
type Process struct {
	Pid  int
	wait func(pid int) (int, error) // nil: by wait4(2)
}

// Reaper has to be set, before the first start, where something else in this process waits for all
// children. It is called before each start. Of the functions that it returns, wait returns a
// child's status, and stop cancels the wait. The status is 128 and the signal's number for a child
// that was killed.
var Reaper func() (wait func(pid int) (int, error), stop func())

// RunCommand runs a command of package exec. It has to be set where Reaper is: a command that
// something else has waited for fails with ECHILD.
var RunCommand = (*exec.Cmd).Run

// newProcess returns the process that is started next. stop is for a start that fails.
func newProcess() (p *Process, stop func()) {
	if Reaper == nil {
		return new(Process), func() {}
	}
	wait, stop := Reaper()
	return &Process{wait: wait}, stop
}

// Start starts c. An error of a step in the child is returned here, with the
// step's name.
func (c *Cmd) Start() (*Process, error) {
	if c.JoinTime == nil && c.NewTime == "" {
		return c.startShared()
	}
	if c.JoinTime == nil && execMovesTime() {
		return c.startInTime()
	}
	p, err := c.startCopied()
	if err != nil {
		return nil, fmt.Errorf("starting %q: %w", c.Path, err)
	}
	return p, nil
}

// startCopied starts a child with a copy of our memory, which enters its time namespace before it
// execs.
func (c *Cmd) startCopied() (*Process, error) {
	a, err := c.prepare()
	if err != nil {
		return nil, err
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	defer unix.Close(pipe[0])
	files, err := c.passFiles(a, pipe[1])
	if err != nil {
		closeAll(files)
		unix.Close(pipe[1])
		return nil, err
	}
	p, stop := newProcess()
	syscall.ForkLock.Lock()
	pid, errno := forkExec(a)
	syscall.ForkLock.Unlock()
	runtime.KeepAlive(a)
	runtime.KeepAlive(c)
	unix.Close(pipe[1])
	closeAll(files)
	if errno != 0 {
		stop()
		return nil, fmt.Errorf("clone: %w", errno)
	}
	if err := failure(pipe[0]); err != nil {
		stop()
		var ws syscall.WaitStatus
		_ = wait4(pid, &ws, 0) // fails where the reaper was first
		return nil, err
	}
	p.Pid = pid
	return p, nil
}

// prepare makes what the child needs but its files.
func (c *Cmd) prepare() (*childArgs, error) {
	path, err := syscall.BytePtrFromString(c.Path)
	if err != nil {
		return nil, err
	}
	argv, err := syscall.SlicePtrFromStrings(c.Args)
	if err != nil {
		return nil, err
	}
	envv, err := syscall.SlicePtrFromStrings(c.Env)
	if err != nil {
		return nil, err
	}
	a := &childArgs{
		path: path, argv: &argv[0], envv: &envv[0], joinTime: ^uintptr(0),
		stdio:     [firstFile]uintptr{^uintptr(0), ^uintptr(0), ^uintptr(0)},
		pdeathsig: c.DieWithParent, parent: os.Getpid(),
	}
	if c.JoinTime != nil {
		a.joinTime = c.JoinTime.Fd()
	}
	if c.NewTime != "" {
		b := []byte(c.NewTime)
		a.offsets, a.offsetsLen = &b[0], uintptr(len(b))
		a.offsetsPath, _ = syscall.BytePtrFromString("/proc/self/timens_offsets")
		a.childrenPath, _ = syscall.BytePtrFromString("/proc/self/ns/time_for_children")
	}
	return a, nil
}

// passFiles copies the child's files, and the pipe for its error, above the numbers that the files
// will have there. The copies are the caller's to close, also after an error.
func (c *Cmd) passFiles(a *childArgs, fail int) ([]uintptr, error) {
	var own []int // which of the standard files are set
	passed := c.Files
	for i, f := range c.Stdio {
		if f != nil {
			own, passed = append(own, i), append(passed[:len(passed):len(passed)], f)
		}
	}
	files, err := above(firstFile+len(c.Files), passed, fail)
	if err != nil {
		return files, err
	}
	a.files, a.failFD = files[:len(c.Files)], files[len(passed)]
	for i, n := range own {
		a.stdio[n] = files[len(c.Files)+i]
	}
	return files, nil
}

// failure reads the error of a step in the child; nil is for an end of file, since exec closed the
// pipe.
func failure(pipe int) error {
	var fail [8]byte
	if n, _ := readFull(pipe, fail[:]); n != len(fail) {
		return nil
	}
	return fmt.Errorf("%s: %w", steps[fail[0]], syscall.Errno(fail[4])|syscall.Errno(fail[5])<<8)
}

// startShared goes by the standard library, whose child shares our memory until it
// execs: a copy costs a page fault for every page that either writes to, too.
func (c *Cmd) startShared() (*Process, error) {
	files := make([]uintptr, firstFile, firstFile+len(c.Files))
	for i := range files {
		files[i] = uintptr(i)
		if c.Stdio[i] != nil {
			files[i] = c.Stdio[i].Fd()
		}
	}
	for _, f := range c.Files {
		files = append(files, f.Fd())
	}
	attr := &syscall.ProcAttr{Env: c.Env, Files: files, Sys: &syscall.SysProcAttr{}}
	if c.DieWithParent {
		attr.Sys.Pdeathsig = syscall.SIGKILL
	}
	p, stop := newProcess()
	var err error
	p.Pid, err = syscall.ForkExec(c.Path, c.Args, attr)
	runtime.KeepAlive(c)
	if err != nil {
		stop()
		return nil, fmt.Errorf("starting %q: %w", c.Path, err)
	}
	return p, nil
}

// startInTime makes the time namespace for the children of the calling thread, and
// leaves it to exec to move the child there.
func (c *Cmd) startInTime() (*Process, error) {
	if err := unix.Unshare(unix.CLONE_NEWTIME); err != nil {
		return nil, fmt.Errorf("starting %q: %s: %w", c.Path, steps[stepUnshare], err)
	}
	own := fmt.Sprintf("/proc/%d/", unix.Gettid())
	if err := writeOnce(own+"timens_offsets", c.NewTime); err != nil {
		return nil, fmt.Errorf("starting %q: %s: %w", c.Path, steps[stepOffsets], err)
	}
	p, err := c.startShared()
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, steps[stepExec])
	}
	// It has come to its exec, or it would not have been started.
	err = movedTo(own+"ns/time_for_children", p.Pid)
	if err != nil {
		_ = unix.Kill(p.Pid, unix.SIGKILL)
		_, _ = p.Wait()
		return nil, fmt.Errorf("starting %q: %s: %w", c.Path, steps[stepJoin], err)
	}
	return p, nil
}

// movedTo returns an error if a process is not in this time namespace. A process that has ended is
// in none, and is no error: it ran where exec put it.
//
// The kernel lets the parent of a vfork go on before it has moved the child (begin_new_exec:
// exec_mmap, then exec_task_namespaces), so that it is looked for a while.
func movedTo(ns string, pid int) error {
	var err error
	for end := time.Now().Add(moveWait); ; time.Sleep(moveWait / 10000) {
		if err = inTime(ns, pid); !errors.Is(err, errStayed) || time.Now().After(end) {
			return err
		}
	}
}

// moveWait bounds how long exec may take to move a process, of which the machine may have many
// others to run.
const moveWait = time.Second

var errStayed = errors.New("it stayed in ours")

func inTime(ns string, pid int) error {
	var want, got unix.Stat_t
	if err := unix.Stat(ns, &want); err != nil {
		return err
	}
	err := unix.Stat(fmt.Sprintf("/proc/%d/ns/time", pid), &got)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ESRCH):
		return nil
	case err == nil && (want.Dev != got.Dev || want.Ino != got.Ino):
		return errStayed
	}
	return err
}

// execMovesTime reports whether exec puts a process whose memory was its parent's into
// the time namespace for children (Linux 6.3, fs/exec.c exec_task_namespaces).
// Before, the fork itself does, and only for a copy.
var execMovesTime = sync.OnceValue(func() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var major, minor int
	_, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
	return err == nil && (major > 6 || major == 6 && minor >= 3)
})

// firstFile is the first descriptor after the standard ones.
const firstFile = 3

// above duplicates files, and one more descriptor, to numbers from min on.
func above(min int, files []*os.File, last int) ([]uintptr, error) {
	var out []uintptr
	for i := range len(files) + 1 {
		fd := last
		if i < len(files) {
			fd = int(files[i].Fd())
		}
		n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, min)
		if err != nil {
			return out, fmt.Errorf("duplicating a file: %w", err)
		}
		out = append(out, uintptr(n))
	}
	return out, nil
}

func closeAll(fds []uintptr) {
	for _, fd := range fds {
		unix.Close(int(fd))
	}
}

// Wait waits for the process to end and returns its status: 128 and the
// signal's number if it was killed.
func (p *Process) Wait() (int, error) {
	if p.wait != nil {
		return p.wait(p.Pid)
	}
	var ws syscall.WaitStatus
	if err := wait4(p.Pid, &ws, 0); err != nil {
		return -1, err
	}
	if ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return ws.ExitStatus(), nil
}

// The steps of the child, for messages.
const (
	stepDeath = iota
	stepStdio
	stepUnshare
	stepOffsets
	stepJoin
	stepFiles
	stepExec
)

var steps = [...]string{
	"setting the parent-death signal", "setting the standard files", "making a time namespace",
	"setting the time offsets", "joining the time namespace", "passing files", "exec",
}

//go:noinline
//go:norace
//go:nocheckptr
func forkExec(a *childArgs) (int, syscall.Errno) {
	beforeFork()
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		afterFork()
		return int(pid), errno
	}
	afterForkInChild()
	var (
		step, fd, i uintptr
		fail        [8]byte
	)
	if a.pdeathsig {
		step = stepDeath
		if _, _, errno = syscall.RawSyscall6(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0,
			0); errno != 0 {
			goto failed
		}
		// The parent may have gone before the signal was set.
		if ppid, _, _ := syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0); int(ppid) != a.parent {
			errno = syscall.ESRCH
			goto failed
		}
	}
	step = stepStdio
	for i = 0; i < firstFile; i++ {
		if a.stdio[i] == ^uintptr(0) {
			continue
		}
		if _, _, errno = syscall.RawSyscall(syscall.SYS_DUP3, a.stdio[i], i, 0); errno != 0 {
			goto failed
		}
	}
	if a.offsets != nil {
		step = stepUnshare
		if _, _, errno = syscall.RawSyscall(syscall.SYS_UNSHARE, unix.CLONE_NEWTIME, 0, 0); errno != 0 {
			goto failed
		}
		step = stepOffsets
		if fd, _, errno = syscall.RawSyscall6(syscall.SYS_OPENAT, ^uintptr(99), uintptr(unsafe.Pointer(a.offsetsPath)),
			syscall.O_WRONLY|syscall.O_CLOEXEC, 0, 0, 0); errno != 0 {
			goto failed
		}
		if _, _, errno = syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(a.offsets)), a.offsetsLen); errno != 0 {
			goto failed
		}
		// unshare only prepares the namespace for children. Entering it here
		// makes this the same on every kernel: since Linux 6.3 exec would
		// enter it, before that only the next fork.
		step = stepJoin
		if fd, _, errno = syscall.RawSyscall6(syscall.SYS_OPENAT, ^uintptr(99), uintptr(unsafe.Pointer(a.childrenPath)),
			syscall.O_RDONLY|syscall.O_CLOEXEC, 0, 0, 0); errno != 0 {
			goto failed
		}
		if _, _, errno = syscall.RawSyscall(unix.SYS_SETNS, fd, unix.CLONE_NEWTIME, 0); errno != 0 {
			goto failed
		}
	}
	if a.joinTime != ^uintptr(0) {
		step = stepJoin
		if _, _, errno = syscall.RawSyscall(unix.SYS_SETNS, a.joinTime, unix.CLONE_NEWTIME, 0); errno != 0 {
			goto failed
		}
	}
	// Last, as the namespace's descriptor may have one of these numbers.
	step = stepFiles
	for i = 0; i < uintptr(len(a.files)); i++ {
		if _, _, errno = syscall.RawSyscall(syscall.SYS_DUP3, a.files[i], firstFile+i, 0); errno != 0 {
			goto failed
		}
	}
	step = stepExec
	_, _, errno = syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(a.path)), uintptr(unsafe.Pointer(a.argv)),
		uintptr(unsafe.Pointer(a.envv)))
failed:
	fail[0] = byte(step)
	fail[4] = byte(errno)
	fail[5] = byte(errno >> 8)
	syscall.RawSyscall(syscall.SYS_WRITE, a.failFD, uintptr(unsafe.Pointer(&fail[0])), 8)
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 253, 0, 0)
	}
}

func readFull(fd int, b []byte) (int, error) {
	n := 0
	for n < len(b) {
		m, err := unix.Read(fd, b[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || m == 0 {
			return n, err
		}
		n += m
	}
	return n, nil
}

func wait4(pid int, ws *syscall.WaitStatus, options int) error {
	for {
		_, err := syscall.Wait4(pid, ws, options, nil)
		if err != syscall.EINTR {
			return err
		}
	}
}

// CloseOnExec marks every file above the standard ones, so that nothing that
// the caller of this program left open reaches a delegate or a jail
// (CVE-2024-21626 was such a file).
func CloseOnExec() error {
	err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EINVAL) { // before Linux 5.11
		return err
	}
	d, err := os.Open("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("listing open files: %w", err)
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("listing open files: %w", err)
	}
	for _, n := range names {
		var fd int
		if _, err := fmt.Sscan(n, &fd); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
