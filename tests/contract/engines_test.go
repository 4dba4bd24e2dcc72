package contract

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// docker is an edition of Docker with agentjail in runc's place.
func docker(edition string) func(*testing.T) *promise.Engine {
	return func(t *testing.T) *promise.Engine { return overDocker(t, engine.Editions[edition], engine.Name) }
}

// service is Docker with the built-in policy whose jails' root keeps capabilities.
func service(t *testing.T) *promise.Engine {
	e := overDocker(t, engine.Editions[""], engine.Name+"-service")
	e.Keeps, e.Permits, e.Lacks = 0xeb, []string{"chown_other", "setuid_other"}, promise.Service
	if promise.Sandbox() != "" {
		e.Lacks = promise.ServiceInSandbox
	}
	return e
}

func overDocker(t *testing.T, edition engine.Edition, name string) *promise.Engine {
	if _, err := exec.LookPath("dockerd"); err != nil {
		t.Skip("no Docker (hack/deps.sh installs it):", err)
	}
	under := env.Get(t, engine.UnderTest)
	edition.Needs(t)
	path := under
	if name != engine.Name { // a built-in policy, chosen by the name that agentjail is called by
		path = filepath.Join(t.TempDir(), name)
		env.Check(t, os.Symlink(under, path))
	}
	e := engine.StartFor(t, engine.Options{Edition: &edition, Runtimes: map[string]engine.Runtime{name: {Path: path}}})
	runtime := "--runtime=" + name
	return &promise.Engine{
		Start: func(t testing.TB, command ...string) *promise.Jail {
			d := e.For(t)
			id := d.Detached(append([]string{runtime, engine.Busybox}, command...)...)
			return &promise.Jail{
				ID: id, PID: env.Number(t, d.Must("inspect", "--format", "{{.State.Pid}}", id)),
				Exec: func(command ...string) engine.Result { return d.Docker(append([]string{"exec", id}, command...)...) },
				Privileged: func(command ...string) engine.Result {
					return d.Docker(append([]string{"exec", "--privileged", id}, command...)...)
				},
				Kill:   func() int { d.Must("kill", id); return env.Number(t, d.Must("wait", id)) },
				Remove: func() { d.Remove(id) },
			}
		},
		Run: func(t testing.TB, privileged bool, command ...string) engine.Result {
			return e.For(t).Docker(withPrivileges([]string{"run", "--rm", runtime}, privileged, append([]string{engine.Busybox}, command...))...)
		},
		Viewed: func(t testing.TB, dir string, command ...string) func() engine.Result {
			d := e.For(t)
			options := append([]string{"create", runtime, "--network=none"}, promise.ViewOptions("--label", dir)...)
			id := d.Must(slices.Concat(options, []string{engine.Busybox}, command)...)
			t.Cleanup(func() { d.Remove(id) })
			return func() engine.Result { return d.Docker("start", "-a", id) }
		},
		Query:  promise.Query,
		Places: []string{filepath.Join(e.Dir, "*run/*/*/*%s*"), filepath.Join(e.Dir, "*/io.containerd.runtime.v2.task/*/%s")},
	}
}

// withPrivileges puts --privileged between, when it is requested.
func withPrivileges(before []string, privileged bool, after []string) []string {
	if privileged {
		before = append(before, "--privileged")
	}
	return append(before, after...)
}

