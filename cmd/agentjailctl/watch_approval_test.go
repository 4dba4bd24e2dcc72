package main

import (
	"strings"
	"testing"
	"time"

	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/state"
)

// TestAnswers: an answer is for the question that a person saw, and never for another that came while it was typed.
func TestAnswers(t *testing.T) {
	at := time.Unix(1e9, 0)
	q := &questions{now: func() time.Time { return at }, print: func(*question) error { return nil }}
	ask := func(name string) {
		t.Helper()
		if err := q.add(&state.Brief{ID: "jail"}, network.Waiting{Name: name, Port: 443, Left: 30}); err != nil {
			t.Fatal(err)
		}
	}
	chosen := func(text string) string {
		n, v, why := q.chosen(strings.Fields(text))
		if n == nil {
			return why
		}
		return strings.TrimSpace(n.Name + map[bool]string{true: " allowed"}[v.Allow] + map[bool]string{true: " once"}[v.Once])
	}
	says := func(text, want string) {
		t.Helper()
		if got := chosen(text); got != want && (want == "" || !strings.HasPrefix(got, want+" ") && !strings.HasPrefix(got, want+"?")) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	says("y", "it does not wait")
	ask("a.example.org")
	says("y", "which one") // it came while that was typed
	at = at.Add(settled)
	says("maybe", "answer y,")
	says("y 1 2", "answer y,")
	says("y one", "answer y,")
	says("y 2", "it does not wait")
	says("y", "a.example.org allowed")
	ask("b.example.org")
	ask("c.example.org")
	at = at.Add(settled)
	says("n", "which one")
	says("once 3", "c.example.org allowed once")
	says("n 2", "b.example.org")
	ask("d.example.org")
	at = at.Add(30 * time.Second)
	says("y 4", "it does not wait")
}
