package harden

import (
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
)

// TestMountOwner: who of the jail owns what is mounted, and that the report reports it.
func TestMountOwner(t *testing.T) {
	for _, c := range []struct {
		name  string
		owner NamedOwner
		want  plan.User
		says  []string
	}{
		{"no user is named", NamedOwner{}, plan.User{UID: 1000, GID: 1000}, []string{"owned by uid 1000, gid 1000", "the first process's user"}},
		{"one is", NamedOwner{User: &plan.User{UID: 33, GID: 34}, By: "label x names app"}, plan.User{UID: 33, GID: 34}, []string{"owned by uid 33, gid 34", "label x names app"}},
		{"one whom the jail lacks", NamedOwner{User: &plan.User{UID: 65536}, By: "label x names 65536"}, plan.User{UID: 1000, GID: 1000}, []string{"outside the jail's ids", "the first process's user"}},
		{"a group that the jail lacks", NamedOwner{User: &plan.User{UID: 5, GID: 1 << 31}, By: "label x"}, plan.User{UID: 1000, GID: 1000}, []string{"outside the jail's ids"}},
		{"one that cannot be followed", NamedOwner{Ignored: []policy.Ignored{{Name: "label x", Value: "y", Why: "unknown"}}}, plan.User{UID: 1000, GID: 1000}, []string{"label x", "unknown"}},
	} {
		s := small()
		s.Process.User = specs.User{UID: 1000, GID: 1000}
		s.Mounts = append(s.Mounts, specs.Mount{Destination: "/work", Type: "bind", Source: "/srv/w", Options: []string{"rbind"}})
		f := testFacts(s)
		f.Sources[len(s.Mounts)-1] = &bindsource.Fact{Path: "/srv/w", Kind: bindsource.Dir, UID: 1000, GID: 1000}
		f.Owner = c.owner
		r, rep, err := Harden(s, policy.Default(), f)
		if err != nil {
			t.Fatal(c.name, err)
		}
		if r.Plan.User != c.want {
			t.Errorf("%s: %+v", c.name, r.Plan.User)
		}
		text := reportText(rep)
		for _, says := range c.says {
			if !strings.Contains(text, says) {
				t.Errorf("%s: the report lacks %q:\n%s", c.name, says, text)
			}
		}
		// Without such a mount there is nothing to state.
		s.Mounts = s.Mounts[:len(s.Mounts)-1]
		f.Sources = f.Sources[:len(s.Mounts)]
		if _, rep, err = Harden(s, policy.Default(), f); err != nil || strings.Contains(reportText(rep), "owned by") {
			t.Errorf("%s: without a mount: %v\n%s", c.name, err, reportText(rep))
		}
	}
}

func reportText(rep *report.Report) string {
	var b strings.Builder
	for _, c := range rep.Changes {
		b.WriteString(c.String() + "\n")
	}
	return b.String()
}
