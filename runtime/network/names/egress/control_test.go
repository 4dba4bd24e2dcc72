package egress

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/network/names/decisions"
	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/spec/netrules"
)

// controlled is the path of a control socket that is served, for one user.
func controlled(t *testing.T, uid int, change func(helperproto.Request) (helperproto.Answer, error)) string {
	t.Helper()
	c, path := controlSocket(t, uid)
	go c.serve(func(r helperproto.Request) (helperproto.Answer, func(), error) {
		a, err := change(r)
		return a, func() {}, err
	}, (*approvals)(nil).attach)
	return path
}

// controlSocket is a control socket that is not served yet, for one user.
func controlSocket(t *testing.T, uid int) (*control, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "control-") // a short path: an address has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	c, err := openControl(f, uint32(os.Geteuid()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.l.Close() })
	c.uid = uint32(uid)
	return c, path
}

// sent is the answer to what is sent, and "" for none.
func sent(t *testing.T, path, text string) string {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, werr := io.WriteString(c, text) // the helper may have closed it by then
	_ = c.(*net.UnixConn).CloseWrite()
	out, err := io.ReadAll(c)
	if err != nil && !errors.Is(err, unix.ECONNRESET) {
		t.Fatal(werr, err)
	}
	return string(out)
}

// TestControl: one well-formed request a connection is followed, and nothing else changes anything.
func TestControl(t *testing.T) {
	got := make(chan helperproto.Request, 1)
	path := controlled(t, os.Geteuid(), func(r helperproto.Request) (helperproto.Answer, error) {
		if len(r.Allow) == 0 {
			return helperproto.Answer{}, errors.New("not this one")
		}
		got <- r
		return helperproto.Answer{Ended: 3}, nil
	})
	for text, want := range map[string]string{
		"":                           "EOF",
		"\x00\x01\x02":               "invalid character",
		`[]`:                         "cannot unmarshal",
		`{"verb":"rules","allow":[]`: "unexpected EOF",
		`{"verb":"rules","allow":["a.example.test"],"uid":0}`: "unknown field",
		`{"verb":"rules","allow":["a.example.test"]} {}`:      "more than one",
		`{"verb":"stop"}`:             "no such request",
		`{"verb":"rules","allow":[]}`: "not this one",

		`{"verb":"` + strings.Repeat("x", helperproto.MaxRequest): "more than",
		`{"allow":["` + strings.Repeat("[", 100000) + `"]}`:       "no such request",
		strings.Repeat(`{"allow":`, 100000):                       "exceeded max depth",
	} {
		var a helperproto.Answer
		said := sent(t, path, text)
		if err := json.Unmarshal([]byte(said), &a); said != "" && err != nil {
			t.Errorf("%.40q: %q", text, said)
		}
		// Of what is too long the helper does not read the rest: its answer may be lost.
		if !strings.Contains(a.Error, want) && (said != "" || len(text) < helperproto.MaxRequest) {
			t.Errorf("%.40q: %q, want %q", text, said, want)
		}
	}
	select {
	case r := <-got:
		t.Errorf("followed: %+v", r)
	default:
	}
	if a := sent(t, path, `{"verb":"rules","allow":["a.example.test"],"deny":["b.example.test"]}`); a != `{"ended":3}` {
		t.Errorf("answer %s", a)
	}
	if r := <-got; len(r.Allow) != 1 || r.Allow[0] != "a.example.test" || r.Deny[0] != "b.example.test" {
		t.Errorf("%+v", r)
	}
}

