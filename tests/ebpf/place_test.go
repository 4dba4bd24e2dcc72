// Package ebpf tries the eBPF programs on jails: that they refuse what both system call filters, taken away, would have refused, and that they
// report what the filters refuse. The first needs a kernel that takes such programs; the virtual machines' does.
package ebpf

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	cilium "github.com/cilium/ebpf"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/observe/ebpf"
	ebpfcollector "agentjail.dev/runtime/observe/ebpf/collector"
	"agentjail.dev/runtime/observe/ebpf/status"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// A place has the programs under test.
type place struct {
	base, bin string
	// loaded are the eBPF programs that its collectors held.
	loaded []cilium.ProgramID
}

func TestMain(m *testing.M) { engine.Exit(m.Run(), engine.RemoveBuilt()) }

func newPlace(t *testing.T) *place {
	t.Helper()
	engine.NeedsRoot(t, "it runs jails and loads programs into the kernel")
	base := engine.TempDir(t, "/var/tmp", "agentjail-ebpf-")
	dir, err := engine.BinDir() // runtimes are run from where only root can write
	env.Check(t, err)
	p := &place{base: base, bin: filepath.Join(dir, "ebpf")}
	t.Cleanup(func() { os.RemoveAll(p.bin) })
	env.Check(t, engine.Build("./cmd/agentjail-journal", filepath.Join(p.bin, "agentjail-journal")))
	return p
}

// needsPrograms skips a test where the kernel takes no programs. It returns what they can do, and why no more.
func needsPrograms(t *testing.T) (ebpf.Ability, error) {
	t.Helper()
	can, err := ebpf.Probe()
	if can == ebpf.Absent {
		t.Skipf("no programs on this kernel: %v", err)
	}
	return can, err
}

// workspace is a directory of a user's, for a jail to be mounted in.
func (p *place) workspace(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(p.base, "work")
	env.Check(t, errors.Join(os.Mkdir(dir, 0o777), os.Chown(dir, 1000, 1000)))
	return dir
}

// runtime is agentjail, built with flags.
func (p *place) runtime(t *testing.T, flags ...string) string {
	t.Helper()
	out := filepath.Join(p.bin, "agentjail")
	if len(flags) > 0 {
		out = filepath.Join(p.bin, "without", "agentjail")
	}
	env.Check(t, engine.BuildAgentjail(out, flags...))
	return out
}

// bundle is of a jail that runs the probe.
func (p *place) bundle(t *testing.T, args ...string) *engine.Bundle {
	t.Helper()
	b := engine.NewBundle(t, p.base)
	b.Spec.Process.User = specs.User{}
	b.Spec.Process.Args = append([]string{"/usr/local/bin/probe"}, args...)
	return b
}

// caller runs a runtime without the rings that are named.
func (p *place) caller(path, without string) engine.Caller {
	return engine.Caller{Path: path, Args: []string{"--root", filepath.Join(p.base, "state")}, Env: []string{"AGENTJAIL_TEST_WITHOUT=" + without}}
}

// jail runs the probe in a jail without the rings that are named, and returns what became of each try, to who lets the jail end.
func (p *place) jail(t *testing.T, path, without string, args ...string) (end func() map[string]outcome) {
	t.Helper()
	return probes[outcome](t, p.bundle(t), p.caller(path, without), args...)
}

// probes runs the probe in a bundle's jail, and returns what it found, to who lets the jail end.
func probes[V any](t *testing.T, b *engine.Bundle, c engine.Caller, args ...string) (end func() map[string]V) {
	t.Helper()
	last := stays(t, b, c, "probe '"+strings.Join(args, "' '")+"'")
	return func() map[string]V {
		t.Helper()
		out := env.Get(t, last)
		return found[V](t, out)
	}
}

// found is what the probe printed.
func found[V any](t *testing.T, text string) map[string]V {
	t.Helper()
	got := map[string]V{}
	if err := json.Unmarshal([]byte(text), &got); err != nil || len(got) == 0 {
		t.Fatalf("the probe found %q: %v", text, err)
	}
	return got
}

// stays runs a shell's script in a jail that stays until the returned function is called, which returns what the jail printed, and with an error
// what the runtime printed. The collector finds a jail by its record: events that it reads when that is gone belong to no jail.
func stays(t *testing.T, b *engine.Bundle, c engine.Caller, script string) (end func() (string, error)) {
	t.Helper()
	b.Spec.Process.Args = []string{"sh", "-c", script + "\nstatus=$?; read -r end; exit $status"}
	b.Write(t)
	id := b.ID()
	ctx, cancel := context.WithTimeout(context.Background(), env.CommandWait)
	cmd := b.Command(ctx, c, "run", "--bundle", b.Dir, id)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	end = sync.OnceValues(func() (string, error) {
		defer cancel()
		_, _ = in.Write([]byte("\n")) // fails where the jail has failed, which Wait reports
		in.Close()
		err := cmd.Wait()
		_, _, _ = b.Call(t, c, "delete", "--force", id) // what a failed run left
		if err != nil {
			err = fmt.Errorf("%w: %s", err, &errOut)
		}
		return out.String(), err
	})
	t.Cleanup(func() {
		if out, err := end(); err != nil && t.Failed() {
			t.Logf("the jail %s: %v: %s", id, err, out)
		}
	})
	return end
}

