package names

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// ownPolicy gives a jail a policy file of its own, which changes.
func (j *jail) ownPolicy(t *testing.T, text string) {
	t.Helper()
	bins := env.Get(t, engine.BinDir)
	j.conf = filepath.Join(bins, j.id+".toml")
	j.c.Args = append([]string{"--config", j.conf}, j.c.Args[2:]...)
	j.policy(t, text)
	t.Cleanup(func() { os.Remove(j.conf) })
}

func (j *jail) policy(t *testing.T, text string) {
	t.Helper()
	env.Check(t, os.WriteFile(j.conf, []byte(text), 0o600))
}

// allowing is a policy that allows these entries.
func allowing(entries ...string) string {
	return fmt.Sprintf("[network]\nmode = \"names\"\nallow = [\"%s\"]\n", strings.Join(entries, `", "`))
}

// ctl calls agentjailctl, or another build of it.
func (j *jail) ctl(t *testing.T, program string, env []string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	out, _ := cmd.CombinedOutput()
	return string(out), cmd.ProcessState.ExitCode()
}

// network calls `agentjail network VERB` for the jail, which has to succeed.
func (j *jail) network(t *testing.T, verb string) string {
	t.Helper()
	out, code := j.ctl(t, filepath.Join(filepath.Dir(j.bin), "agentjailctl"), nil, "network", verb, j.id)
	if code != 0 {
		t.Fatalf("network %s: status %d: %s", verb, code, out)
	}
	return out
}

// open is a connection of the jail's that stays open.
type open struct{ *env.Session }

// stay opens a connection that speaks by lines: what is sent is sent back.
func (j *jail) stay(t *testing.T, host, port string) *open {
	t.Helper()
	args := append(append([]string{}, j.c.Args...), "exec", j.id, client, "stay", host, port)
	o := &open{env.Begin(t, exec.Command(j.c.Path, args...))}
	o.Await(t, "hello")
	return o
}

// lives reports whether the connection still carries a line to the server and back.
func (o *open) lives(t *testing.T) bool {
	t.Helper()
	if _, err := io.WriteString(o.In, "ping\n"); err != nil {
		return false
	}
	return o.Line(t) == "ping"
}

// beStay is the client of stay: it prints what the server states, and sends what it reads.
func beStay(c net.Conn, from io.Reader, to io.Writer) (string, error) {
	end := make(chan error, 2)
	go func() { _, err := io.Copy(to, c); end <- err }()
	go func() { _, err := io.Copy(c, from); end <- err }()
	return "", <-end
}

