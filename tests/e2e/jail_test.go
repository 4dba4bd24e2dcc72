package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// who is the probe's word on what a process is for the kernel.
type who = engine.Who

// jailed tests everything that makes a process jailed whatever it was started with.
func jailed(t testing.TB, what string, w who) { t.Helper(); promise.Jailed(t, what, w) }

// TestJail: a process of any user is jailed (tests/contract has the rest of what every jail is).
func TestJail(t *testing.T) {
	d := d(t)
	id := sleeper(d)
	jailed(t, "docker run -u 1000", probe[who](d, []string{"-u", "1000"}, "identity"))
	jailed(t, "docker exec -u 0", probeIn[who](d, []string{"-u", "0"}, id, "identity"))
	jailed(t, "docker exec -u 1000", probeIn[who](d, []string{"-u", "1000"}, id, "identity"))
	jailed(t, "docker exec --privileged", probeIn[who](d, []string{"--privileged"}, id, "identity"))
}

// TestNoFileOfTheHostIsOpen: nothing that was open on the host is open in the jail.
func TestNoFileOfTheHostIsOpen(t *testing.T) {
	d := d(t)
	id := sleeper(d)
	d.Must("exec", "-d", id, "sleep", "1800")
	awaitSleeps(d, id, 2)
	// busybox's sleep opens nothing itself.
	list := sh(d, id, `for p in /proc/[0-9]*; do case $(tr '\0' ' ' < $p/cmdline) in sleep*) echo $(ls $p/fd);; esac; done`)
	env.Equal(t, "descriptors of both processes", list, "0 1 2\n0 1 2")
}

// TestUptimeIsTheJails: the machine seems to have started with the jail.
func TestUptimeIsTheJails(t *testing.T) {
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
	if _, err := fmt.Sscan(string(env.Read(t, "/proc/uptime")), &host); err != nil {
		t.Fatal(err)
	}
	// Not an assertion on speed: less than half of the host's age, and the host is older than any start of a jail.
	for name, v := range map[string]float64{"CLOCK_BOOTTIME": c.Boottime, "CLOCK_MONOTONIC": c.Monotonic, "/proc/uptime": uptime} {
		if v > host/2 || v < 0 {
			t.Errorf("%s states %.1f s, the host %.1f s", name, v, host)
		}
	}
}

// TestLimitsByDefault: a jail without limits of the engine's is limited, and one that requests more gets no more.
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

// TestLimitsBelowPolicy: a limit that a container requests below policy's is in force, also later.
func TestLimitsBelowPolicy(t *testing.T) {
	d := d(t)
	id := sleeper(d, "-m", "100m", "--pids-limit", "50")
	env.Equal(t, "memory", cgroupValue(t, d, id, "memory", "memory.limit_in_bytes", "memory.max"), 100<<20)
	env.Equal(t, "pids", cgroupValue(t, d, id, "pids", "pids.max", "pids.max"), 50)
	d.Must("update", "--pids-limit", "40", "-m", "80m", id)
	env.Equal(t, "memory after update", cgroupValue(t, d, id, "memory", "memory.limit_in_bytes", "memory.max"), 80<<20)
	env.Equal(t, "pids after update", cgroupValue(t, d, id, "pids", "pids.max", "pids.max"), 40)
}

// cgroupValue is a limit of a container (engine.CgroupLimit).
func cgroupValue(t testing.TB, d *engine.T, id, controller, v1, v2 string) uint64 {
	t.Helper()
	pid, err := strconv.Atoi(inspect(d, id, "{{.State.Pid}}"))
	env.Check(t, err)
	return engine.CgroupLimit(pid, controller, v1, v2)
}

func exists(path string) bool { _, err := os.Lstat(path); return err == nil }