// ctr is containerd with agentjail's shim.
func ctr(t *testing.T) *promise.Engine {
	if _, err := exec.LookPath("containerd"); err != nil {
		t.Skip("no containerd (hack/deps.sh installs it):", err)
	}
	dir := env.Get(t, engine.Shim)
	d := engine.ContainerdFor(t, engine.ContainerdOptions{Shims: []string{dir}})
	var ids atomic.Int64
	newID := func() string { return fmt.Sprintf("contract-%d-%d", os.Getpid(), ids.Add(1)) }
	return &promise.Engine{
		Start: func(t testing.TB, command ...string) *promise.Jail {
			c, id := d.For(t), newID()
			remove := func() { c.Remove(id) }
			t.Cleanup(remove)
			c.Must(append([]string{"run", "-d", "--runtime", engine.ShimRuntime, engine.BusyboxImage, id}, command...)...)
			pid, _ := c.Task(id)
			if pid == 0 {
				t.Fatalf("there is no task %s", id)
			}
			return &promise.Jail{
				ID: id, PID: pid,
				Exec: func(command ...string) engine.Result {
					return engine.Heard(engine.Silent, func() engine.Result {
						return c.Ctr(append([]string{"tasks", "exec", "--exec-id", newID(), id}, command...)...)
					})
				},
				Kill: func() int {
					c.Must("tasks", "kill", "--signal", "KILL", id)
					env.Eventually(c, "the end of the task", func() bool { _, status := c.Task(id); return status == "STOPPED" })
					return -1
				},
				Remove: remove,
			}
		},
		Run: func(t testing.TB, privileged bool, command ...string) engine.Result {
			return d.For(t).Ctr(withPrivileges([]string{"run", "--rm", "--runtime", engine.ShimRuntime}, privileged, append([]string{engine.BusyboxImage, newID()}, command...))...)
		},
		Viewed: func(t testing.TB, dir string, command ...string) func() engine.Result {
			return promise.ViewByCtr(d.For(t), newID())(t, dir, command...)
		},
		Query:  promise.Query,
		Places: []string{d.Bundle("%s")},
	}
}

// podman is Podman with agentjail as its default runtime, as root or as an ordinary user.
func podman(t *testing.T, user bool) *promise.Engine {
	var lacks map[string]string
	if user {
		lacks = promise.Rootless
		if name := promise.Sandbox(); name != "" {
			t.Skip("a sandbox is made by root's engine alone:", name)
		}
	}
	for _, need := range []string{"podman", "newuidmap"} {
		if _, err := exec.LookPath(need); err != nil {
			t.Skip("no Podman (hack/deps.sh installs it and uidmap):", err)
		}
	}
	under := env.Get(t, engine.UnderTest)
	place := engine.PodmanFor(t, user)
	env.Check(t, place.Register(under))
	const network = "--network=none" // what podman would plug in is of no use to a jail, and costs time
	return &promise.Engine{
		Start: func(t testing.TB, command ...string) *promise.Jail {
			p := place.For(t, user)
			id := p.Detached(append([]string{network, engine.Busybox}, command...)...)
			return &promise.Jail{
				ID: id, PID: place.PID(t, env.Number(t, p.Must("inspect", "--format", "{{.State.Pid}}", id))),
				Exec: func(command ...string) engine.Result { return p.Podman(append([]string{"exec", id}, command...)...) },
				Privileged: func(command ...string) engine.Result {
					return p.Podman(append([]string{"exec", "--privileged", id}, command...)...)
				},
				Kill:   func() int { p.Must("kill", id); return env.Number(t, p.Must("wait", id)) },
				Remove: func() { p.Remove("rm", "-f", "-t", "0", "-v", "--ignore", id) },
			}
		},
		Run: func(t testing.TB, privileged bool, command ...string) engine.Result {
			return place.For(t, user).Podman(withPrivileges([]string{"run", "--rm", network}, privileged, append([]string{engine.Busybox}, command...))...)
		},
		Viewed: func(t testing.TB, dir string, command ...string) func() engine.Result {
			p := place.For(t, user)
			options := append([]string{"create", network}, promise.ViewOptions("--annotation", dir)...)
			id := p.Must(slices.Concat(options, []string{engine.Busybox}, command)...)
			t.Cleanup(func() { p.Remove("rm", "-f", "-t", "0", "-v", "--ignore", id) })
			return func() engine.Result { return p.Podman("start", "-a", id) }
		},
		Query: func(t testing.TB, args ...string) engine.Result {
			return place.For(t, user).Run(nil, append([]string{under}, args...)...)
		},
		Places: []string{
			place.Root() + "/run/agentjail/jails/*%s*", place.Root() + "/run/user/*/agentjail/jails/*%s*",
			place.Root() + "/run/user/*/agentjail/delegate/*%s*",
		},
		Lacks: lacks,
	}
}