// TestReload: rules that are read again hold at once, both ways; a connection whose rule went is ended and another goes on; addresses stay.
func TestReload(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	j := newJail(t, n)
	j.ownPolicy(t, allowing("api.example.test:443,7", "other.example.test:7", "granted.example.test:7 private", "*.wild.example.test:443"))
	j.b.Spec.Annotations = map[string]string{"dev.agentjail.network.allow": "api.example.test:443,7;other.example.test:7;granted.example.test:7 private;a.wild.example.test:443"}
	j.start(t)
	kept, ended, option := j.stay(t, "api.example.test", "7"), j.stay(t, "other.example.test", "7"), j.stay(t, "granted.example.test", "7")
	address := func(name string) string {
		got, _ := j.in(t, "look", name, "0")
		return got
	}
	first := address("api.example.test")
	// Narrower, but for a name that the annotation does not have.
	j.policy(t, allowing("self.example.test:7", "api.example.test:7", "granted.example.test:7", "*.wild.example.test:443")+"[limits]\npids = 77\n")
	said := j.network(t, "reload")
	if !strings.Contains(said, "3 entries in force, 2 connections ended") || !strings.Contains(said, "for new jails alone: limits.pids\n") {
		t.Errorf("reload states %q", said)
	}
	if text, err := os.ReadFile(filepath.Join(j.dir(t), "report.json")); err != nil || strings.Contains(string(text), "other.example.test") || !strings.Contains(string(text), "a.wild.example.test:443") {
		t.Errorf("the report: %v\n%s", err, text)
	}
	if !kept.lives(t) {
		t.Error("the connection whose rule is still there has ended")
	}
	for what, o := range map[string]*open{"name": ended, "option": option} {
		if o.lives(t) {
			t.Errorf("the connection whose %s went lives", what)
		}
	}
	for name, want := range map[string]string{"other.example.test": "no such host", "self.example.test": "no such host", "api.example.test": first} {
		if got := address(name); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got, ok := j.in(t, "https", "api.example.test", "443"); ok || !strings.Contains(got, "reset") {
		t.Errorf("a port that went: %q", got)
	}
	if got, ok := j.in(t, "https", "a.wild.example.test", "443"); !ok {
		t.Errorf("what is still allowed: %q", got)
	}
	// All of the annotation's again, and no more.
	j.policy(t, allowing("other.example.test:7", "api.example.test:443", "self.example.test:7"))
	j.network(t, "reload")
	if got, ok := j.in(t, "https", "api.example.test", "443"); !ok {
		t.Errorf("a port that came back: %q", got)
	}
	if got := address("api.example.test"); got != first {
		t.Errorf("the address was %s, and is %s", first, got)
	}
	if kept.lives(t) {
		t.Error("a connection lives whose port went")
	}
	if !j.stay(t, "other.example.test", "7").lives(t) {
		t.Error("a name that came back")
	}
	// A mode without rules leaves nothing.
	j.policy(t, "")
	if said := j.network(t, "reload"); !strings.Contains(said, "0 entries") || !strings.Contains(said, "network.mode") {
		t.Errorf("reload states %q", said)
	}
	if got := address("api.example.test"); !strings.Contains(got, "no such host") {
		t.Errorf("without rules: %q", got)
	}
	// What cannot be read changes nothing.
	j.policy(t, allowing("*"))
	if out, code := j.ctl(t, filepath.Join(filepath.Dir(j.bin), "agentjailctl"), nil, "network", "reload", "--all"); code == 0 || !strings.Contains(out, j.id) {
		t.Errorf("a policy that cannot be read: %d: %s", code, out)
	}
	if out, code := j.inspect(t); code != 0 {
		t.Errorf("inspect: %d\n%s", code, out)
	}
}

// TestReloadPod: a pod keeps what the rules of all its containers allow, each read again.
func TestReloadPod(t *testing.T) {
	skipVoid(t)
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	first := newJail(t, n)
	first.ownPolicy(t, allowing("api.example.test:443"))
	first.start(t)
	second := newJail(t, n)
	second.c, second.conf = first.c, first.conf
	for i := range second.b.Spec.Linux.Namespaces {
		if ns := &second.b.Spec.Linux.Namespaces[i]; ns.Type == specs.NetworkNamespace {
			ns.Path = fmt.Sprintf("/proc/%d/ns/net", first.pid(t))
		}
	}
	second.b.Spec.Annotations = map[string]string{"dev.agentjail.network.allow": "api.example.test:443"}
	second.start(t)
	// The first one's own rules are wider now, and the second one's are not.
	first.policy(t, allowing("api.example.test:443", "other.example.test:443"))
	if said := first.network(t, "reload"); !strings.Contains(said, "1 entries") {
		t.Errorf("reload states %q", said)
	}
	for name, want := range map[string]bool{"api.example.test": true, "other.example.test": false} {
		if got, ok := second.in(t, "https", name, "443"); ok != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if out, code := second.ctl(t, filepath.Join(filepath.Dir(second.bin), "agentjailctl"), nil, "network", "reload", second.id); code == 0 || !strings.Contains(out, "another jail") {
		t.Errorf("reload of the second: %d: %s", code, out)
	}
}

// TestReloadKilled: reload is killed between its steps, and then the helper. Whatever is left, the jail reaches nothing that only one of the
// former and the new rules allow and that was not reached before, and the next reload sets it right.
func TestReloadKilled(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	j := newJail(t, n)
	j.ownPolicy(t, allowing("api.example.test:443", "other.example.test:443"))
	j.start(t)
	crashing := filepath.Join(filepath.Dir(j.bin), "agentjailctl-crashtest")
	env.Check(t, engine.Build("./cmd/agentjailctl", crashing, "-tags=crashtest"))
	reaches := func() (out string) {
		for _, name := range []string{"api", "other", "a.wild"} {
			if got, ok := j.in(t, "https", name+".example.test", "443"); ok {
				out += name + " "
			} else if !strings.Contains(got, "no such host") && !strings.Contains(got, "refused") {
				t.Errorf("%s: %q", name, got)
			}
		}
		return out
	}
	for _, w := range []struct{ point, now, restarted string }{
		{"reload.narrowed", "api other ", "api "}, // as before; and then what both allow
		{"reload.sent", "api a.wild ", "api "},
	} {
		j.policy(t, allowing("api.example.test:443", "other.example.test:443"))
		j.network(t, "reload")
		j.policy(t, allowing("api.example.test:443", "a.wild.example.test:443"))
		if out, code := j.ctl(t, crashing, []string{"AGENTJAIL_TEST_CRASH=" + w.point}, "network", "reload", j.id); code != -1 {
			t.Fatalf("%s: reload was not killed: %d: %s", w.point, code, out)
		}
		if got := reaches(); got != w.now {
			t.Errorf("%s: it reaches %q, want %q", w.point, got, w.now)
		}
		if out, code := j.inspect(t); code == 0 || !strings.Contains(out, "the rules on record are not applied") || !strings.Contains(out, "network reload") {
			t.Errorf("%s: inspect: %d\n%s", w.point, code, out)
		}
		j.killHelper(t)
		j.network(t, "restart")
		if out, code := j.inspect(t); code != 0 {
			t.Errorf("%s, and a new helper: inspect: %d\n%s", w.point, code, out)
		}
		if got := reaches(); got != w.restarted {
			t.Errorf("%s, and a new helper: it reaches %q, want %q", w.point, got, w.restarted)
		}
		j.network(t, "reload")
		if got := reaches(); got != "api a.wild " {
			t.Errorf("%s, and another reload: it reaches %q", w.point, got)
		}
	}
}

// stopped waits until a signal has stopped every thread of a process: it is one thread's to take, and the others go on until then.
func stopped(t *testing.T, pid int) {
	t.Helper()
	var last string
	if !env.Poll(env.Patience, func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(threads) == 0 {
			t.Fatalf("threads of process %d: %v, %v", pid, threads, err)
		}
		return !slices.ContainsFunc(threads, func(path string) bool {
			text, err := os.ReadFile(path)
			last = string(text)
			return err == nil && !strings.Contains(last, ") T ")
		})
	}) {
		t.Fatalf("process %d is not stopped: %s", pid, last)
	}
}

// TestStoppedHelper: a helper that is stopped takes no part in a reload. Once it goes on it does not follow the request that it has missed,
// and inspect reports what is wrong all the time; a restart by force ends it.
func TestStoppedHelper(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	j := newJail(t, n)
	j.ownPolicy(t, allowing("api.example.test:443", "other.example.test:443"))
	j.start(t)
	ctl := filepath.Join(filepath.Dir(j.bin), "agentjailctl")
	fd := pidfd(t, j.helper(t).Pid)
	signal := func(s unix.Signal) {
		t.Helper()
		env.Check(t, unix.PidfdSendSignal(fd, s, nil, 0))
	}
	broken := func(when, want string) {
		t.Helper()
		if out, code := j.inspect(t); code == 0 || !strings.Contains(out, want) {
			t.Errorf("%s: inspect: %d, want %q\n%s", when, code, want, out)
		}
	}
	signal(unix.SIGSTOP)
	stopped(t, j.helper(t).Pid)
	j.policy(t, allowing("a.wild.example.test:443", "api.example.test:443"))
	if out, code := j.ctl(t, ctl, nil, "network", "reload", j.id); code == 0 || !strings.Contains(out, "restart --force") {
		t.Errorf("reload of a stopped helper: %d: %s", code, out)
	}
	broken("stopped", "restart --force")
	signal(unix.SIGCONT)
	broken("going on", "the rules on record are not applied")
	for name, want := range map[string]bool{"api.example.test": true, "other.example.test": true, "a.wild.example.test": false} {
		if got, ok := j.in(t, "https", name, "443"); ok != want {
			t.Errorf("by the former rules: %s: %q", name, got)
		}
	}
	signal(unix.SIGSTOP)
	if out, code := j.ctl(t, ctl, nil, "network", "restart", "--force", j.id); code != 0 {
		t.Fatalf("restart --force: %d: %s", code, out)
	}
	awaitEnd(t, fd)
	if got, ok := j.in(t, "https", "other.example.test", "443"); ok {
		t.Errorf("by the rules on record: %q", got)
	}
	j.network(t, "reload")
	for name, want := range map[string]bool{"api.example.test": true, "other.example.test": false, "a.wild.example.test": true} {
		if got, ok := j.in(t, "https", name, "443"); ok != want {
			t.Errorf("by the new rules: %s: %q", name, got)
		}
	}
	if out, code := j.inspect(t); code != 0 {
		t.Errorf("inspect: %d\n%s", code, out)
	}
}

func (j *jail) killHelper(t *testing.T) {
	t.Helper()
	fd := pidfd(t, j.helper(t).Pid)
	env.Check(t, unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0))
	awaitEnd(t, fd)
}

