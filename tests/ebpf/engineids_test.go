package ebpf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	cilium "github.com/cilium/ebpf"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/observe/ebpf"
	"agentjail.dev/runtime/observe/ebpf/jailmap"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// firstID is where the host ids begin that an engine, here this test, gives every container of its: Docker's userns-remap does so.
const firstID = 1_000_000

// remapped is a bundle as such an engine makes it.
func (p *place) remapped(t *testing.T, args ...string) *engine.Bundle {
	t.Helper()
	b := p.bundle(t, args...)
	ids := []specs.LinuxIDMapping{{ContainerID: 0, HostID: firstID, Size: 65536}}
	b.Spec.Linux.UIDMappings, b.Spec.Linux.GIDMappings = ids, ids
	b.Spec.Linux.Namespaces = append(b.Spec.Linux.Namespaces, specs.LinuxNamespace{Type: specs.UserNamespace})
	err := filepath.WalkDir(b.Rootfs, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, firstID, firstID)
	})
	env.Check(t, err)
	return b
}

// plain runs a program in a user namespace with the same host ids that is no jail's, and reports whether it gets an nf_tables socket, of which
// the programs keep jails. started gets its process, whose namespace is made already.
func (p *place) plain(t *testing.T, started func(pid int)) bool {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", `read line; exec "$0" rings nf_tables`, filepath.Join(p.bin, "probe"))
	ids := []syscall.SysProcIDMap{{HostID: firstID, Size: 65536}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET, UidMappings: ids, GidMappings: ids}
	in := env.Get(t, cmd.StdinPipe)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	env.Check(t, cmd.Start())
	started(cmd.Process.Pid)
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	return !strings.Contains(out.String(), "EPERM")
}

// entries are the numbers that the programs have registered.
func entries(t *testing.T) (out []uint32) {
	t.Helper()
	c := registeredMap(t)
	defer c.Close()
	var n uint32
	var v jailmap.Value
	for it := c.Iterate(); it.Next(&n, &v); {
		out = append(out, n)
	}
	return out
}

// registeredMap is the map of what is registered, pinned by the collector.
func registeredMap(t *testing.T) *cilium.Map {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(jailmap.Pins, "*", jailmap.MapName))
	if err != nil || len(found) != 1 {
		t.Fatalf("pinned: %v, %v", found, err)
	}
	m, err := cilium.LoadPinnedMap(found[0], nil)
	env.Check(t, err)
	return m
}

// TestEngineIDs: jails whose host ids an engine chose are known to the programs, also those that were there first; and no other container with
// the same ids is taken for one.
func TestEngineIDs(t *testing.T) {
	can, err := ebpf.Probe()
	if can != ebpf.Blocks {
		t.Skipf("this kernel's programs do not block but %s: %v", can, err)
	}
	p := newPlace(t)
	mountBPF(t)
	path := p.runtime(t, "-tags=withouttest")
	env.Check(t, engine.Build("./tests/probe", filepath.Join(p.bin, "probe")))
	caller := p.caller(path, "0")
	first := p.remapped(t, "rings", "nf_tables")
	id := first.ID()
	if out, errOut, err := first.Call(t, caller, "create", "--bundle", first.Dir, id); err != nil {
		t.Fatalf("%v: %s%s", err, out, errOut)
	}
	t.Cleanup(func() { _, _, _ = first.Call(t, caller, "delete", "--force", id) })

	p.unloadAtEnd(t, ebpf.Pins)
	c := p.collect(t)
	c.await(t, "the jail that was there is registered", func() bool { c.tell(); return len(entries(t)) == 1 })
	if out, errOut, err := first.Call(t, caller, "start", id); err != nil {
		t.Fatalf("%v: %s%s", err, out, errOut)
	}
	c.await(t, "an alarm of the jail that was there", func() bool {
		return c.find(func(e *journal.Event) bool {
			return e.Kind == journal.Ring0Passed && e.Target == "socket" && e.Jail == id
		}) != nil
	})

	end := stays(t, p.remapped(t), caller, "probe rings nf_tables io_uring")
	c.await(t, "an alarm of the next one", func() bool {
		return c.find(func(e *journal.Event) bool {
			return e.Kind == journal.Ring0Passed && e.Target == "socket" && e.Jail != "" && e.Jail != id
		}) != nil
	})
	if out, err := end(); err != nil || strings.Count(out, "EPERM") != 2 {
		t.Errorf("a jail with an engine's ids: %v: %s", err, out)
	}

	if !p.plain(t, func(int) {}) {
		t.Error("a container with the same ids is taken for a jail")
	}
	if _, _, err := first.Call(t, caller, "delete", "--force", id); err != nil {
		t.Error(err)
	}
	if left := entries(t); len(left) != 0 {
		t.Errorf("of deleted jails, %v are registered", left)
	}
	p.staleEntries(t, c)
}

// staleEntries: an entry that a crash left counts for the namespace alone that was registered, and the kernel removes it with that.
func (p *place) staleEntries(t *testing.T, c *collector) {
	t.Helper()
	m := registeredMap(t)
	defer m.Close()
	for _, owner := range []uint32{0, firstID} {
		var number uint32
		got := p.plain(t, func(pid int) {
			ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
			env.Check(t, err)
			defer ns.Close()
			if number, _, err = jailmap.About(ns); err != nil {
				t.Fatal(err)
			}
			env.Check(t, m.Put(number, jailmap.Value{Owner: owner}))
		})
		// Made by root, a namespace is root's: an entry of agentjail's, which makes them as the container's root, is another's.
		if owner == 0 == got {
			t.Errorf("registered with the owner %d, it gets its socket: %v", owner, got)
		}
		c.await(t, "the entry ends with the namespace", func() bool { c.tell(); return !slices.Contains(entries(t), number) })
	}
}

