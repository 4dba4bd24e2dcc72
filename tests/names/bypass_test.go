package names

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// attacker is the argument by which this test's program, in a jail, tries the table.
const attacker = "bypass"

// bypassPolicy is the jails' policy, for a delegate or the one that agentjail chooses. The order of exact names is that of their addresses.
func bypassPolicy(delegate string) string {
	return fmt.Sprintf("delegate = %q\n", delegate) + `[network]
mode = "names"
allow = [` + quoted(bypassRules()) + `]
deny = ["denied.wild.example.test", "other.example.test"]
`
}

func bypassRules() []string {
	return []string{"api.example.test:443,80,22", "private.example.test:22", "*.wild.example.test:443,80", "*.trap.example.test:22", serverAddr + ":22"}
}

func quoted(list []string) string {
	var out []string
	for _, s := range list {
		out = append(out, fmt.Sprintf("%q", s))
	}
	return strings.Join(out, ", ")
}

// A driver runs the table in a jail, by one of the ways in which jails are run.
type driver struct {
	name string
	// command is the attacker in a jail that runs, or is begun by it.
	command func(t *testing.T, l *lab) *exec.Cmd
	// itself are attempts by which the jail reaches itself in place of the helper: of lesser ways for its connections to arrive.
	itself []string
}

// lab is what all drivers share.
type lab struct {
	n    *internet
	base string // a directory of root's
	prog string // this test's program in it, as a client
	// places are where else than on the host jails' helpers are on record: patterns, each with the host's number of a process there.
	places map[string]func(int) int
}

var drivers = []driver{
	{"agentjail over runc", func(t *testing.T, l *lab) *exec.Cmd { return overDelegate(t, l, "runc", "") }, nil},
	{"agentjail over crun", func(t *testing.T, l *lab) *exec.Cmd { return overDelegate(t, l, "crun", "") }, nil},
	{"agentjail over gVisor", func(t *testing.T, l *lab) *exec.Cmd { return overDelegate(t, l, "runsc", "") }, nil},
	{"agentjail over runc, by " + byRedirect, func(t *testing.T, l *lab) *exec.Cmd { return overDelegate(t, l, "runc", byRedirect) }, nil},
	{"agentjail over runc, by " + byListeners, func(t *testing.T, l *lab) *exec.Cmd { return overDelegate(t, l, "runc", byListeners) }, []string{"UDP on a name", "a listener on a name", "a listener on its address"}},
	{"agentjail sandbox", sandboxed, nil},
	{"containerd", overContainerd, nil},
	{"a user's podman", overPodman, nil},
}

// TestBypass: in jails of every kind, and by every way for their connections to arrive, none of the attempts gets past the rules, nothing of them arrives outside, and what is allowed
// works before and after.
func TestBypass(t *testing.T) {
	log.SetOutput(io.Discard) // the lab's servers complain about handshakes that were only begun
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	n := newInternet(t)
	n.widen(t)
	resolveBy(t, dnsAddr)
	l := newLab(t, n)
	w := n.watch(t)
	for _, d := range drivers {
		begun := time.Now()
		before := helpers(t, l)
		cmd := d.command(t, l)
		if cmd == nil {
			continue // it printed why
		}
		a := beginAttack(t, cmd)
		if a == nil {
			continue
		}
		helper := newHelper(t, l, before)
		a.helper = helper.Pid
		counts := map[string]int{}
		for _, p := range []string{partControls, partClosed, partControls, partOpen, partControls} {
			counts[p] = a.try(t, d, p, n, w)
		}
		if now := newHelper(t, l, before); now.Pid != helper.Pid {
			t.Errorf("%s: the helper was %d and is %d", d.name, helper.Pid, now.Pid)
		}
		a.end(t)
		t.Logf("%s: %d attempts are refused, %d of them behind what is allowed; %d controls work; %v", d.name, counts[partClosed]+counts[partOpen], counts[partOpen], counts[partControls], time.Since(begun).Round(time.Millisecond))
		if counts[partClosed]+counts[partOpen] < 150 {
			t.Errorf("%s: too few attempts", d.name)
		}
	}
}

// permitted reports whether the host's name server may be requested a name: one of the rules, which no attempt carries anything in.
func permitted(name string) bool {
	return strings.HasSuffix(name, trapDomain) || name == "private.example.test." || name == "api.example.test." || name == "a.wild.example.test." || name == "localhost."
}

// an attack is the attacker at work.
type attack struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	errs   *strings.Builder
	helper int
}