// oneLog reports whether the events of both helpers are one log.
func (j *jail) oneLog(t *testing.T) {
	t.Helper()
	out, code := j.ctl(t, filepath.Join(filepath.Dir(j.bin), "agentjailctl"), nil, "network", "log", "--json", j.id)
	if code != 0 {
		t.Fatalf("network log: %d: %s", code, out)
	}
	seq := 0
	for line := range strings.Lines(out) {
		var e struct{ Seq int }
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Seq != seq+1 {
			t.Errorf("event %d: %v: %s", seq+1, err, line)
		}
		seq = e.Seq
	}
	if seq < 2 {
		t.Errorf("%d events:\n%s", seq, out)
	}
}

// takesPorts has a hostile program of the jail take the ports of a helper that has ended, and reports how to end it.
func (j *jail) takesPorts(t *testing.T, ports string) (end func()) {
	t.Helper()
	cmd := exec.Command(j.c.Path, append(append([]string{}, j.c.Args...), "exec", j.id, client, "take", "127.0.0.1", ports)...)
	s := env.Begin(t, cmd)
	s.Await(t, "listening")
	return func() { _ = s.End() }
}

// beTaker takes ports of an address, over TCP and UDP, and answers no client there.
func beTaker(host, ports string, until io.Reader) error {
	for port := range strings.SplitSeq(ports, ",") {
		at := net.JoinHostPort(host, port)
		l, err := net.Listen("tcp4", at)
		if err != nil {
			return err
		}
		defer l.Close()
		c, err := net.ListenPacket("udp4", at)
		if err != nil {
			return err
		}
		defer c.Close()
	}
	fmt.Println("listening")
	_, err := io.Copy(io.Discard, until)
	return err
}

