package inside

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// group is a container's control group on the machine.
func group(t testing.TB, id string) string {
	t.Helper()
	return groupOf(t, docker(t, "inspect", "-f", "{{.State.Pid}}", id))
}

// groupOf is a process's control group on the machine.
func groupOf(t testing.TB, pid string) string {
	t.Helper()
	line := read(t, "/proc/"+pid+"/cgroup")
	path, ok := strings.CutPrefix(line, "0::")
	if !ok || strings.Contains(path, "\n") || path == "/" {
		t.Fatalf("control groups of process %s: %q", pid, line)
	}
	return filepath.Join("/sys/fs/cgroup", path)
}

// disk is the number of the disk that holds path, as io.max has it.
func disk(t testing.TB, path string) string {
	t.Helper()
	var st unix.Stat_t
	env.Check(t, unix.Stat(path, &st))
	return fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
}

// runtimes are the ways to jail: over runc and over crun.
var runtimes = []string{"agentjail-runc", "agentjail-crun"}

// each runs a test over each delegate.
func each(t *testing.T, test func(t *testing.T, runtime string)) {
	for _, r := range runtimes {
		t.Run(r, func(t *testing.T) { test(t, "--runtime="+r) })
	}
}

// TestLimitFiles reads what was written to the kernel: policy's limits, and tighter ones of the bundle
// (cgroups(7)).
func TestLimitFiles(t *testing.T) {
	need(t, "apparmor")
	const memory = 64 << 20
	// On a disk, which the machine's temporary directory is not.
	work, err := os.MkdirTemp("/var/tmp", "vm-test-")
	env.Check(t, err)
	defer os.RemoveAll(work)
	if err := os.Chown(work, 1000, 1000); err != nil { // what is root's is refused
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		options []string
		once    bool // over one delegate
		want    map[string]string
	}{
		{"defaults", nil, false, map[string]string{"io.max": "", "pids.max": "1024", "memory.swap.max": "0", "cpu.max": "400000 100000"}},
		{"tighter", []string{"--pids-limit", "77", "-m", "64m", "--cpus", "0.5"}, false, map[string]string{
			"pids.max": "77", "memory.max": fmt.Sprint(memory), "memory.swap.max": "0", "cpu.max": "50000 100000",
		}},
		{"swap refused", []string{"-m", "64m", "--memory-swap", "1g"}, true, map[string]string{
			"memory.max": fmt.Sprint(memory), "memory.swap.max": "0",
		}},
		{"none requested", []string{"--pids-limit", "-1", "--memory-swap", "-1"}, true, map[string]string{
			"pids.max": "1024", "memory.swap.max": "0",
		}},
		{"privileged", []string{"--privileged"}, true, map[string]string{
			"pids.max": "1024", "memory.swap.max": "0", "cpu.max": "400000 100000",
		}},
		{"a writable directory", []string{"-v", work + ":/work"}, false, map[string]string{
			"io.max": disk(t, work) + " rbps=419430400 wbps=209715200 riops=max wiops=max",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, runtime string) {
				if c.once && runtime != "--runtime="+runtimes[0] {
					return // the delegate has no influence in it
				}
				g := group(t, detached(t, append([]string{runtime}, c.options...)...))
				for file, want := range c.want {
					env.Equal(t, file, read(t, filepath.Join(g, file)), want)
				}
				if got := read(t, filepath.Join(g, "memory.max")); got == "max" {
					t.Error("no limit of memory")
				}
			})
		})
	}
}

// TestUpdate: docker update can tighten and never loosen beyond policy.
func TestUpdate(t *testing.T) {
	need(t, "apparmor")
	each(t, func(t *testing.T, runtime string) {
		id := detached(t, runtime)
		g := group(t, id)
		before := read(t, filepath.Join(g, "memory.max"))
		docker(t, "update", "--pids-limit", "50", "-m", "64m", "--memory-swap", "64m", "--cpus", "0.5", id)
		for file, want := range map[string]string{"pids.max": "50", "memory.max": "67108864", "memory.swap.max": "0", "cpu.max": "50000 100000"} {
			env.Equal(t, "tightened "+file, read(t, filepath.Join(g, file)), want)
		}
		run(t, "docker", "update", "--pids-limit", "-1", "-m", "1t", "--memory-swap", "-1", "--cpus", "2", id)
		for file, most := range map[string]string{"pids.max": "1024", "memory.max": before} {
			var got, limit int64
			if _, err := fmt.Sscan(read(t, filepath.Join(g, file)), &got); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			fmt.Sscan(most, &limit)
			if got <= 0 || got > limit {
				t.Errorf("loosened %s to %d, more than %s", file, got, most)
			}
		}
		env.Equal(t, "loosened swap", read(t, filepath.Join(g, "memory.swap.max")), "0")
	})
}

