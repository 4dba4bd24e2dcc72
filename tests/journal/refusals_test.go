package journal

import (
	"errors"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
	"agentjail.dev/tests/journal/refusal"
)

// TestRefusals: a run that is refused forty kinds of things has each of them shown once, with its rule and what would let it through, whatever
// engine started the jail. tests/cri and tests/kubernetes do the same by a pod.
func TestRefusals(t *testing.T) {
	h := newHost(t, refusal.Policy)
	refusal.Collect(t, h.config, func(args ...string) *exec.Cmd { return exec.Command(args[0], args[1:]...) })
	m := &refusal.Matrix{}
	for _, d := range []struct {
		driver refusal.Driver
		needs  string
		place  func(*host, *testing.T, []refusal.Row) *refusal.Place
	}{
		{refusal.CommandLine, bin, (*host).commandLine},
		{refusal.Docker, "dockerd", (*host).docker},
		{refusal.Podman, "podman", (*host).podman},
		{refusal.Containerd, "containerd", (*host).containerd},
	} {
		t.Run(string(d.driver), func(t *testing.T) {
			if _, err := exec.LookPath(d.needs); err != nil {
				t.Skip("hack/deps.sh installs it:", err)
			}
			m.Drivers = append(m.Drivers, d.driver)
			rows := refusal.Of(d.driver)
			p := d.place(h.of(t), t, rows)
			p.Try(t, rows)
			p.Check(t, d.driver, rows, m)
		})
	}
	t.Logf("what is shown, by driver:\n%s", m)
}

// of is the host in the hands of a subtest.
func (h host) of(t *testing.T) *host {
	h.t = t
	return &h
}

// denied is what is shown of a jail.
func (h *host) denied(id string) func() [][]refusal.Denial {
	return func() [][]refusal.Denial {
		return [][]refusal.Denial{refusal.Parse(h.t, engine.Run(h.t, h.caller.Path, slices.Concat(h.caller.Args, []string{"denied", "--json", id})...))}
	}
}

// worked makes an error of a command that failed.
func worked(r engine.Result) error {
	if r.Code != 0 {
		return errors.New(r.String())
	}
	return nil
}

// execs are exec and its detached form, by an engine's client: what stands before the options, behind them the jail's id and the command.
func execs(run func(...string) engine.Result, id string, verb, detach []string) (exec, detached func([]string, ...string) error) {
	form := func(verb []string) func([]string, ...string) error {
		return func(options []string, command ...string) error {
			return worked(run(slices.Concat(verb, options, []string{id}, command)...))
		}
	}
	return form(verb), form(append(slices.Clone(verb), detach...))
}

// commandLine is agentjail as engines call it, on a bundle that requests everything.
func (h *host) commandLine(t *testing.T, rows []refusal.Row) *refusal.Place {
	b := requesting(t, h.base, rows)
	id := h.create(b)
	run := func(args ...string) engine.Result { return b.Result(t, h.caller, args...) }
	t.Cleanup(func() { h.why(t, id) })
	p := &refusal.Place{Denied: h.denied(id), Update: func(pids, memory int64) error {
		return worked(run(slices.Concat([]string{"update"}, limits(pids, memory), []string{id})...))
	}}
	p.Exec, p.Detached = execs(run, id, []string{"exec"}, []string{"--detach"})
	return p
}

// requesting is a bundle that requests everything.
func requesting(t *testing.T, base string, rows []refusal.Row) *engine.Bundle {
	b := engine.NewBundle(t, base)
	b.Spec.Process.User = specs.User{}
	b.Spec.Process.Args = []string{"sleep", "1000"}
	for _, r := range rows {
		if r.Bundle != nil {
			r.Bundle(b.Spec)
		}
	}
	return b
}

// limits are the options by which runc's command line, Docker and Podman are requested other limits.
func limits(pids, memory int64) (options []string) {
	if pids != 0 {
		options = append(options, "--pids-limit", strconv.FormatInt(pids, 10))
	}
	if memory != 0 {
		options = append(options, "--memory", strconv.FormatInt(memory, 10))
	}
	return options
}

// why: the answer to a question reports what the jail was refused of it.
func (h *host) why(t *testing.T, id string) {
	for question, want := range map[string]string{
		"bpf": "syscall.refused bpf(", "refused.example:443": "name.refused refused.example", "allowed.example:25": "connect.refused allowed.example:25",
		"sh: can't fork: Resource temporarily unavailable": "limit.pids by limits.pids", "getpid": "",
	} {
		out, _ := h.agentjailctl("why", id, question) // it is refused, which is the status
		if strings.Contains(out, "so far, last at ") != (want != "") || !strings.Contains(out, want) {
			t.Errorf("why %s: no %q in\n%s", question, want, out)
		}
	}
}

// options are those of all rows by which a configuration is requested.
func options(rows []refusal.Row) (out []string) {
	for _, r := range rows {
		if r.Bundle != nil {
			out = append(out, r.Options...)
		}
	}
	return out
}

// docker is a Docker whose user requests everything.
func (h *host) docker(t *testing.T, rows []refusal.Row) *refusal.Place {
	e := engine.StartFor(t, engine.Options{Runtimes: map[string]engine.Runtime{engine.Name: {Path: bin, Args: []string{"--config", h.config}}}})
	d := e.For(t)
	id := d.Detached(slices.Concat([]string{"--runtime=" + engine.Name}, options(rows), []string{engine.Busybox, "sleep", "1000"})...)
	p := &refusal.Place{Denied: h.denied(id), Update: func(pids, memory int64) error {
		return worked(d.Docker(slices.Concat([]string{"update"}, swapless(limits(pids, memory)), []string{id})...))
	}}
	p.Exec, p.Detached = execs(d.Docker, id, []string{"exec"}, []string{"--detach"})
	return p
}

// swapless adds the option that Docker and Podman need with a limit of memory.
func swapless(limits []string) []string {
	if i := slices.Index(limits, "--memory"); i >= 0 {
		limits = append(limits, "--memory-swap", limits[i+1])
	}
	return limits
}

// podman is root's Podman. Its jails are in a place of their own, and so are the commands that read about them.
func (h *host) podman(t *testing.T, rows []refusal.Row) *refusal.Place {
	place := engine.PodmanFor(t, false)
	env.Check(t, place.Register(bin))
	refusal.Collect(t, h.config, func(args ...string) *exec.Cmd { return place.Inside(t.Context(), args...) })
	p := place.For(t, false)
	podman := func(args ...string) engine.Result {
		return p.Podman(append([]string{"--runtime-flag=config=" + h.config}, args...)...)
	}
	r := podman(slices.Concat([]string{"run", "-d"}, options(rows), []string{engine.Busybox, "sleep", "1000"})...)
	env.Check(t, worked(r))
	id := strings.TrimSpace(r.Stdout)
	t.Cleanup(func() { p.Remove("rm", "-f", "-t", "0", "-v", "--ignore", id) })
	out := &refusal.Place{
		Denied: func() [][]refusal.Denial {
			return [][]refusal.Denial{refusal.Parse(t, p.Run(nil, bin, "--config", h.config, "denied", "--json", id))}
		},
		Update: func(pids, memory int64) error {
			return worked(podman(slices.Concat([]string{"update"}, swapless(limits(pids, memory)), []string{id})...))
		},
	}
	out.Exec, out.Detached = execs(podman, id, []string{"exec"}, []string{"--detach"})
	return out
}