// helps reports whether the helper does all that it is for: names, connections, and proxies.
func (j *jail) helps(t *testing.T, when, address string) {
	t.Helper()
	if got, ok := j.in(t, "https", "other.example.test", "443"); !ok {
		t.Errorf("%s: %q", when, got)
	}
	for by := range proxies {
		if got, ok := j.in(t, "https by "+by, "other.example.test", "443"); !ok {
			t.Errorf("%s, by %s: %q", when, by, got)
		}
	}
	if got, _ := j.in(t, "look", "other.example.test", "0"); got != address || address == "" {
		t.Errorf("%s: the address was %q, and is %q", when, address, got)
	}
}

// TestRestart: a new helper takes the place of one that has ended, with the same addresses, also where a program of the jail has taken its
// ports; not of one that runs.
func TestRestart(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	j := newJail(t, n)
	j.ownPolicy(t, allowing("api.example.test:443", "other.example.test:443", "*.wild.example.test:443"))
	j.b.Spec.Linux.Sysctl = map[string]string{"net.ipv4.ip_unprivileged_port_start": "0"} // as Docker sets it
	j.start(t)
	ctl := filepath.Join(filepath.Dir(j.bin), "agentjailctl")
	if out, code := j.ctl(t, ctl, nil, "network", "restart", j.id); code == 0 || !strings.Contains(out, "has not ended") {
		t.Errorf("while it runs: %d: %s", code, out)
	}
	// other has the second address, also where only it is left.
	before, _ := j.in(t, "look", "other.example.test", "0")
	wild, _ := j.in(t, "look", "a.wild.example.test", "0")
	j.policy(t, allowing("other.example.test:443", "*.wild.example.test:443"))
	j.network(t, "reload")
	j.killHelper(t)
	if out, code := j.ctl(t, ctl, nil, "network", "reload", j.id); code == 0 || !strings.Contains(out, "network restart") {
		t.Errorf("reload without a helper: %d: %s", code, out)
	}
	end := j.takesPorts(t, "53,1080,3128")
	j.network(t, "restart")
	j.helps(t, "while programs have its ports", before)
	if out, code := j.inspect(t); code != 0 {
		t.Errorf("while programs have its ports: inspect: %d\n%s", code, out)
	}
	j.killHelper(t)
	end()
	j.network(t, "restart")
	j.helps(t, "after restart", before)
	if got, ok := j.in(t, "look", "api.example.test", "0"); ok {
		t.Errorf("a name that went: %q", got)
	}
	// A name that a wildcard allows has another address, which no name had.
	if got, ok := j.in(t, "look", "b.wild.example.test", "0"); !ok || got == wild {
		t.Errorf("another name's address is %q, and was a.wild's, %q", got, wild)
	}
	j.oneLog(t)
	if out, code := j.inspect(t); code != 0 {
		t.Errorf("inspect: %d\n%s", code, out)
	}
}