// beginAttack starts it; nil, and an error of the test, where it cannot.
func beginAttack(t *testing.T, cmd *exec.Cmd) *attack {
	t.Helper()
	a := &attack{cmd: cmd, errs: &strings.Builder{}}
	cmd.Stderr = a.errs
	var err error
	if a.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return nil
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	a.out = bufio.NewScanner(out)
	a.out.Buffer(nil, 1<<20)
	// The jail runs once an empty part is answered.
	if !a.part(t, "nothing", func(verdict) {}) {
		return nil
	}
	return a
}

// part has it try one part.
func (a *attack) part(t *testing.T, name string, each func(verdict)) bool {
	t.Helper()
	if _, err := fmt.Fprintf(a.in, "%s %d\n", name, a.helper); err != nil {
		t.Errorf("%v: %s", err, a.errs)
		return false
	}
	for a.out.Scan() {
		if a.out.Text() == "" {
			return true
		}
		var v verdict
		if err := json.Unmarshal(a.out.Bytes(), &v); err != nil {
			t.Errorf("%q: %v", a.out.Text(), err)
			return false
		}
		each(v)
	}
	_ = a.cmd.Wait()
	t.Errorf("the attacker has ended: %v, %s", a.cmd.ProcessState, a.errs)
	return false
}

// try judges one part, and reports how many of its rows went as they have to.
func (a *attack) try(t *testing.T, d driver, name string, n *internet, w *wire) int {
	t.Helper()
	n.questions()
	w.arrived(t)
	good, tried := 0, map[string]bool{}
	a.part(t, name, func(v verdict) {
		tried[v.What] = true
		if v.Passed == (name == partControls) {
			good++
		} else if slices.Contains(d.itself, v.What) {
			return
		} else if v.Passed {
			t.Errorf("%s: %s gets past the rules: %s", d.name, v.What, v.Got)
		} else {
			t.Errorf("%s: %s is allowed and does not work: %s", d.name, v.What, v.Got)
		}
	})
	for _, row := range part(name) {
		if !tried[row.what] {
			t.Errorf("%s: %s was not tried", d.name, row.what)
		}
	}
	for _, q := range n.questions() {
		if !permitted(q) {
			t.Errorf("%s, %s: the host's name server was queried for %s", d.name, name, q)
		}
	}
	for _, what := range w.arrived(t) {
		// What is allowed is for the server, and carries nothing else.
		if name == partClosed || strings.Contains(what, " with ") || !strings.HasPrefix(what, "TCP to "+serverAddr+":") && !strings.HasPrefix(what, "TCP to ["+serverSix+"]:") {
			t.Errorf("%s, %s: outside arrives: %s", d.name, name, what)
		}
	}
	return good
}

// end lets the attacker end.
func (a *attack) end(t *testing.T) {
	t.Helper()
	a.in.Close()
	for a.out.Scan() {
	}
	if err := a.cmd.Wait(); err != nil {
		t.Errorf("the attacker: %v: %s", err, a.errs)
	}
}

// helpers are the records of all helpers, by directory.
func helpers(t *testing.T, l *lab) map[string]record {
	t.Helper()
	out := map[string]record{}
	add := func(pattern string, number func(int) int) {
		found, _ := filepath.Glob(pattern)
		for _, path := range found {
			var r record
			if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, &r) == nil {
				r.Pid = number(r.Pid)
				out[path] = r
			}
		}
	}
	add("/run/agentjail/jails/*/helper.json", func(pid int) int { return pid })
	for pattern, number := range l.places {
		add(pattern, number)
	}
	return out
}

// newHelper is the one that was not there before.
func newHelper(t *testing.T, l *lab, before map[string]record) record {
	t.Helper()
	var out []record
	for path, r := range helpers(t, l) {
		if _, old := before[path]; !old {
			out = append(out, r)
		}
	}
	if len(out) != 1 || out[0].Pid <= 1 {
		t.Fatalf("%d helpers of the jail: %+v", len(out), out)
	}
	return out[0]
}

func newLab(t *testing.T, n *internet) *lab {
	t.Helper()
	bins := env.Get(t, engine.BinDir)
	l := &lab{n: n, base: filepath.Join(bins, "bypass"), places: map[string]func(int) int{}}
	l.prog = filepath.Join(l.base, filepath.Base(client))
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = errors.Join(os.MkdirAll(l.base, 0o755), os.WriteFile(l.prog, self, 0o755))
	}
	env.Check(t, err)
	return l
}

// policy writes one where policies count.
func (l *lab) policy(t *testing.T, name, text string) string {
	t.Helper()
	at := filepath.Join(l.base, name+".toml")
	env.Check(t, os.WriteFile(at, []byte(text), 0o600))
	return at
}

