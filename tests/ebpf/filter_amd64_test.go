package ebpf

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/tests/env"
)

// TestCollectorFilter: both halves of a collector that works have a filter of their own, on every thread. A call outside of it is refused, whatever
// has the half make it. Meanwhile events arrive in journals, also where those are rotated.
func TestCollectorFilter(t *testing.T) {
	needsPrograms(t)
	p := newPlace(t)
	b := p.bundle(t)
	caller, conf := p.caller(p.runtime(t), ""), filepath.Join(p.base, "rotate.toml")
	env.Check(t, os.WriteFile(conf, []byte("journal.size = \"128K\"\n"), 0o600))
	caller.Args = append(caller.Args, "--config", conf)
	c := p.collect(t, "--no-pins")
	// Each event has 500 bytes of arguments: more of them than a journal's first file has room for.
	end := stays(t, b, caller, `
i=0; while [ $i -lt 200 ]; do i=$((i+1)); /bin/busybox true event $i `+strings.Repeat("x", 480)+`; done; /bin/busybox true last`)
	var jail string
	c.await(t, "the last event", func() bool {
		e := c.find(func(e *journal.Event) bool {
			return e.Kind == journal.ProcessExec && len(e.Argv) > 2 && e.Argv[2] == "last"
		})
		if e != nil {
			jail = e.Jail
		}
		return e != nil
	})
	if said := c.said.String(); strings.Contains(said, "not permitted") {
		t.Errorf("the collector misses a call:\n%s", said)
	}
	if files, err := filepath.Glob(journal.DefaultDir + "/*" + jail + "@*"); jail == "" || err != nil || len(files) < 2 {
		t.Errorf("the journal of jail %q was not rotated: %v, %v", jail, files, err)
	}
	if out, err := end(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	for what, pid := range map[string]int{"reader": c.reader, "writer": c.cmd.Process.Pid} {
		tasks, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
		env.Check(t, err)
		for _, task := range tasks {
			status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/task/" + task.Name() + "/status")
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil || !strings.Contains(string(status), "\nSeccomp:\t2\n") || !strings.Contains(string(status), "\nNoNewPrivs:\t1\n") {
				t.Errorf("thread %s of the %s has no filter: %v\n%s", task.Name(), what, err, status)
			}
		}
	}
	// Last, since what was to be called is not: the half may end.
	for what, pid := range map[string]int{"reader": c.reader, "writer": c.cmd.Process.Pid} {
		for _, call := range []struct {
			nr   uint64
			args [3]uint64
			want unix.Errno
		}{
			{unix.SYS_GETPPID, [3]uint64{}, unix.EPERM}, // harmless, and in no list
			{unix.SYS_BPF, [3]uint64{unix.BPF_PROG_LOAD}, unix.EPERM},
			{unix.SYS_SETNS, [3]uint64{^uint64(0)}, unix.EPERM}, // EBADF where it passes
		} {
			if got := calls(t, pid, call.nr, call.args); got != call.want {
				t.Errorf("the %s's call %d: %v, not %v", what, call.nr, got, call.want)
			}
		}
	}
}

// calls has a process make a system call in place of the next one of its own, and returns the error.
func calls(t *testing.T, pid int, nr uint64, args [3]uint64) unix.Errno {
	t.Helper()
	runtime.LockOSThread() // the tracer is a thread
	defer runtime.UnlockOSThread()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("tracing %d: %v", pid, err)
		}
	}
	must(unix.PtraceSeize(pid))
	defer func() { _ = unix.PtraceDetach(pid) }()
	must(unix.PtraceInterrupt(pid))
	stopped := func() {
		t.Helper()
		var ws unix.WaitStatus
		_, err := unix.Wait4(pid, &ws, unix.WALL, nil)
		must(err)
		if !ws.Stopped() {
			t.Fatalf("process %d has ended: %#x", pid, ws)
		}
	}
	stopped()
	// To the entry of a call, and to its end.
	for {
		must(unix.PtraceSyscall(pid, 0))
		stopped()
		var regs unix.PtraceRegs
		must(unix.PtraceGetRegs(pid, &regs))
		if int64(regs.Rax) != -int64(unix.ENOSYS) { // a signal's stop
			continue
		}
		was := regs
		regs.Orig_rax, regs.Rdi, regs.Rsi, regs.Rdx = nr, args[0], args[1], args[2]
		must(unix.PtraceSetRegs(pid, &regs))
		must(unix.PtraceSyscall(pid, 0))
		stopped()
		must(unix.PtraceGetRegs(pid, &regs))
		got := regs.Rax
		// It makes its own call again.
		was.Rax, was.Rip = was.Orig_rax, was.Rip-2
		must(unix.PtraceSetRegs(pid, &was))
		return unix.Errno(-int64(got))
	}
}