// TestControlLate: a request is not executed if its sender does not wait any more, for example
// after the helper was stopped. If the answer cannot be delivered, the helper notices.
func TestControlLate(t *testing.T) {
	c, path := controlSocket(t, os.Geteuid())
	ask := func(allow string) net.Conn {
		t.Helper()
		conn, err := net.Dial("unix", path)
		if err == nil {
			_, err = io.WriteString(conn, `{"verb":"rules","allow":["`+allow+`"]}`)
		}
		if err == nil {
			err = conn.(*net.UnixConn).CloseWrite()
		}
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	ask("late.example.test").Close()
	leaves, stays := ask("undelivered.example.test"), ask("heard.example.test")
	defer stays.Close()
	followed, undelivered := make(chan string, 3), make(chan string, 3)
	go c.serve(func(r helperproto.Request) (helperproto.Answer, func(), error) {
		followed <- r.Allow[0]
		if r.Allow[0] == "undelivered.example.test" {
			leaves.Close()
		}
		return helperproto.Answer{Ended: 1}, func() { undelivered <- r.Allow[0] }, nil
	}, (*approvals)(nil).attach)
	if out, err := io.ReadAll(stays); err != nil || string(out) != `{"ended":1}` {
		t.Errorf("answer %q, %v", out, err)
	}
	if a, b := <-followed, <-followed; a != "undelivered.example.test" || b != "heard.example.test" || len(followed) > 0 {
		t.Errorf("followed: %q, %q and %d more", a, b, len(followed))
	}
	if got := <-undelivered; got != "undelivered.example.test" || len(undelivered) > 0 {
		t.Errorf("undelivered: %q and %d more", got, len(undelivered))
	}
}

// TestControlOfAnother: another user gets no answer, even with access to the socket.
func TestControlOfAnother(t *testing.T) {
	path := controlled(t, os.Geteuid()+1, func(helperproto.Request) (helperproto.Answer, error) {
		t.Error("another user's request is followed")
		return helperproto.Answer{}, nil
	})
	if a := sent(t, path, `{"verb":"rules","allow":["a.example.test"]}`); a != "" {
		t.Errorf("answer %q", a)
	}
}

// TestChange: names stay pinned, what went is refused, and rules that cannot be read change
// nothing.
func TestChange(t *testing.T) {
	log, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s, err := newServer(&helperproto.Work{Allow: []string{"b.example.test"}, Pinned: []string{"a.example.test", "b.example.test"}}, new(credentials), newEvents(1<<20, 0, 0, log), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, ok := s.name("b.example.test")
	if !ok || b.String() != "127.64.0.2" {
		t.Fatalf("b has %v: the pinned names before it count", b)
	}
	if _, ok := s.name("a.example.test"); ok {
		t.Error("a pinned name without a rule is answered")
	}
	if _, _, err := s.handleRequest(helperproto.Request{Verb: helperproto.Rules, Allow: []string{"c.example.test", "@none"}}); err == nil {
		t.Error("a preset is taken")
	}
	if again, ok := s.name("b.example.test"); !ok || again != b {
		t.Errorf("after rules that were not taken, b has %v", again)
	}
	if _, _, err := s.handleRequest(helperproto.Request{Verb: helperproto.Rules, Allow: []string{"c.example.test", "a.example.test"}, Deny: []string{"a.example.test"}}); err != nil {
		t.Fatal(err)
	}
	if c, ok := s.name("c.example.test"); !ok || c.String() != "127.64.0.3" {
		t.Errorf("c has %v", c)
	}
	for _, name := range []string{"a.example.test", "b.example.test"} {
		if at, ok := s.name(name); ok {
			t.Errorf("%s is answered with %v", name, at)
		}
	}
	s.served = []uint16{80}
	a, undelivered, err := s.handleRequest(helperproto.Request{Verb: helperproto.Rules, Allow: []string{"c.example.test:80,22", "d.example.test"}})
	if err != nil || len(a.Unserved) != 2 || a.Unserved[0] != 22 {
		t.Errorf("%+v, %v", a, err)
	}
	// Of an undelivered answer's rules, those that the former rules had are in force.
	undelivered()
	both, err := netrules.Parse([]string{"c.example.test:80"}, []string{"a.example.test"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a, _, err := s.handleRequest(helperproto.Request{Verb: helperproto.State}); err != nil || a.Digest != both.Digest() {
		t.Errorf("rules that no session has received: %+v, %v; in force are %q", a, err, s.set.Load().Entries())
	}
	if name, ok := s.pool.name(b); !ok || name != "b.example.test" {
		t.Errorf("%v is %q's now", b, name)
	}
}

// TestLogTurns: a full log goes on in the other file, and a helper that takes it over where it
// ended.
func TestLogTurns(t *testing.T) {
	dir := t.TempDir()
	begin := func() *events {
		t.Helper()
		files, err := decisions.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		turn, seq, err := decisions.Last(dir)
		if err != nil {
			t.Fatal(err)
		}
		e := newEvents(4<<10, turn, seq, files[:]...)
		e.limit = newBucket(1000, 1)
		return e
	}
	for life := range 3 {
		e := begin()
		for i := range 100 {
			e.add(decisions.Event{What: decisions.Connect, Verdict: allowed, Name: "x.example.test", Sent: int64(life*100 + i + 1)})
		}
		r, err := decisions.NewReader(dir)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Next()
		r.Close()
		if err != nil || len(got) < 10 {
			t.Fatalf("%d events, %v", len(got), err)
		}
		// The last of the log without a gap, in less than its bound and more than half of it.
		for i, v := range got {
			if want := int64(life*100 + 100 - len(got) + i + 1); v.Sent != want || v.Seq != uint64(want) {
				t.Errorf("life %d: event %d is %+v, want number %d", life, i, v, want)
			}
		}
		size := int64(0)
		for _, name := range decisions.LogFiles {
			if fi, err := os.Stat(filepath.Join(dir, name)); err == nil {
				size += fi.Size()
			}
		}
		if size > 4<<10 || size < 2<<10-200 {
			t.Errorf("life %d: %d bytes", life, size)
		}
	}
}