// TestPause: the whole group freezes and goes on.
func TestPause(t *testing.T) {
	need(t, "apparmor")
	each(t, func(t *testing.T, runtime string) {
		id := aJail(t, runtime)
		g := group(t, id)
		docker(t, "pause", id)
		env.Equal(t, "frozen", read(t, filepath.Join(g, "cgroup.freeze")), "1")
		docker(t, "unpause", id)
		env.Equal(t, "thawed", read(t, filepath.Join(g, "cgroup.freeze")), "0")
		env.Equal(t, "exec", docker(t, "exec", id, "echo", "alive"), "alive")
	})
}

// TestStats: Docker reads version 2's files.
func TestStats(t *testing.T) {
	need(t, "apparmor")
	each(t, func(t *testing.T, runtime string) {
		got := docker(t, "stats", "--no-stream", "--format", "{{.MemUsage}} {{.PIDs}}", aJail(t, runtime))
		if !strings.HasSuffix(got, "/ 64MiB 1") || strings.HasPrefix(got, "0B") {
			t.Errorf("stats: %q", got)
		}
	})
}

// TestGroupFromInside: the jail sees its own group as the root, and can change nothing in it,
// under any user id.
func TestGroupFromInside(t *testing.T) {
	need(t, "apparmor")
	each(t, func(t *testing.T, runtime string) {
		ids := map[string]string{"": aJail(t, runtime)}
		for _, option := range []string{"--privileged", "--cgroupns=host"} {
			if runtime != "--runtime="+runtimes[0] {
				break // the delegate has no influence in it
			}
			ids[option] = detached(t, runtime, option)
		}
		for what, id := range ids {
			env.Equal(t, what+" own group", docker(t, "exec", id, "cat", "/proc/self/cgroup"), "0::/")
			got := docker(t, "exec", "-u", "0", id, "sh", "-c", `
				for f in pids.max=max memory.max=max cgroup.procs=0 cgroup.subtree_control=+pids cgroup.freeze=1 cgroup.kill=1; do
					[ -e /sys/fs/cgroup/${f%%=*} ] || echo "no $f"
					(echo ${f#*=} > /sys/fs/cgroup/${f%%=*}) 2>/dev/null && echo "wrote $f"
				done
				mkdir /sys/fs/cgroup/mine 2>/dev/null && echo "made a group"
				echo done`)
			env.Equal(t, what+" changes", got, "done")
		}
	})
}

// TestOutOfMemory: what goes past memory.max is killed, and Docker knows why.
func TestOutOfMemory(t *testing.T) {
	need(t, "apparmor")
	each(t, func(t *testing.T, runtime string) {
		id := docker(t, "run", "-d", runtime, "-m", "32m", image, "sh", "-c", engine.RunsOut(400))
		t.Cleanup(func() { docker(t, "rm", "-f", id) })
		docker(t, "exec", id, "touch", engine.GoFile)
		e := &engine.T{TB: t}
		env.Eventually(e, "a process out of memory is killed", func() bool { return docker(t, "logs", id) == "137" })
		env.Eventually(e, "OOMKilled", func() bool {
			return docker(t, "inspect", "-f", "{{.State.OOMKilled}}", id) == "true"
		})
	})
}

// TestNothingLeft: with the container its group, mounts and state go.
func TestNothingLeft(t *testing.T) {
	need(t, "apparmor")
	each(t, func(t *testing.T, runtime string) {
		work := t.TempDir()
		env.Check(t, os.Chown(work, 1000, 1000))
		id := docker(t, "run", "-d", runtime, "-v", work+":/work", image, "sleep", "3600")
		g := group(t, id)
		docker(t, "rm", "-f", id)
		if _, err := os.Stat(g); err == nil {
			t.Errorf("%s is still there", g)
		}
		if strings.Contains(read(t, "/proc/self/mountinfo"), id) {
			t.Error("mounts are left")
		}
		left, err := filepath.Glob("/run/agentjail/jails/*" + id + "*")
		if err != nil || len(left) > 0 {
			t.Errorf("state is left: %v, %v", left, err)
		}
	})
}