type outcome struct {
	Errno string `json:"errno"`
	Note  string `json:"note"`
}

// A collector is agentjail-journal at work.
type collector struct {
	cmd *exec.Cmd
	// reader is its child.
	reader int
	// ending are the eBPF programs that end with it: none where they are pinned.
	ending []cilium.ProgramID

	mu     sync.Mutex
	events []journal.Event
	said   bytes.Buffer
	more   chan struct{} // has an element when there is something new
	done   chan struct{}
}

// collect starts the collector and waits until its programs act.
func (p *place) collect(t *testing.T, args ...string) *collector {
	t.Helper()
	c := &collector{cmd: exec.Command(filepath.Join(p.bin, "agentjail-journal"), append([]string{"--print"}, args...)...), more: make(chan struct{}, 1), done: make(chan struct{})}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout := env.Get(t, c.cmd.StdoutPipe)
	stderr := env.Get(t, c.cmd.StderrPipe)
	env.Check(t, c.cmd.Start())
	t.Cleanup(func() { c.kill(t) })
	var both sync.WaitGroup
	both.Add(2)
	go func() { defer both.Done(); c.read(stdout) }()
	go func() {
		defer both.Done()
		for s := bufio.NewScanner(stderr); s.Scan(); c.tell() {
			c.mu.Lock()
			c.said.WriteString(s.Text() + "\n")
			c.mu.Unlock()
		}
	}()
	go func() { both.Wait(); close(c.done); c.tell() }()
	c.await(t, "the programs act", func() bool { return strings.Contains(c.said.String(), "programs act on: ") })
	c.reader = child(t, c.cmd.Process.Pid, ebpfcollector.ReaderVerb)
	held := programs(t, c.cmd.Process.Pid, c.reader)
	p.loaded = append(p.loaded, held...)
	if slices.Contains(args, "--no-pins") {
		c.ending = held
	}
	return c
}

func (c *collector) read(stdout interface{ Read([]byte) (int, error) }) {
	for d := json.NewDecoder(stdout); ; c.tell() {
		var e journal.Event
		if d.Decode(&e) != nil {
			return
		}
		c.mu.Lock()
		c.events = append(c.events, e)
		c.mu.Unlock()
	}
}

func (c *collector) tell() {
	select {
	case c.more <- struct{}{}:
	default:
	}
}

// await waits until something holds of what the collector has reported.
func (c *collector) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	end := time.After(env.Patience)
	for {
		c.mu.Lock()
		ok, said := holds(), c.said.String()
		c.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-c.more:
		case <-end:
			t.Fatalf("not within %v: %s; %d events; it printed:\n%s", env.Patience, what, len(c.events), said)
		}
		select {
		case <-c.done:
			if !holds() {
				t.Fatalf("the collector ended before: %s; it printed:\n%s", what, c.said.String())
			}
			return
		default:
		}
	}
}

// kill ends the collector as a crash would. Its reader, which holds the other end of what it states, ends with it, and so do programs that are
// not pinned.
func (c *collector) kill(t *testing.T) {
	t.Helper()
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
	<-c.done
	awaitDetached(t, c.ending)
}

// unloadAtEnd unloads the programs once the collectors that are started after it have been killed, and waits until they have ended.
func (p *place) unloadAtEnd(t *testing.T, pins string) {
	t.Cleanup(func() {
		if err := ebpfcollector.Unload(pins); err != nil {
			t.Error(err)
		}
		awaitDetached(t, p.loaded)
		if status.Acting() {
			t.Error("programs still act after they were unloaded")
		}
	})
}

// find is an event that holds, or nil.
func (c *collector) find(holds func(e *journal.Event) bool) *journal.Event {
	for i := range c.events {
		if holds(&c.events[i]) {
			return &c.events[i]
		}
	}
	return nil
}

