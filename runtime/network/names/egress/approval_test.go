package egress

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentjail.dev/runtime/network/names/decisions"
	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/spec/netrules"
	"agentjail.dev/runtime/spec/network"
)

// moved is a clock that the test moves. A wait ends when the clock has been moved past its end.
type moved struct {
	at    time.Time
	waits chan chan time.Time
}

func (m *moved) now() time.Time { return m.at }

// moving are approvals by a moved clock, with rules, and the end of an attached process.
func moving(t *testing.T, search ...string) (*approvals, *moved, *net.UnixConn) {
	t.Helper()
	m := &moved{at: time.Unix(1e9, 0), waits: make(chan chan time.Time, 64)}
	a := newApprovals(search)
	a.now, a.rate.now, a.rate.last = m.now, m.now, m.at
	a.after = func(time.Duration) <-chan time.Time {
		c := make(chan time.Time, 1)
		m.waits <- c
		return c
	}
	here, there := unixPair(t)
	if err := a.attach(here); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(there)
	if line, err := lines.ReadString('\n'); err != nil || line != "{}\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return a, m, there
}

func unixPair(t *testing.T) (here, there *net.UnixConn) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); s.Close() })
	return s, c
}

func rulesOf(t *testing.T, allow, deny []string) *netrules.Set {
	t.Helper()
	set, err := netrules.Parse(allow, deny, nil)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// answersTo is the reason why a name gets no address, or "".
func answersTo(a *approvals, name string, rules *netrules.Set) string {
	ok, reason := a.answers(name, rules)
	if ok {
		return ""
	}
	return reason
}

// awaited waits for a decision in the background.
func awaited(a *approvals, name string, port uint16, rules *netrules.Set) chan string {
	out := make(chan string, 1)
	go func() {
		d, reason := a.await(target{name, port}, rules)
		if d != nil {
			reason = d.rule.Source()
		}
		out <- reason
	}()
	return out
}

// waitsFor returns when something waits.
func waitsFor(t *testing.T, there *net.UnixConn, want string) {
	t.Helper()
	_ = there.SetReadDeadline(time.Now().Add(20 * time.Second))
	line, err := bufio.NewReaderSize(there, 512).ReadString('\n')
	var w network.Waiting
	if err != nil || json.Unmarshal([]byte(line), &w) != nil || fmt.Sprintf("%s:%d", w.Name, w.Port) != want || w.Left != 30 {
		t.Fatalf("%q, %v, want %s", line, err, want)
	}
}

// TestApprovalOfName: which names get an address although no rule has them.
func TestApprovalOfName(t *testing.T) {
	rules := rulesOf(t, []string{"api.example.test:443", "*.wild.example.test:22"}, []string{"denied.example.test", "port.example.test:22"})
	if got := answersTo(nil, "new.example.test", rules); got != noRule {
		t.Errorf("without approval: %q", got)
	}
	a, m, there := moving(t, "corp.example.org")
	for _, c := range []struct{ name, want string }{
		{"denied.example.test", noRule},
		{"port.example.test", noRule},
		{"single", "one label"},
		{"printer.local", "network of its own"},
		{"10.in-addr.arpa", "network of its own"},
		{"metadata.google.internal", "network of its own"},
		{"new.corp.example.org", "host's search list"},
		{"api.example.test.example.net", "search list, after api.example.test"},
		{"a.wild.example.test.example.net", "search list, after a.wild.example.test"},
		{"new.example.test", ""},
		{"new.example.test", ""}, // again costs nothing
		{"new.example.test.example.net", "search list, after new.example.test"},
		{"second.example.test", tooFast},
		{"second.example.test.example.net", "search list, after second.example.test"},
	} {
		if got := answersTo(a, c.name, rules); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	for i := range maxOpen + 2 {
		m.at = m.at.Add(900 * time.Millisecond)
		got := answersTo(a, fmt.Sprintf("n%d.example.test", i), rules)
		if i == 0 && got != tooFast {
			t.Errorf("after 0.9 s: %q", got)
		}
	}
	m.at = m.at.Add(approvalTime)
	for i := range maxOpen {
		a.rate.have = 1
		if got := answersTo(a, fmt.Sprintf("m%d.example.test", i), rules); got != "" {
			t.Errorf("name %d: %q", i, got)
		}
	}
	a.rate.have = 1
	if got := answersTo(a, "more.example.test", rules); got != tooMany {
		t.Errorf("one more: %q", got)
	}
	m.at = m.at.Add(approvalTime)
	if got := answersTo(a, "more.example.test", rules); got != "" {
		t.Errorf("when their time is over: %q", got)
	}
	there.Close()
	m.at = m.at.Add(approvalTime)
	if got := answersTo(a, "late.example.test", rules); got != undecidable {
		t.Errorf("with nothing attached: %q", got)
	}
}

// TestDecisions: what waits gets the answer, and decisions hold for as long as they are for.
func TestDecisions(t *testing.T) {
	rules := rulesOf(t, []string{"api.example.test:443"}, []string{"denied.example.test"})
	a, m, there := moving(t)
	decide := func(name string, port uint16, v network.Approval) {
		t.Helper()
		v.Name, v.Port = name, port
		if err := a.decide(v, rules); err != nil {
			t.Error(err)
		}
	}
	got := func(name string, port uint16) string { return <-awaited(a, name, port, rules) }
	// Allowed while it waits, and from then on, on that port alone.
	if why := answersTo(a, "a.example.test", rules); why != "" {
		t.Fatal(why)
	}
	waiting := awaited(a, "a.example.test", 443, rules)
	waitsFor(t, there, "a.example.test:443")
	if list := a.list(); len(list) != 1 || list[0].Port != 443 || list[0].Left != 30 {
		t.Errorf("%+v", list)
	}
	decide("a.example.test", 443, network.Approval{Allow: true})
	if out := <-waiting; out != "approved: a.example.test:443" {
		t.Errorf("%q", out)
	}
	if out := got("a.example.test", 443); out != "approved: a.example.test:443" {
		t.Errorf("again: %q", out)
	}
	// Two connections that wait for one.
	m.at = m.at.Add(time.Second)
	first := awaited(a, "a.example.test", 22, rules)
	waitsFor(t, there, "a.example.test:22")
	second := awaited(a, "a.example.test", 22, rules)
	<-m.waits
	<-m.waits
	<-m.waits
	decide("a.example.test", 22, network.Approval{Allow: true, Once: true})
	outs := []string{<-first, <-second}
	if n := strings.Count(strings.Join(outs, " "), "approved"); n != 1 {
		t.Errorf("once: %q", outs)
	}
	// For a time.
	decide("b.example.test", 443, network.Approval{Allow: true, For: time.Minute})
	m.at = m.at.Add(59 * time.Second)
	if out := got("b.example.test", 443); out != "approved: b.example.test:443" {
		t.Errorf("within its time: %q", out)
	}
	d := a.decided[target{"b.example.test", 443}]
	if why := a.over(d); why != "" {
		t.Errorf("within its time: %q", why)
	}
	there.Close() // nothing waits any more
	m.at = m.at.Add(time.Second)
	if out, why := got("b.example.test", 443), a.over(d); out != undecidable || why == "" {
		t.Errorf("after its time: %q, %q", out, why)
	}
	// Once, and then a time for the connection that it was for.
	decide("c.example.test", 443, network.Approval{Allow: true, Once: true})
	if out := got("c.example.test", 443); out != "approved: c.example.test:443" {
		t.Errorf("once: %q", out)
	}
	if out := got("c.example.test", 443); out != undecidable {
		t.Errorf("twice: %q", out)
	}
	decide("c.example.test", 443, network.Approval{Allow: true, Once: true})
	m.at = m.at.Add(onceTime)
	if out := got("c.example.test", 443); out != undecidable {
		t.Errorf("an old one: %q", out)
	}
	// Denied, which is also answered to a question for the name.
	d = a.decided[target{"a.example.test", 443}]
	decide("a.example.test", 443, network.Approval{})
	if out, name, why := got("a.example.test", 443), answersTo(a, "a.example.test", rules), a.over(d); out != isDenied || name != isDenied || why == "" {
		t.Errorf("denied: %q, %q, %q", out, name, why)
	}
	decide("a.example.test", 443, network.Approval{Allow: true})
	if out := got("a.example.test", 443); out != "approved: a.example.test:443" {
		t.Errorf("allowed after all: %q", out)
	}
	// What is not to be decided.
	for text, v := range map[string]network.Approval{
		"the policy has rules": {Name: "api.example.test", Port: 8443, Allow: true}, "rules for denied": {Name: "denied.example.test", Port: 443, Allow: true},
		"malformed": {Name: "A.example.test", Port: 443, Allow: true}, "decision is": {Name: "a.example.test", Allow: true},
		"is malformed": {Name: "a.example.test", Port: 1, Once: true, For: 1}, "IP address": {Name: "10.0.0.1", Port: 1, Allow: true},
	} {
		if err := a.decide(v, rules); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v", v, err)
		}
	}
	for i := range maxDecided + 1 {
		err := a.decide(network.Approval{Name: fmt.Sprintf("n%d.example.test", i), Port: 1, Allow: true}, rules)
		if i == maxDecided && err == nil {
			t.Error("there is no bound of decisions")
		}
	}
	if err := (*approvals)(nil).decide(network.Approval{Name: "a.example.test", Port: 1}, rules); err == nil {
		t.Error("decided without approval")
	}
}

// TestUndecided: a connection waits for its time and no longer, and not more of them than the bound.
func TestUndecided(t *testing.T) {
	rules := rulesOf(t, nil, nil)
	a, m, there := moving(t)
	first := awaited(a, "a.example.test", 443, rules)
	waitsFor(t, there, "a.example.test:443")
	end := <-m.waits
	var others []chan string
	for range maxWaiters - 1 {
		others = append(others, awaited(a, "a.example.test", 443, rules))
		end := <-m.waits
		defer func() { end <- time.Time{} }()
	}
	if out := <-awaited(a, "a.example.test", 443, rules); !strings.Contains(out, "wait already") {
		t.Errorf("one more: %q", out)
	}
	another := awaited(a, "a.example.test", 22, rules)
	turn := <-m.waits
	m.at = m.at.Add(time.Second)
	turn <- time.Time{}
	waitsFor(t, there, "a.example.test:22")
	(<-m.waits) <- time.Time{}
	if out := <-another; out != notInTime {
		t.Errorf("another port, in its turn: %q", out)
	}
	end <- time.Time{}
	if out := <-first; out != notInTime {
		t.Errorf("%q", out)
	}
	if len(a.list()) != 0 || len(others) == 0 {
		t.Errorf("%v waits", a.list())
	}
	if out := <-awaited(a, "printer.local", 443, rules); out == notInTime || out == tooFast {
		t.Errorf("by a proxy: %q", out)
	}
}

// TestApprovedFlow: no credential follows an approval, new rules and decisions end its connections,
// and the address has to be fit as for any name.
func TestApprovedFlow(t *testing.T) {
	log, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c := &credentials{
		own:       new(authority),
		byHost:    map[string][]*helperproto.Credential{"a.example.test": {{Name: "key", End: true}}},
		endpoints: map[string]string{"a.example.test:22": "key"},
	}
	s, err := newServer(&helperproto.Work{Allow: []string{"api.example.test"}, Approval: true}, c, newEvents(1<<20, 0, 0, log), &routes{fd: -1})
	if err != nil {
		t.Fatal(err)
	}
	v := network.Approval{Name: "a.example.test", Port: 443, Allow: true}
	if _, _, err := s.handleRequest(helperproto.Request{Verb: helperproto.Decide, Decision: &v}); err != nil {
		t.Fatal(err)
	}
	f := &flow{s: s, name: "a.example.test", port: 443}
	if got := f.judged(); !got.OK || f.approved == nil {
		t.Fatalf("%+v", got)
	} else {
		f.rule = got.Rule
	}
	by := f.approved
	ssh := &flow{s: s, name: "a.example.test", port: 22, approved: by}
	if f.endsTLS() || ssh.endsSSH() {
		t.Error("TLS or ssh is ended for a credential")
	}
	if f.approved, ssh.approved = nil, nil; !f.endsTLS() || !ssh.endsSSH() {
		t.Error("neither would be ended without the approval: the test shows nothing")
	}
	f.approved = by
	if why := f.lost(s.set.Load()); why != "" {
		t.Errorf("lost at once: %q", why)
	}
	if why := f.lost(rulesOf(t, nil, []string{"*.example.test"})); !strings.Contains(why, "denied by") {
		t.Errorf("a deny rule that came: %q", why)
	}
	v.Allow = false
	if _, _, err := s.handleRequest(helperproto.Request{Verb: helperproto.Decide, Decision: &v}); err != nil {
		t.Fatal(err)
	}
	if why := f.lost(s.set.Load()); why == "" {
		t.Error("a decision that was withdrawn")
	}
	if got := f.event(decisions.Connect, allowed).Rule; got != "approved: a.example.test:443" {
		t.Errorf("the log's rule is %q", got)
	}
	// A decision whose sender is gone is taken back.
	v.Allow = true
	_, undelivered, err := s.handleRequest(helperproto.Request{Verb: helperproto.Decide, Decision: &v})
	if err != nil {
		t.Fatal(err)
	}
	undelivered()
	if got := f.judged(); got.OK {
		t.Error("a decision holds that no sender knows of")
	}
	if _, _, err := s.handleRequest(helperproto.Request{Verb: helperproto.Decide}); err == nil {
		t.Error("no decision")
	}
}

// TestExpected: a name that is requested before what attaches to each jail has attached waits for that, and not for long.
func TestExpected(t *testing.T) {
	for _, comes := range []bool{true, false} {
		a, m, there := moving(t)
		there.Close()
		a.expectUntil = m.at.Add(expectTime)
		rules := rulesOf(t, nil, nil)
		if ok, reason := a.answers("new.example.test", rules); !ok {
			t.Fatalf("no address: %s", reason)
		}
		got := make(chan string, 1)
		go func() {
			_, reason := a.await(target{"new.example.test", 443}, rules)
			got <- reason
		}()
		turn := <-m.waits // nothing is attached yet
		a.mu.Lock()
		m.at = m.at.Add(expectTime)
		a.mu.Unlock()
		if comes {
			here, there := unixPair(t)
			if err := a.attach(here); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(there)
			turn <- m.at
			for line := ""; !strings.Contains(line, `"port":443`); {
				var err error
				if line, err = lines.ReadString('\n'); err != nil {
					t.Fatalf("the question: %v", err)
				}
			}
			if err := a.decide(network.Approval{Name: "new.example.test", Port: 443, Allow: true}, rules); err != nil {
				t.Error(err)
			}
		} else {
			turn <- m.at
		}
		if reason := <-got; (reason == "") != comes || !comes && reason != undecidable {
			t.Errorf("attached %v: %q", comes, reason)
		}
	}
}
