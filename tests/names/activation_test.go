package names

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestActivation: a jail's helper is started when the jail first uses its network, or somebody asks it for something. Until then a program
// of some kilobytes has its place, without privileges, and ends with the jail.
func TestActivation(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	executes := func(pid int) string {
		t.Helper()
		path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSuffix(filepath.Base(path), " (deleted)")
	}
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
			j := start(t, n)
			pid := j.helper(t).Pid
			if got := executes(pid); !strings.HasPrefix(got, "memfd:") {
				t.Fatalf("before it is used, process %d executes %s", pid, got)
			}
			for key, want := range map[string]string{"CapEff": "0000000000000000", "CapPrm": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2"} {
				if got := statusOf(t, pid, key); got != want {
					t.Errorf("%s is %s", key, got)
				}
			}
			if id := statusOf(t, pid, "Uid"); id == "" || strings.HasPrefix(id, "0") {
				t.Errorf("its ids are %s", id)
			}
			if root, err := os.ReadDir(fmt.Sprintf("/proc/%d/root", pid)); err == nil && len(root) > 0 {
				t.Errorf("it sees files: %v", root)
			}
			if kib := field(t, pid, "smaps_rollup", "Pss:"); kib > 256 {
				t.Errorf("it has %d KiB of memory", kib)
			}
			if !use(j) {
				t.Error("its first use is not as ever")
			}
			if now := j.helper(t).Pid; now != pid {
				t.Errorf("it is process %d, and was %d", now, pid)
			}
			if got := executes(pid); got != "agentjail-egress" {
				t.Errorf("once it is used it executes %s", got)
			}
		})
	}
	t.Run("an end", func(t *testing.T) {
		j := start(t, n)
		fd := pidfd(t, j.helper(t).Pid)
		if err := unix.Kill(j.pid(t), unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		gone(t, fd)
	})
}

// TestShortLived: a jail whose program ends before its start has heard from the activator is a start as any other.
func TestShortLived(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	j := made(t, n)
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

// statusOf is a line of a process's status.
func statusOf(t *testing.T, pid int, key string) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if v, is := strings.CutPrefix(line, key+":"); is {
			return strings.Join(strings.Fields(v), " ")
		}
	}
	return ""
}
