package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
)

// who is the probe's word on what a process is for the kernel.
type who = engine.Who

// jailed tests everything that makes a process jailed whatever it was started with.
func jailed(t testing.TB, what string, w who) { t.Helper(); engine.Jailed(t, what, w) }

// TestJail is about a jail started without any option.
func TestJail(t *testing.T) {
	d := d(t)
	id := sleeper(d)
	jailed(t, "docker run", probe[who](d, nil, "identity"))
	jailed(t, "docker run -u 1000", probe[who](d, []string{"-u", "1000"}, "identity"))
	jailed(t, "docker exec", probeIn[who](d, nil, id, "identity"))
	jailed(t, "docker exec -u 0", probeIn[who](d, []string{"-u", "0"}, id, "identity"))
	jailed(t, "docker exec --privileged", probeIn[who](d, []string{"--privileged"}, id, "identity"))

	// An exec is in the same world as the jail's first process.
	exec := decode[who](d, d.Must("exec", id, "probe", "identity"))
	pid := inspect(d, id, "{{.State.Pid}}")
	for ns, got := range exec.Namespaces {
		first, err := os.Readlink("/proc/" + pid + "/ns/" + ns)
		if err != nil {
			t.Fatal(err)
		}
		if got != first {
			t.Errorf("exec has %s namespace %s, the first process %s", ns, got, first)
		}
	}
}

// TestJailIDsAreItsOwn: no two jails share a host id.
func TestJailIDsAreItsOwn(t *testing.T) {
	d := d(t)
	a, b := sleeper(d), sleeper(d)
	ma, mb := probeIn[who](d, nil, a, "identity").UIDMap, probeIn[who](d, nil, b, "identity").UIDMap
	if ma == mb {
		t.Errorf("two jails have the id map %s", ma)
	}
}

// TestOpenFiles: nothing that was open on the host is open in the jail.
func TestOpenFiles(t *testing.T) {
	d := d(t)
	id := sleeper(d)
	d.Must("exec", "-d", id, "sleep", "1800")
	d.Eventually("the exec", func() bool { return strings.Contains(sh(d, id, "cat /proc/[0-9]*/cmdline"), "1800") })
	// busybox's sleep opens nothing itself.
	list := sh(d, id, `for p in /proc/[0-9]*; do case $(tr '\0' ' ' < $p/cmdline) in sleep*) echo $(ls $p/fd);; esac; done`)
	eq(t, "descriptors of both processes", list, "0 1 2\n0 1 2")
}

// TestUptime: the machine seems to have started with the jail.
func TestUptime(t *testing.T) {
	d := d(t)
	c := probe[struct {
		Boottime   float64 `json:"boottime"`
		Monotonic  float64 `json:"monotonic"`
		ProcUptime string  `json:"proc_uptime"`
	}](d, nil, "clocks")
	var uptime float64
	if _, err := fmt.Sscan(c.ProcUptime, &uptime); err != nil {
		t.Fatal(err)
	}
	var host float64
	if _, err := fmt.Sscan(content(t, "/proc/uptime"), &host); err != nil {
		t.Fatal(err)
	}
	// Not an assertion on speed: less than half of the host's age, and the host is older than any start of a jail.
	for name, v := range map[string]float64{"CLOCK_BOOTTIME": c.Boottime, "CLOCK_MONOTONIC": c.Monotonic, "/proc/uptime": uptime} {
		if v > host/2 || v < 0 {
			t.Errorf("%s says %.1f s, the host %.1f s", name, v, host)
		}
	}
}

// TestLimitsByDefault: a jail that nobody limited is limited, and one that asks for more gets no more.
func TestLimitsByDefault(t *testing.T) {
	const mostMemory, mostPids = 4 << 30, 1024
	for _, c := range []struct {
		name    string
		options []string
		update  []string
	}{
		{"default", nil, nil},
		{"more", []string{"-m", "100g", "--pids-limit", "100000", "--cpus", fmt.Sprint(1)}, nil},
		{"unlimited", []string{"--pids-limit", "-1", "-m", "0"}, nil},
		{"updated", nil, []string{"--pids-limit", "-1", "-m", "50g", "--memory-swap", "-1"}},
		{"updated from less", []string{"--pids-limit", "10", "-m", "64m"}, []string{"--pids-limit", "0", "-m", "50g", "--memory-swap", "-1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := d(t)
			id := sleeper(d, c.options...)
			if c.update != nil {
				r := d.Docker(append(append([]string{"update"}, c.update...), id)...)
				t.Logf("update: code %d %s", r.Code, strings.TrimSpace(r.Stderr))
			}
			for _, l := range []struct {
				most uint64
				is   uint64
				name string
			}{
				{mostMemory, cgroupValue(t, d, id, "memory", "memory.limit_in_bytes", "memory.max"), "memory"},
				{mostMemory, cgroupValue(t, d, id, "memory", "memory.memsw.limit_in_bytes", "memory.max"), "memory and swap"},
				{mostPids, cgroupValue(t, d, id, "pids", "pids.max", "pids.max"), "pids"},
			} {
				if l.is > l.most {
					t.Errorf("%s: %d, more than %d", l.name, l.is, l.most)
				}
			}
		})
	}
}

// TestLimitsAsAsked: what a container asks below policy is what it gets, also later.
func TestLimitsAsAsked(t *testing.T) {
	d := d(t)
	id := sleeper(d, "-m", "100m", "--pids-limit", "50")
	eq(t, "memory", cgroupValue(t, d, id, "memory", "memory.limit_in_bytes", "memory.max"), 100<<20)
	eq(t, "pids", cgroupValue(t, d, id, "pids", "pids.max", "pids.max"), 50)
	d.Must("update", "--pids-limit", "40", "-m", "80m", id)
	eq(t, "memory after update", cgroupValue(t, d, id, "memory", "memory.limit_in_bytes", "memory.max"), 80<<20)
	eq(t, "pids after update", cgroupValue(t, d, id, "pids", "pids.max", "pids.max"), 40)
}

// cgroupValue reads a limit of a container on the host: the file v1 of the controller's hierarchy, or v2. "max" and
// what is not there are the highest number.
func cgroupValue(t testing.TB, d *engine.T, id, controller, v1, v2 string) uint64 {
	t.Helper()
	pid := inspect(d, id, "{{.State.Pid}}")
	for _, line := range strings.Split(content(t, "/proc/"+pid+"/cgroup"), "\n") {
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 {
			continue
		}
		path := ""
		switch {
		case strings.Contains(","+f[1]+",", ","+controller+","):
			path = "/sys/fs/cgroup/" + controller + f[2] + "/" + v1
		case f[1] == "" && exists("/sys/fs/cgroup"+f[2]+"/"+v2):
			path = "/sys/fs/cgroup" + f[2] + "/" + v2
		default:
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		var n uint64
		if _, err := fmt.Sscan(string(text), &n); err != nil {
			return 1<<64 - 1 // "max"
		}
		return n
	}
	return 1<<64 - 1
}

func exists(path string) bool { _, err := os.Lstat(path); return err == nil }
