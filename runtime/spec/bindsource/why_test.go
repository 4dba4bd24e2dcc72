package bindsource

import (
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/observe/why"
	"agentjail.dev/runtime/spec/policy"
)

// TestWhyKnowsEveryRefusal: `agentjail why` answers each text with a cause that is about mounts, and that
// of a socket with the one about sockets.
func TestWhyKnowsEveryRefusal(t *testing.T) {
	var facts []Fact
	for _, p := range places {
		facts = append(facts, Fact{Path: p.path, Kind: Dir, UID: 1000}, Fact{Path: "/srv/x", Kind: Dir, UID: 1000, Also: p.path})
	}
	for _, p := range userPlaces {
		facts = append(facts, Fact{Path: "/home/dev/" + p.path, Kind: Dir, UID: 1000})
	}
	for _, p := range storage {
		facts = append(facts, Fact{Path: p, Kind: Dir, UID: 1000, Storage: p}, Fact{Path: "/srv/x", Kind: Dir, Role: Volume, Also: p})
	}
	for _, name := range append(engineSockets, "agent.1") {
		facts = append(facts, Fact{Path: "/srv/" + name, Kind: Socket})
	}
	facts = append(facts, Fact{Path: "/srv/x", Kind: Device}, Fact{Path: "/srv/x", Kind: Pipe}, Fact{Path: "/srv/x", Kind: Dir, Link: "/srv/link"},
		Fact{Path: "/srv/x", Kind: Dir}, Fact{Path: "/root/x", Kind: Dir}, Fact{Path: "/srv/x", Kind: Dir, UID: 1000, HostPath: true},
		Fact{Path: "/etc/gitconfig", Kind: File, Withheld: "it holds a credential"}, Fact{Path: "/var/lib/kubelet/x", Kind: Dir, Role: Pod})
	n := 0
	for _, f := range facts {
		r := Refusal(f, false, policy.Binds{})
		if r == nil {
			continue
		}
		n++
		text := r.About("mount of %s at %s", f.Path, "/w").Error()
		q, err := why.ParseQuestion(text, "amd64")
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		a, err := new(why.Facts).Answer(q)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		// The text's own reason and remedy come first, if it has a remedy.
		i := slices.IndexFunc(a.Causes, func(c why.Answer) bool { return len(c.By) > 0 && strings.HasPrefix(c.By[0], "mounts") })
		switch {
		case i < 0:
			t.Errorf("%s: answered by %+v", text, a.Causes)
		case f.Kind == Socket && !strings.Contains(a.Causes[i].Question, "socket"):
			t.Errorf("%s: answered by %q", text, a.Causes[i].Question)
		}
	}
	if n < 400 {
		t.Errorf("%d refusals of %d sources", n, len(facts))
	}
}
