package packages

import (
	"path/filepath"
	"strings"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// The names of a jail that containerd's shim serves.
const (
	shimName  = "containerd-shim-agentjail-v2"
	shimImage = "docker.io/library/busybox:latest"
	shimID    = "shim-jail"
)

// A shimJail is one that containerd started by agentjail's shim, a process that is there as long as the jail.
type shimJail struct {
	*machine
	pid, shim string // of its first process, and of its shim
}

// ctr runs containerd's client in the machine, in a namespace whose control group goes with the machine.
func (m *machine) ctr(args ...string) string {
	m.Helper()
	return m.must(append([]string{"ctr", "-n", m.group()}, args...)...)
}

// shimJail starts one. containerd needs no configuration for that: it looks shims up in $PATH.
func (m *machine) shimJail() *shimJail {
	m.Helper()
	m.must("sh", "-c", "docker save busybox >/tmp/saved.tar")
	m.ctr("image", "import", "/tmp/saved.tar")
	m.ctr("run", "-d", "--runtime", "io.containerd.agentjail.v2", shimImage, shimID, "sleep", "1000")
	j := &shimJail{machine: m}
	for line := range strings.Lines(m.ctr("task", "ls")) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == shimID {
			j.pid = f[1]
		}
	}
	if j.pid == "" {
		m.Fatal("containerd does not list the jail")
	}
	j.shim = j.parent()
	if exe := m.must("readlink", "/proc/"+j.shim+"/exe"); filepath.Base(exe) != shimName {
		m.Fatalf("the jail's parent runs %s", exe)
	}
	return j
}

func (j *shimJail) parent() string {
	j.Helper()
	return j.must("ps", "-o", "ppid=", "-p", j.pid)
}

// filters is how many system call filters a process has that ctr starts.
func (j *shimJail) filters(start ...string) string {
	j.Helper()
	return engine.Heard(func(out string) bool { return out == "" }, func() string {
		return j.ctr(append(start, "grep", "Seccomp_filters", "/proc/self/status")...)
	})
}

// served: after an upgrade the shim of the former package goes on with its jail, to the jail's end. A new jail gets a new one.
func (j *shimJail) served() {
	j.Helper()
	if now := j.parent(); now != j.shim {
		j.Errorf("the shim is process %s, and was %s", now, j.shim)
	}
	if exe := j.must("readlink", "/proc/"+j.shim+"/exe"); !strings.HasSuffix(exe, " (deleted)") {
		j.Errorf("the shim runs %s, which the upgrade replaced", exe)
	}
	if out := j.filters("task", "exec", "--exec-id", "after", shimID); !strings.HasSuffix(out, "2") {
		j.Errorf("a process that joins it by the former shim has %s", out)
	}
	j.must("agentjail", "inspect", shimID)
	if out := j.filters("run", "--rm", "--runtime", "io.containerd.agentjail.v2", shimImage, "new"); !strings.HasSuffix(out, "2") {
		j.Errorf("a new jail has %s", out)
	}
	j.ctr("task", "kill", "--signal", "KILL", shimID)
	env.Eventually(j, "the jail ends", func() bool { return strings.Contains(j.ctr("task", "ls"), "STOPPED") })
	// Releases of ctr pass the status on, or state it.
	if r := j.run("ctr", "-n", j.group(), "task", "delete", shimID); r.Code != 137 && !strings.Contains(r.Stderr, "137") {
		j.Errorf("it ended with %s", r)
	}
	j.ctr("container", "delete", shimID)
	env.Eventually(j, "the shim of a deleted jail ends", func() bool { return !j.exists("/proc/" + j.shim) })
	if r := j.run("agentjail", "inspect", shimID); r.Code == 0 {
		j.Errorf("the deleted jail is still known: %s", r)
	}
}
