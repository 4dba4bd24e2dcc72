// Package readback reads the seccomp filters that the kernel holds for a running
// process: not what was written down for it, nor what some library would make of
// that, but the programs that answer its calls.
package readback

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"agentjail.dev/seccomp/bpf"
)

// errCannot means that this kernel or this caller cannot read filters, whatever
// the process.
var errCannot = errors.New("the kernel does not show the filters of processes")

// patience is how long a process may take to stop. One that a control group
// has frozen does not.
const patience = 10 * time.Second

// Filters returns the filters of a process's first thread, the oldest first. The
// process is stopped for the moment, as by a debugger that attaches: calls that
// wait are continued, but for the few that a stop interrupts (epoll_wait and
// others, see signal(7)).
//
// It takes CAP_SYS_ADMIN on the host and a kernel with CONFIG_CHECKPOINT_RESTORE
// (Linux 4.4); otherwise errCannot is in the error's chain. Other errors: the
// process has ended, is being debugged, or is frozen.
func Filters(pid int) ([][]bpf.Insn, error) {
	type result struct {
		progs [][]bpf.Insn
		err   error
	}
	done := make(chan result, 1)
	go func() {
		// A tracer is a thread. This one ends with the goroutine, so that the
		// kernel lets go of the process however this ends.
		runtime.LockOSThread()
		progs, err := read(pid)
		done <- result{progs, err}
	}()
	r := <-done
	if r.err != nil {
		return nil, fmt.Errorf("the filters of process %d: %w", pid, r.err)
	}
	return r.progs, nil
}

func read(pid int) ([][]bpf.Insn, error) {
	if err := ptrace(unix.PTRACE_SEIZE, pid, 0, nil); err != nil {
		return nil, fmt.Errorf("attaching: %w", err)
	}
	if err := ptrace(unix.PTRACE_INTERRUPT, pid, 0, nil); err != nil {
		return nil, fmt.Errorf("stopping it: %w", err)
	}
	signal, err := stopped(pid)
	if err != nil {
		return nil, err
	}
	progs, err := dump(pid)
	// It gets the signal that stopped it, if that was not ours.
	if derr := ptrace(unix.PTRACE_DETACH, pid, uintptr(signal), nil); err == nil && derr != nil {
		err = fmt.Errorf("letting go of it: %w", derr)
	}
	return progs, err
}

// stopped waits until the process has stopped, and returns the signal that it
// stopped for, which is still to be delivered; 0 for our own.
func stopped(pid int) (unix.Signal, error) {
	for end := time.Now().Add(patience); ; {
		var st unix.WaitStatus
		got, err := unix.Wait4(pid, &st, unix.WALL|unix.WNOHANG, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, fmt.Errorf("waiting until it stops: %w", err)
		case got == pid && !st.Stopped():
			return 0, unix.ESRCH
		case got == pid && int(st)>>16 == unix.PTRACE_EVENT_STOP:
			return 0, nil
		case got == pid:
			return st.StopSignal(), nil
		case time.Now().After(end):
			return 0, errors.New("it does not stop (a paused jail must be resumed first)")
		default:
			time.Sleep(200 * time.Microsecond)
		}
	}
}

// dump reads the filters of a stopped process.
func dump(pid int) ([][]bpf.Insn, error) {
	var progs [][]bpf.Insn
	buf := make([]bpf.Insn, bpf.MaxInsns)
	for i := uintptr(0); ; i++ {
		// The oldest filter has index 0 (kernel/seccomp.c, get_nth_filter).
		n, err := getFilter(pid, i, buf)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) && i == 0 { // EINVAL: no filter at all
			return progs, nil
		}
		if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EIO) {
			return nil, fmt.Errorf("%w: %w", errCannot, err)
		}
		if err != nil {
			return nil, fmt.Errorf("reading filter %d: %w", i, err)
		}
		progs = append(progs, slices.Clone(buf[:n]))
	}
}

func getFilter(pid int, index uintptr, buf []bpf.Insn) (int, error) {
	n, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SECCOMP_GET_FILTER, uintptr(pid), index,
		uintptr(unsafe.Pointer(&buf[0])), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

func ptrace(request, pid int, data uintptr, addr unsafe.Pointer) error {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(pid), uintptr(addr), data, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