// overDelegate is a bundle of a delegate, by one way for connections or the best.
func overDelegate(t *testing.T, l *lab, name, way string) *exec.Cmd {
	find := exec.LookPath
	if name == "runsc" {
		find = engine.Tool
	}
	path, err := find(name)
	if err != nil {
		t.Fatalf("%v (hack/deps.sh or hack/tools/build.sh installs it)", err)
	}
	var bin string
	if way != "" {
		bin = only(t, way) // before the jail, which is deleted with it
	}
	j := newJail(t, l.n)
	if way != "" {
		j.c.Path = bin
	}
	j.c.Args = slices.Clone(j.c.Args)
	j.c.Args[slices.Index(j.c.Args, "--config")+1] = l.policy(t, name, bypassPolicy(path))
	if name == "crun" { // it does not run beside a version 2 hierarchy with controllers
		root := env.Get(t, engine.ModuleRoot)
		j.c.Path, j.c.Args = filepath.Join(root, "hack/without-unified.sh"), append([]string{j.c.Path}, j.c.Args...)
	}
	j.start(t)
	return j.b.Command(t.Context(), j.c, "exec", j.id, client, attacker)
}

// sandboxed is a command without an engine.
func sandboxed(t *testing.T, l *lab) *exec.Cmd {
	bin := env.Get(t, engine.UnderTest)
	dir, err := os.MkdirTemp("/tmp", "agentjail-names-")
	env.Check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	prog := filepath.Join(dir, filepath.Base(client))
	self, err := os.ReadFile(l.prog)
	if err == nil {
		err = errors.Join(os.WriteFile(prog, self, 0o755), os.Chown(dir, 1000, 1000), os.Chmod(dir, 0o755))
	}
	env.Check(t, err)
	args := []string{"--config", l.policy(t, "sandbox", "[network]\ndeny = [\"denied.wild.example.test\", \"other.example.test\"]\n"), "sandbox", "--workspace", dir}
	for _, r := range bypassRules() {
		args = append(args, "--allow", r)
	}
	return exec.Command(bin, append(args, "--", prog, attacker)...)
}

// overContainerd is a container of ctr's, by the shim.
func overContainerd(t *testing.T, l *lab) *exec.Cmd {
	shims := env.Get(t, engine.Shim)
	bin := filepath.Join(l.base, "containerd")
	env.Check(t, os.MkdirAll(bin, 0o755))
	// It would be in a network of its own. The process's first thread may be the lab's, so that its namespace is not the host's.
	host, err := os.Open("/proc/thread-self/ns/net")
	env.Check(t, err)
	t.Cleanup(func() { host.Close() })
	for name, text := range map[string]string{"containerd": fmt.Sprintf("exec nsenter --net=/proc/%d/fd/%d", os.Getpid(), host.Fd()), "ctr": "exec"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatalf("%v (hack/deps.sh installs it)", err)
		}
		env.Check(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+" "+path+" \"$@\"\n"), 0o755))
	}
	c := engine.ContainerdFor(t, engine.ContainerdOptions{Binary: filepath.Join(bin, "containerd"), Shims: []string{shims}})
	mount := "type=bind,src=" + l.prog + ",dst=" + client + ",options=rbind:ro"
	return c.Command(t.Context(), "run", "--rm", "--runtime", engine.ShimRuntime, "--runtime-config-path", l.policy(t, "containerd", strings.TrimPrefix(bypassPolicy(""), "delegate = \"\"\n")), "--mount", mount, engine.BusyboxImage, "bypass", client, attacker)
}

// overPodman is a container of an ordinary user's Podman, whose helper connects from the host's network as that user.
func overPodman(t *testing.T, l *lab) *exec.Cmd {
	if _, err := exec.LookPath("podman"); err != nil {
		t.Logf("no podman on this machine (hack/deps.sh installs it): %v", err)
		return nil
	}
	if name := promise.Sandbox(); name != "" {
		t.Logf("void: a %s sandbox is made by root's engine alone", name)
		return nil
	}
	under := env.Get(t, engine.UnderTest)
	p := engine.PodmanFor(t, true)
	env.Check(t, p.Register(under))
	// In the place there is no resolv.conf of the lab's.
	config := l.policy(t, "podman", strings.TrimPrefix(bypassPolicy(""), "delegate = \"\"\n")+fmt.Sprintf("servers = [%q]\n", dnsAddr))
	env.Check(t, os.Chmod(config, 0o644))
	l.places[p.Root()+"/run/user/*/agentjail/jails/*/helper.json"] = func(pid int) int { return p.PID(t, pid) }
	cmd := p.InsideAsUser(t.Context(), "podman", "--runtime-flag=config="+config, "run", "--rm", "-i", "--network=none", "--volume="+l.prog+":"+client+":ro", engine.Busybox, client, attacker)
	cmd.Args = slices.DeleteFunc(cmd.Args, func(s string) bool { return s == "--net" }) // the lab is reached from this process's network
	return cmd
}
