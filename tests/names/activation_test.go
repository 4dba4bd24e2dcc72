package names

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestActivation: a jail's helper is started when the jail first uses its network, or a command sends it a request. Until then a program
// of some kilobytes has its place, without privileges, and ends with the jail.
func TestActivation(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	for what, use := range map[string]func(j *jail) bool{
		"a name": func(j *jail) bool {
			got, ok := j.in(t, "https", "api.example.test", "443")
			return ok && got == "served api.example.test"
		},
		"a refused name": func(j *jail) bool {
			_, ok := j.in(t, "https", "other.example.test", "443")
			return !ok
		},
		"an address": func(j *jail) bool {
			_, ok := j.in(t, "https", "127.64.0.200", "443")
			return !ok
		},
		"a proxy": func(j *jail) bool {
			_, ok := j.in(t, "https", "127.0.0.1", "1080")
			return !ok
		},
		"inspect": func(j *jail) bool {
			out, code := j.inspect(t)
			return code == 0 && strings.Contains(out, "names by helper")
		},
	} {
		t.Run(what, func(t *testing.T) {
			j := startJail(t, n)
			pid := j.helper(t).Pid
			if got := executes(t, "/proc", pid); !strings.HasPrefix(got, "memfd:") {
				t.Fatalf("before it is used, process %d executes %s", pid, got)
			}
			for key, want := range map[string]string{"CapEff": "0000000000000000", "CapPrm": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2"} {
				if got := env.Status(t, pid, key); got != want {
					t.Errorf("%s is %s", key, got)
				}
			}
			if id := env.Status(t, pid, "Uid"); id == "" || strings.HasPrefix(id, "0") {
				t.Errorf("its ids are %s", id)
			}
			if root, err := os.ReadDir(fmt.Sprintf("/proc/%d/root", pid)); err == nil && len(root) > 0 {
				t.Errorf("it sees files: %v", root)
			}
			if m, err := env.Memory(pid); err != nil || m["Pss"] > 256 {
				t.Errorf("it has %v KiB of memory, %v", m, err)
			}
			if !use(j) {
				t.Error("its first use is not as ever")
			}
			if now := j.helper(t).Pid; now != pid {
				t.Errorf("it is process %d, and was %d", now, pid)
			}
			if got := executes(t, "/proc", pid); got != "agentjail-egress" {
				t.Errorf("once it is used it executes %s", got)
			}
		})
	}
	t.Run("an end", func(t *testing.T) {
		j := startJail(t, n)
		fd := pidfd(t, j.helper(t).Pid)
		env.Check(t, unix.Kill(j.pid(t), unix.SIGKILL))
		awaitEnd(t, fd)
	})
}

// TestCannotBegin: of a helper that cannot begin when it is needed, inspect reports why.
func TestCannotBegin(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	use := func(j *jail) string {
		fd := pidfd(t, j.helper(t).Pid)
		if got, ok := j.in(t, "look", "api.example.test", "0"); ok {
			t.Errorf("a name is known: %q", got)
		}
		awaitEnd(t, fd)
		out, _ := j.inspect(t)
		return out
	}
	ended := func(said string) string {
		return fmt.Sprintf("has ended, with the error %q: the jail reaches nothing", said)
	}
	const workFD = 11 // the descriptor by which an activated helper gets its work
	const tooFew = "not all of the work's descriptors could be had"
	for what, c := range map[string]struct {
		files int // how many descriptors it may have
		do    func(j *jail) string
		want  string
	}{
		"the helper":            {workFD + 1, use, ended(tooFew)},
		"its activator":         {workFD, use, ended(fmt.Sprintf("handing on the work: errno %d", unix.EBADF))},
		"the helper in inspect": {workFD + 1, func(j *jail) string { out, _ := j.inspect(t); return out }, fmt.Sprintf("error %q", tooFew)},
	} {
		t.Run(what, func(t *testing.T) {
			j := startJail(t, n)
			pid := j.helper(t).Pid
			limitFiles(t, pid, c.files)
			out := c.do(j)
			if !strings.Contains(out, fmt.Sprintf("process %d ", pid)) || !strings.Contains(out, c.want) {
				t.Errorf("inspect does not have %q:\n%s", c.want, out)
			}
			j.network(t, "restart")
			if got, ok := j.in(t, "https", "api.example.test", "443"); !ok || got != "served api.example.test" {
				t.Errorf("after restart: %q", got)
			}
			if out, code := j.inspect(t); code != 0 || strings.Contains(out, "with the error") {
				t.Errorf("after restart: inspect: %d\n%s", code, out)
			}
		})
	}
}