// TestRefusedCalls: what a jail's filter refuses is reported, with number, arguments, errno and program, on every kernel that has tracepoints.
func TestRefusedCalls(t *testing.T) {
	p := newPlace(t)
	path := p.runtime(t)
	c := p.collect(t, "--syscalls", "--no-pins")
	calls := []string{"io_uring_setup", "keyctl", "userfaultfd"}
	const errno = "ENOSYS"
	end := p.jail(t, path, "", append([]string{"attempts"}, calls...)...)
	for _, name := range calls {
		c.await(t, name, func() bool {
			return c.find(func(e *journal.Event) bool {
				return e.Kind == journal.SyscallRefused && e.Syscall == name && e.Errno == errno && e.Program == "probe" && e.Number != nil && len(e.Arguments) == 6 && e.Jail != ""
			}) != nil
		})
	}
	c.await(t, "the first argument", func() bool {
		return c.find(func(e *journal.Event) bool { return e.Syscall == "io_uring_setup" && e.Arguments[0] == "0x4" }) != nil
	})
	got := end()
	for _, name := range calls {
		if got[name].Errno != errno {
			t.Errorf("%s: %+v, not %s", name, got[name], errno)
		}
	}
	// The reader has an id of its own and two capabilities, the writer none.
	for _, pid := range []int{c.cmd.Process.Pid, c.reader} {
		want := "0000000000000000"
		if pid != c.cmd.Process.Pid {
			want = "000000c000000000"
			if strings.HasPrefix(env.Status(t, pid, "Uid"), "0") {
				t.Error("the reader is root")
			}
		}
		env.Equal(t, "capabilities", env.Status(t, pid, "CapEff"), want)
		env.Equal(t, "no new privileges", env.Status(t, pid, "NoNewPrivs"), "1")
	}
}

// walled are the attacks that get through where both filters are away (docs/security/rings.md), or of which only other rings keep a jail.
var walled = []string{"io_uring", "AF_VSOCK socket", "nf_tables", "keyring", "user namespace", "userfaultfd", "perf_event_open"}

// offered are those of them that the kernel, and the security module of the virtual machines, offer to every user: without a filter they get
// through.
var offered = []string{"io_uring", "nf_tables", "keyring"}

// TestProgramsHoldWithoutFilters: with both filters away, the programs refuse what they would have refused, report it as nothing else, touch no one else, and go
// on when the collector is killed.
func TestProgramsHoldWithoutFilters(t *testing.T) {
	can, err := ebpf.Probe()
	if can != ebpf.Blocks {
		t.Skipf("this kernel's programs do not block but %s: %v", can, err)
	}
	p := newPlace(t)
	mountBPF(t)
	pins := filepath.Join("/sys/fs/bpf", filepath.Base(p.base))
	path := p.runtime(t, "-tags=withouttest")
	try := func() (end func() map[string]outcome) {
		return p.jail(t, path, "0", append([]string{"rings"}, walled...)...)
	}
	through := func(when string) {
		t.Helper()
		got := try()()
		for _, name := range offered {
			if got[name].Errno != "" {
				t.Errorf("%s, %s is refused: %+v: this test shows nothing", when, name, got[name])
			}
		}
		if status.Acting() {
			t.Errorf("%s, programs act", when)
		}
	}
	refused := func(when string, got map[string]outcome) {
		t.Helper()
		for _, name := range walled {
			if got[name].Errno == "" {
				t.Errorf("%s, %s gets through", when, name)
			}
		}
		if !status.Acting() {
			t.Errorf("%s, no programs act", when)
		}
		hostUntouched(t, when)
	}
	through("without the programs")
	p.unloadAtEnd(t, pins)
	c := p.collect(t, "--pins", pins)
	end := try()
	for _, hook := range []string{"io_uring", "socket", "key"} {
		c.await(t, "an alarm about "+hook, func() bool {
			return c.find(func(e *journal.Event) bool {
				return e.Kind == journal.Ring0Passed && e.Target == hook && e.Program == "probe" && e.Errno == "EPERM" && e.Severity == 5
			}) != nil
		})
	}
	refused("with the programs", end())
	c.kill(t)
	refused("with the collector killed", try()())
	p.collect(t, "--pins", pins).kill(t)
	refused("with the collector killed once more", try()())
	if out, err := exec.Command(filepath.Join(p.bin, "agentjail-journal"), "unload", "--pins", pins).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	awaitDetached(t, p.loaded)
	through("after unload")
}

// hostUntouched: processes that are in no jail get what they request, also in user namespaces of their own.
func hostUntouched(t *testing.T, when string) {
	t.Helper()
	for name, family := range map[string][3]int{"AF_NETLINK": {unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, "AF_PACKET": {unix.AF_PACKET, unix.SOCK_RAW, 0}} {
		fd, err := unix.Socket(family[0], family[1]|unix.SOCK_CLOEXEC, family[2])
		if err != nil {
			t.Errorf("%s, the host's own %s: %v", when, name, err)
			continue
		}
		unix.Close(fd)
	}
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: []syscall.SysProcIDMap{{Size: 1}}, GidMappings: []syscall.SysProcIDMap{{Size: 1}}}
	if err := cmd.Run(); err != nil {
		t.Errorf("%s, the host's own user namespace: %v", when, err)
	}
}

// mountBPF mounts the bpf file system where no init has done so.
func mountBPF(t *testing.T) {
	t.Helper()
	var fs unix.Statfs_t
	if err := unix.Statfs("/sys/fs/bpf", &fs); err == nil && fs.Type == unix.BPF_FS_MAGIC {
		return
	}
	env.Check(t, unix.Mount("bpf", "/sys/fs/bpf", "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700"))
	t.Cleanup(func() { _ = unix.Unmount("/sys/fs/bpf", unix.MNT_DETACH) })
}
