package names

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/state"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// prompting is a policy in which names without a rule can be approved.
func prompting(rest string) string {
	return allowing("api.example.test:443") + "deny = [\"a.wild.example.test\"]\napproval = \"prompt\"\n" + rest
}

// watcher is an attached `agentjail watch`.
type watcher struct {
	cmd   *exec.Cmd
	lines chan string
}

// watch attaches a watcher to the jail, and returns when it is attached.
func (j *jail) watch(t *testing.T) *watcher {
	t.Helper()
	w := j.watcher(t, j.id)
	// A name that is given an address shows that it is attached.
	env.Poll(env.AnswerWait, func() bool { _, ok := j.in(t, "look", "attached.example.test", "0"); return ok })
	return w
}

// watcher starts a watcher of some jails, or of all.
func (j *jail) watcher(t *testing.T, ids ...string) *watcher {
	t.Helper()
	args := append([]string{"watch", "--json", "--approve"}, ids...)
	w := &watcher{cmd: exec.Command(filepath.Join(filepath.Dir(j.bin), "agentjailctl"), args...), lines: make(chan string, 1000)}
	w.cmd.Stderr = os.Stderr
	out, err := w.cmd.StdoutPipe()
	if err == nil {
		err = w.cmd.Start()
	}
	env.Check(t, err)
	t.Cleanup(w.end)
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			if strings.Contains(s.Text(), "network.waiting") {
				w.lines <- s.Text()
			}
		}
		close(w.lines)
	}()
	return w
}

func (w *watcher) end() {
	_ = w.cmd.Process.Signal(syscall.SIGTERM)
	_ = w.cmd.Wait()
}

// wants returns when a connection waits.
func (w *watcher) wants(t *testing.T, j *jail, name string, port uint16) {
	t.Helper()
	var got struct {
		Schema, Jail, Name string
		Port               uint16
		Left               int
	}
	select {
	case line := <-w.lines:
		if err := json.Unmarshal([]byte(line), &got); err != nil || got.Jail != j.id || got.Name != name || got.Port != port || got.Left < 1 || got.Left > 30 {
			t.Fatalf("it waits for %s (%v), not for %s:%d", line, err, name, port)
		}
	case <-time.After(env.AnswerWait):
		t.Fatalf("nothing waits for %s:%d", name, port)
	}
}

// later runs a client in the jail in the background. The name is looked up more than once: a new one is requested once a second.
func (j *jail) later(t *testing.T, args ...string) chan string {
	t.Helper()
	if !env.Poll(env.AnswerWait, func() bool { _, ok := j.in(t, "look", args[1], "0"); return ok }) {
		t.Fatalf("%s has no address", args[1])
	}
	out := make(chan string, 1)
	go func() { got, _ := j.in(t, args...); out <- got }()
	return out
}

// decide calls agentjailctl network.
func (j *jail) decide(t *testing.T, args ...string) (string, bool) {
	t.Helper()
	words := append([]string{"network", args[0], j.id}, args[1:]...)
	out, code := j.ctl(t, filepath.Join(filepath.Dir(j.bin), "agentjailctl"), nil, words...)
	return out, code == 0
}

func (j *jail) decides(t *testing.T, args ...string) {
	t.Helper()
	if out, ok := j.decide(t, args...); !ok {
		t.Fatalf("%q: %s", args, out)
	}
}

// allows approves a name, whose connection that waits is then served.
func (j *jail) allows(t *testing.T, got <-chan string, name string) {
	t.Helper()
	j.decides(t, "allow", name)
	if out := <-got; out != "served "+name {
		t.Errorf("allowed: %q", out)
	}
}