// TestPolicysBlocksAreReported: what policy blocks beyond the default, here by a container's annotation, is refused and reported, and nothing else.
func TestPolicysBlocksAreReported(t *testing.T) {
	p := newPlace(t)
	path := p.runtime(t)
	work := filepath.Join(p.base, "work")
	env.Check(t, errors.Join(os.Mkdir(work, 0o777), os.Chown(work, 1000, 1000)))
	const script = `mkdir /written && cp /bin/busybox /written; cp /bin/busybox /work
try() { name=$1; shift; if printed=$("$@" 2>&1); then echo "$name passes"; else echo "$name fails: ${printed##*: }"; fi; }
try image /bin/busybox true
try written /written/busybox true
try built /work/busybox true
try bind sh -c '! probe address bind | grep -q EPERM'
try connect sh -c '! probe address connect | grep -q EPERM'
try trace sh -c 'sleep 100 >/dev/null 2>&1 & exec 3</proc/$!/mem; s=$?; kill $!; exit $s'`
	caller := p.caller(path, "")
	made := func(block string) *engine.Bundle {
		b := p.bundle(t)
		b.Mount(work, "/work")
		if block != "" {
			b.Spec.Annotations = map[string]string{"dev.agentjail.ebpf.block": block}
		}
		return b
	}
	jail := func(block string) (end func() (string, error)) { return stays(t, made(block), caller, script) }
	refused := func(block string) {
		t.Helper()
		if _, err := jail(block)(); err == nil || !strings.Contains(err.Error(), "none act on it") {
			t.Errorf("without programs a jail is made that is to be blocked %s by them: %v", block, err)
		}
	}
	refused("exec")
	const all = "image passes\nwritten passes\nbuilt passes\nbind passes\nconnect passes\ntrace passes\n"
	byDefault := func(end func() (string, error)) {
		t.Helper()
		if out, err := end(); err != nil || out != all {
			t.Errorf("by default: %v: %s", err, out)
		}
	}
	can, err := ebpf.Probe()
	if can != ebpf.Blocks {
		byDefault(jail(""))
		t.Logf("this kernel's programs do not block but %s, so that is all: %v", can, err)
		return
	}
	mountBPF(t)
	p.unloadAtEnd(t, ebpf.Pins)
	c := p.collect(t)
	refused("connect")
	c.kill(t)
	c = p.collect(t, "--connections")
	blocks := []struct {
		name, fails, said string
		noted, kind       journal.Kind
	}{
		{"exec", "written", "Operation not permitted", journal.ProcessWritten, journal.ExecBlocked},
		{"trace", "trace", "Permission denied", journal.ProcessTraced, journal.TraceBlocked},
		{"bind", "bind", "", journal.BindTried, journal.BindBlocked},
		{"connect", "connect", "", journal.ConnectTried, journal.ConnectBlocked},
	}
	end := jail("")
	for _, b := range blocks {
		c.await(t, b.noted.String(), func() bool { return c.find(func(e *journal.Event) bool { return e.Kind == b.noted }) != nil })
	}
	byDefault(end)
	for _, b := range blocks {
		t.Run(b.name, func(t *testing.T) {
			want := strings.Replace(all, b.fails+" passes", b.fails+" fails: "+b.said, 1)
			end := jail(b.name)
			c.await(t, b.kind.String(), func() bool {
				return c.find(func(e *journal.Event) bool {
					return e.Kind == b.kind && e.Errno == "EPERM" && e.Decided() == "ebpf.block" && e.Remedy != "" && e.Jail != ""
				}) != nil
			})
			if b.name == "connect" {
				c.await(t, "the address", func() bool {
					return c.find(func(e *journal.Event) bool {
						return e.Kind == b.kind && e.Address == "127.0.0.1" && e.Port == 9
					}) != nil
				})
			}
			if out, err := end(); err != nil || out != want {
				t.Fatalf("with %s blocked: %v:\n%s", b.name, err, out)
			}
		})
	}

	// Loaded anew for a jail that relies on them, no caller has to request them again.
	b := made("connect")
	id := b.ID()
	if out, errOut, err := b.Call(t, caller, "create", "--bundle", b.Dir, id); err != nil {
		t.Fatalf("%v: %s%s", err, out, errOut)
	}
	t.Cleanup(func() { _, _, _ = b.Call(t, caller, "delete", "--force", id) })
	c.kill(t)
	env.Check(t, ebpf.Unload(ebpf.Pins))
	c = p.collect(t)
	c.await(t, "programs act on connect", func() bool { return strings.Contains(c.said.String(), "connect") })
}

// TestOOMNamesTheKilled: the collector reports whom the kernel killed for want of memory, on every kernel that has the tracepoint.
func TestOOMNamesTheKilled(t *testing.T) {
	p := newPlace(t)
	path := p.runtime(t)
	c := p.collect(t, "--no-pins")
	b := p.bundle(t)
	memory := int64(32 << 20)
	b.Spec.Linux.Resources = &specs.LinuxResources{Memory: &specs.LinuxMemory{Limit: &memory}}
	// One program that allocates, and no other process that does: the kernel may request memory again before that of a killed process is
	// given back, and would then kill the neighbor of the process that allocates as well.
	end := stays(t, b, p.caller(path, ""), "dd if=/dev/zero of=/dev/null bs=100M count=1; true")
	c.await(t, "an OOM kill", func() bool {
		return c.find(func(e *journal.Event) bool {
			return e.Kind == journal.LimitOOM && e.Source == journal.SourceEBPF && e.Program == "dd" && e.Pid > 0 && e.UID != nil && *e.UID > 65535 && e.Jail != ""
		}) != nil
	})
	if out, err := end(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