// limitFiles bounds the descriptors of a process, as its own user: root may lack the capability.
func limitFiles(t *testing.T, pid, files int) {
	t.Helper()
	var ids [2]uint32
	for i, key := range []string{"Uid", "Gid"} {
		if _, err := fmt.Sscan(env.Status(t, pid, key), &ids[i]); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("prlimit", fmt.Sprintf("--pid=%d", pid), fmt.Sprintf("--nofile=%d:%[1]d", files))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ids[0], Gid: ids[1]}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestShortLived: a jail whose program ends before its start has heard from the activator is a start as any other.
func TestShortLived(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	j := newJail(t, n)
	j.b.Spec.Process.Args = []string{"/bin/busybox", "true"}
	for i := range 10 {
		if said, err := j.begin(t); err != nil {
			t.Fatalf("start %d: %v: %s", i, err, said)
		}
		if out, errs, err := j.b.Call(t, j.c, "delete", "--force", j.id); err != nil {
			t.Fatalf("%v\n%s%s", err, out, errs)
		}
	}
}

// executes is the name of the program that a process executes, by what is mounted at proc.
func executes(t *testing.T, proc string, pid int) string {
	t.Helper()
	path, err := os.Readlink(fmt.Sprintf("%s/%d/exe", proc, pid))
	env.Check(t, err)
	return strings.TrimSuffix(filepath.Base(path), " (deleted)")
}

// TestHelperIsThereFromCreate: the helper of a jail that may have no activator is there from its create.
func TestHelperIsThereFromCreate(t *testing.T) {
	n := newInternet(t)
	onHost = n.ca
	resolveBy(t, dnsAddr)
	many := []string{"api.example.test:443"}
	for i := 0; len(strings.Join(many, "")) <= 16<<10; i++ {
		many = append(many, fmt.Sprintf("%s%d.example.test:443", strings.Repeat("n", 40), i))
	}
	for what, policy := range map[string]func(j *jail) string{
		"many rules":      func(*jail) string { return allowing(many...) },
		"published ports": func(*jail) string { return allowing("api.example.test:443") + "publish = [\"18000\"]\n" },
		"a credential":    func(j *jail) string { return policyText + fmt.Sprintf(lender, j.writeKey(t, value), "route") },
		"a credential in TLS": func(j *jail) string {
			return policyText + fmt.Sprintf(lender, j.writeKey(t, value), "end")
		},
	} {
		t.Run(what, func(t *testing.T) {
			j := newJail(t, n)
			j.ownPolicy(t, policy(j))
			want := "agentjail-egress"
			switch what {
			case "published ports":
				j.b.Spec.Annotations = map[string]string{"dev.agentjail.network.publish": "18000:8000"}
			case "a credential in TLS":
				want = "agentjail-egress-keys"
				bundle := filepath.Join(j.b.Rootfs, debianBundle)
				env.Check(t, errors.Join(os.MkdirAll(filepath.Dir(bundle), 0o755), os.WriteFile(bundle, n.ca, 0o644)))
			}
			if out, errs, err := j.b.Call(t, j.c, "create", "--bundle", j.b.Dir, j.id); err != nil {
				t.Fatalf("%v: %s%s", err, out, errs)
			}
			pid := j.helper(t).Pid
			if got := executes(t, "/proc", pid); got != want {
				t.Errorf("after create, process %d executes %s, not %s", pid, got, want)
			}
			if out, errs, err := j.b.Call(t, j.c, "start", j.id); err != nil {
				t.Fatalf("%v: %s%s", err, out, errs)
			}
			if now := j.helper(t).Pid; now != pid {
				t.Errorf("start has started another one, process %d in place of %d", now, pid)
			}
			if got, ok := j.in(t, "look", "api.example.test", "0"); !ok || !strings.HasPrefix(got, "127.") {
				t.Errorf("an allowed name: %q", got)
			}
			if got, ok := j.in(t, "look", "other.test", "0"); ok {
				t.Errorf("a name that no rule allows: %q", got)
			}
		})
	}
}

// TestNoExecutableMemory: where the host executes no file in memory, the helper is started at once. Where such a file only has to be
// requested, as the activator's is, it is not.
func TestNoExecutableMemory(t *testing.T) {
	const sysctl = "/proc/sys/vm/memfd_noexec" // of a PID namespace
	if _, err := os.Stat(sysctl); err != nil {
		t.Skipf("the kernel is older than 6.3: %v", err)
	}
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	for level, want := range map[string]string{"1": "memfd:agentjail-egress", "2": "agentjail-egress"} {
		t.Run(level, func(t *testing.T) {
			first := pidNamespace(t, "echo "+level+" >"+sysctl)
			j := newJail(t, n)
			j.c = engine.Caller{Path: "nsenter", Args: append([]string{"--pid", "--mount", "--target", strconv.Itoa(first), "--", j.c.Path}, j.c.Args...)}
			j.start(t)
			proc := fmt.Sprintf("/proc/%d/root/proc", first)
			pid := j.helper(t).Pid
			if got := executes(t, proc, pid); got != want {
				t.Errorf("before it is used, process %d executes %s, not %s", pid, got, want)
			}
			if got, ok := j.in(t, "https", "api.example.test", "443"); !ok || got != "served api.example.test" {
				t.Errorf("an allowed name: %q", got)
			}
			if got := executes(t, proc, pid); got != "agentjail-egress" {
				t.Errorf("once it is used it executes %s", got)
			}
		})
	}
}

// pidNamespace makes a PID namespace, with a mount namespace that has its processes in /proc, and has its first process, which is
// returned, do something.
func pidNamespace(t *testing.T, first string) int {
	t.Helper()
	cmd := exec.Command("sh", "-ec", "mount -t proc proc /proc\n"+first+"\necho done\nread end")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Unshareflags: unix.CLONE_NEWNS}
	cmd.Stderr = os.Stderr
	env.Begin(t, cmd).Await(t, "done") // all of the namespace's processes end with the first
	return cmd.Process.Pid
}