// TestApproval: a name that no rule has is refused at once, unless something is attached that can decide; then its connection waits for
// the decision, which holds for that name and port alone, as long as it is for, and loosens nothing else.
func TestApproval(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	j := newJail(t, n)
	j.ownPolicy(t, prompting(""))
	j.start(t)
	if got, ok := j.in(t, "https", "other.example.test", "443"); ok || !strings.Contains(got, "no such host") {
		t.Errorf("with nothing attached: %q", got)
	}
	w := j.watch(t)
	n.questions()
	got := j.later(t, "https", "other.example.test", "443")
	w.wants(t, j, "other.example.test", 443)
	if out, ok := j.decide(t, "pending"); !ok || !strings.Contains(out, "agentjail network allow "+j.id+" other.example.test:443") {
		t.Errorf("pending: %s", out)
	}
	for _, q := range n.questions() {
		if strings.HasPrefix(q, "other.") {
			t.Errorf("before the decision the host's name server was queried for %s", q)
		}
	}
	j.allows(t, got, "other.example.test")
	if got, ok := j.in(t, "https", "other.example.test", "443"); !ok {
		t.Errorf("again: %q", got)
	}
	if got, ok := j.in(t, "https", "other.example.test", "443", "api.example.test"); ok || !strings.Contains(got, "access denied") {
		t.Errorf("TLS in another name: %q", got)
	}
	// By a proxy, once.
	got = j.later(t, "greeted by CONNECT", "other.example.test", "22")
	w.wants(t, j, "other.example.test", 22)
	j.decides(t, "allow", "other.example.test:22", "--once")
	if out := <-got; out != "hello sent" {
		t.Errorf("once: %q", out)
	}
	got = j.later(t, "greeted", "other.example.test", "22")
	w.wants(t, j, "other.example.test", 22)
	j.decides(t, "deny", "other.example.test:22")
	if out := <-got; !strings.Contains(out, "reset") {
		t.Errorf("denied: %q", out)
	}
	// A connection that a decision allowed ends with it.
	j.decides(t, "allow", "other.example.test:7", "--for", "1h")
	stays := j.stay(t, "other.example.test", "7")
	if !stays.lives(t) {
		t.Error("for an hour: it has ended")
	}
	j.decides(t, "deny", "other.example.test:7")
	if stays.lives(t) {
		t.Error("it lives after the decision was withdrawn")
	}
	// Addresses that no rule without options leads to.
	for _, name := range []string{"private.example.test", "metadata.example.test", "local.example.test", "self.example.test"} {
		j.decides(t, "allow", name+":22")
		if got, ok := j.in(t, "greeted", name, "22"); ok || !strings.Contains(got, "reset") {
			t.Errorf("%s: %q", name, got)
		}
	}
	// What is never requested.
	for _, name := range []string{"a.wild.example.test", "new.host.example.test", "api.example.test.example.net", "printer.local", "single"} {
		if got, ok := j.in(t, "look", name, "0"); ok || !strings.Contains(got, "no such host") {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, c := range [][]string{{"allow", "a.wild.example.test"}, {"allow", "api.example.test:8443"}, {"deny", "api.example.test"}, {"allow", "10.0.0.1:443"}} {
		if out, ok := j.decide(t, c...); ok {
			t.Errorf("%q: %s", c, out)
		}
	}
	select {
	case line := <-w.lines:
		t.Errorf("it was queried for %s", line)
	default:
	}
	j.hasDecisions(t,
		"approval.allowed other.example.test:443 value until the jail's end", "approval.allowed other.example.test:22 value once",
		"approval.denied other.example.test:22", "approval.allowed other.example.test:7 value for 1h0m0s")
	// A new helper begins without decisions, and the watcher is attached to it again.
	j.killHelper(t)
	j.decides(t, "restart")
	got = j.later(t, "https", "other.example.test", "443")
	w.wants(t, j, "other.example.test", 443)
	// The program that watches ends: what waits may still be answered, and nothing else waits.
	w.end()
	j.allows(t, got, "other.example.test")
	if got, ok := j.in(t, "look", "pod.example.test", "0"); ok {
		t.Errorf("with nothing attached any more: %q", got)
	}
	if out, code := j.inspect(t); code != 0 {
		t.Errorf("inspect: %d\n%s", code, out)
	}
}

// hasDecisions looks for the decisions in the journal and the receipt.
func (j *jail) hasDecisions(t *testing.T, decisions ...string) {
	t.Helper()
	ctl := filepath.Join(filepath.Dir(j.bin), "agentjailctl")
	text, _ := j.ctl(t, ctl, nil, "journal", j.id)
	for _, want := range decisions {
		if !strings.Contains(text, want) {
			t.Errorf("the journal lacks %q:\n%s", want, text)
		}
	}
	receipt, _ := j.ctl(t, ctl, nil, "receipt", j.id)
	if want := "other.example.test:7: allowed for 1h0m0s by "; !strings.Contains(receipt, want) {
		t.Errorf("the receipt lacks %q:\n%s", want, receipt)
	}
	why, _ := j.ctl(t, ctl, nil, "why", j.id, "other.example.test:22")
	// Of the decision and the connection that it ended, either may be recorded last.
	denied := strings.Contains(why, "approval.denied other.example.test:22") || strings.Contains(why, "because denied by a decision")
	if !denied || !strings.Contains(why, "remedy   agentjail network allow "+j.id+" other.example.test:22 ") {
		t.Errorf("why: %s", why)
	}
}

// TestApprovalFromTheFirstMoment: where `agentjail watch` attaches to all jails, a name that a jail wants at once is decided on.
func TestApprovalFromTheFirstMoment(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	j := newJail(t, n)
	j.ownPolicy(t, prompting(""))
	store := state.Store{Root: state.DefaultRoot}
	w := j.watcher(t)
	if !env.Poll(env.AnswerWait, store.Attended) {
		t.Fatal("watch marks nothing")
	}
	j.start(t)
	got := make(chan string, 1)
	go func() { out, _ := j.in(t, "https", "other.example.test", "443"); got <- out }()
	w.wants(t, j, "other.example.test", 443)
	j.allows(t, got, "other.example.test")
	w.end()
	if env.Poll(env.AnswerWait, func() bool { return !store.Attended() }); store.Attended() {
		t.Error("the mark stays after the end of watch")
	}
}

// TestApprovalOff: a container can turn approval off and not on.
func TestApprovalOff(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	for value, policy := range map[string]string{"off": prompting(""), "prompt": allowing("api.example.test:443")} {
		j := newJail(t, n)
		j.ownPolicy(t, policy)
		j.b.Spec.Annotations = map[string]string{"dev.agentjail.network.approval": value}
		if said, err := j.begin(t); err != nil {
			t.Fatalf("%s: %v: %s", value, err, said)
		}
		if out, ok := j.decide(t, "allow", "other.example.test"); ok || !strings.Contains(out, "no name can be approved") {
			t.Errorf("%s: %s", value, out)
		}
		if got, ok := j.in(t, "look", "other.example.test", "0"); ok {
			t.Errorf("%s: %q", value, got)
		}
	}
}

// TestApprovalCommand: policy's command answers while `agentjail watch --command` runs, as a user without rights.
func TestApprovalCommand(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	dir := engine.TempDir(t, "/var/lib", "agentjail-names-")
	env.Check(t, os.Chmod(dir, 0o755))
	program := filepath.Join(dir, "decide")
	text := "#!/bin/sh\nread -r q\ncase $q in *other.example.test*:443}) echo '{\"allow\":true}' ;; *:22}) exit 1 ;; *) echo no ;; esac\n"
	env.Check(t, os.WriteFile(program, []byte(text), 0o755))
	j := newJail(t, n)
	j.ownPolicy(t, prompting("approval_command = [\""+program+"\"]\n"))
	j.start(t)
	if got, ok := j.in(t, "look", "other.example.test", "0"); ok {
		t.Errorf("with nothing attached: %q", got)
	}
	w := &watcher{cmd: exec.Command(filepath.Join(filepath.Dir(j.bin), "agentjailctl"), "watch", "--command", j.id)}
	w.cmd.Stderr = os.Stderr
	env.Check(t, w.cmd.Start())
	t.Cleanup(w.end)
	if got := <-j.later(t, "https", "other.example.test", "443"); got != "served other.example.test" {
		t.Errorf("allowed: %q", got)
	}
	for _, port := range []string{"22", "7"} {
		if got := <-j.later(t, "greeted", "other.example.test", port); !strings.Contains(got, "reset") {
			t.Errorf("no answer, port %s: %q", port, got)
		}
	}
	receipt, _ := j.ctl(t, filepath.Join(filepath.Dir(j.bin), "agentjailctl"), nil, "receipt", j.id)
	for _, want := range []string{"other.example.test:443: allowed until the jail's end by the command " + program, "other.example.test:22: denied once by the command"} {
		if !strings.Contains(receipt, want) {
			t.Errorf("the receipt lacks %q:\n%s", want, receipt)
		}
	}
}

// TestApprovalTerminal: a person at a terminal answers by the question's number, or without one where a single question stands.
func TestApprovalTerminal(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	j := newJail(t, n)
	j.ownPolicy(t, prompting(""))
	j.start(t)
	term := engine.OnTerminal(t, 40, 200, exec.Command(filepath.Join(filepath.Dir(j.bin), "agentjailctl"), "watch", j.id))
	env.Poll(env.AnswerWait, func() bool { _, ok := j.in(t, "look", "attached.example.test", "0"); return ok })
	got := j.later(t, "https", "other.example.test", "443")
	term.Expect("1? " + j.id + " wants other.example.test:443, and waits for ")
	for _, c := range []struct{ typed, want string }{
		{"perhaps", "answer y, n or once, and the question's number: y 3"},
		{"y 1 2", "answer y, n or once"},
		{"y 9", "it does not wait any more"},
		{"y 1", j.id + ": other.example.test:443 allowed until the jail's end"},
	} {
		term.Type(c.typed + "\n")
		term.ExpectNew(c.want)
	}
	if out := <-got; out != "served other.example.test" {
		t.Errorf("allowed: %q", out)
	}
	got = j.later(t, "greeted", "other.example.test", "22")
	term.Expect("2? " + j.id + " wants other.example.test:22, ")
	term.Type("once 2\n")
	term.ExpectNew("other.example.test:22 allowed once")
	if out := <-got; out != "hello sent" {
		t.Errorf("once: %q", out)
	}
	got = j.later(t, "greeted", "other.example.test", "22")
	term.Expect("3? " + j.id)
	// One that has just come may not be the one that an answer without a number is for.
	env.Eventually(t, "an answer without a number", func() bool {
		term.Type("n\n")
		term.ExpectNew("\n")
		select {
		case out := <-got:
			if !strings.Contains(out, "reset") {
				t.Errorf("denied: %q", out)
			}
			return true
		default:
			return false
		}
	})
	term.Type("\x03")
	if code := term.Wait(); code != 0 {
		t.Errorf("interrupted, watch ends with %d: %s", code, term.Said())
	}
}

// TestApprovalPod: a name that a pod's further container wants is decided on for the first one, whose helper serves both.
func TestApprovalPod(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	first := newJail(t, n)
	first.ownPolicy(t, prompting(""))
	first.start(t)
	second := newJail(t, n)
	second.c = first.c
	for i := range second.b.Spec.Linux.Namespaces {
		if ns := &second.b.Spec.Linux.Namespaces[i]; ns.Type == specs.NetworkNamespace {
			ns.Path = fmt.Sprintf("/proc/%d/ns/net", first.pid(t))
		}
	}
	second.start(t)
	w := first.watch(t)
	got := second.later(t, "https", "other.example.test", "443")
	w.wants(t, first, "other.example.test", 443)
	for _, verb := range []string{"allow", "deny"} {
		if out, ok := second.decide(t, verb, "other.example.test"); ok || !strings.Contains(out, "in the network of another jail") {
			t.Errorf("%s for the second: %s", verb, out)
		}
	}
	if out, ok := second.decide(t, "pending"); ok || !strings.Contains(out, "(remedy: name that jail)") {
		t.Errorf("pending of the second: %s", out)
	}
	first.allows(t, got, "other.example.test")
	if out, ok := first.in(t, "https", "other.example.test", "443"); !ok {
		t.Errorf("the first container, after a decision that the second one brought: %q", out)
	}
}

// TestApprovalListeners: without a way that has all ports, a connection waits on the ports that are listened on; publishing goes on.
func TestApprovalListeners(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	bin := only(t, byListeners)
	j := publishing(t, n, "", "18003:8000")
	j.bin, j.c.Path = bin, bin
	j.ownPolicy(t, prompting("publish = [\"18000-18009\"]\n"))
	j.start(t)
	w := j.watch(t)
	got := j.later(t, "https", "other.example.test", "443")
	w.wants(t, j, "other.example.test", 443)
	j.allows(t, got, "other.example.test")
	if out, ok := j.in(t, "greeted", "other.example.test", "7"); ok || !strings.Contains(out, "refused") {
		t.Errorf("a port that is not listened on: %q", out)
	}
	greeted(t, greetedFrom("127.0.0.1", "18003"))
}
