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

// TestReview: a writable directory that policy or the caller wants reviewed is a view; what cannot be one is refused with the remedy, unless the caller did not name it.
func TestReview(t *testing.T) {
	all, named, listed := policy.Default(), policy.Default(), policy.Default()
	all.Workspace.All, named.Workspace.Wanted, listed.Workspace.Review = true, []string{"/work"}, []string{"/srv/*"}
	owned := bindsource.Fact{Path: "/srv/p", Kind: bindsource.Dir, UID: 1000, GID: 1000}
	with := func(change func(*bindsource.Fact)) bindsource.Fact {
		f := owned
		change(&f)
		return f
	}
	roots := all
	roots.Binds.Allow = []string{"/srv/p"}
	for _, c := range []struct {
		name    string
		options string
		pol     policy.Policy
		fact    bindsource.Fact
		view    bool
		says    string // of the refusal, or of the report
	}{
		{"not wanted", "rbind", policy.Default(), owned, false, ""},
		{"all", "rbind", all, owned, true, "a view"},
		{"named", "bind", named, owned, true, "a view"},
		{"listed", "rbind", listed, owned, true, "a view"},
		{"read-only", "rbind ro", all, owned, false, ""},
		{"mounts below", "rbind", all, with(func(f *bindsource.Fact) { f.Mounts = []string{"/srv/p/data"} }), true, "/srv/p/data dropped (an overlay"},
		{"mounts below that were not requested", "bind", all, with(func(f *bindsource.Fact) { f.Mounts = []string{"/srv/p/data"} }), true, ""},
		{"a file", "rbind", all, with(func(f *bindsource.Fact) { f.Kind = bindsource.File }), false, "mount the directory that it is in"},
		{"root's", "rbind", roots, with(func(f *bindsource.Fact) { f.UID = 0 }), false, "chown"},
		{"root's group's", "rbind", all, with(func(f *bindsource.Fact) { f.GID = 0 }), false, "chgrp"},
		{"a parent", "rbind", listed, with(func(f *bindsource.Fact) { f.Path = "/srv" }), true, "a view"},
		{"another name", "rbind", listed, with(func(f *bindsource.Fact) { f.Path, f.Shown.Names = "/x", []string{"/srv/p"} }), true, "a view"},
		{"a part of it", "rbind", listed, with(func(f *bindsource.Fact) { f.Path, f.Shown.Parts = "/x", []string{"/srv/p/q"} }), true, "a view"},
		{"one below", "rbind", listed, with(func(f *bindsource.Fact) {
			f.Path, f.Mounts, f.ReachedBelow = "/x", []string{"/x/y"}, []string{"/x/y", "/srv/p"}
		}), true, "/x/y dropped (an overlay"},
		{"a volume of it", "rbind", listed, with(func(f *bindsource.Fact) {
			f.Path, f.Role, f.Also = "/var/lib/docker/volumes/v/_data", bindsource.Volume, "/srv/p"
		}), true, "a view"},
		{"in a volume", "rbind", listed, with(func(f *bindsource.Fact) { f.Role, f.ReachedBelow = bindsource.Volume, []string{"/srv/p"} }), false, `workspace.review = "/srv/*"`},
		{"a volume", "rbind", all, with(func(f *bindsource.Fact) { f.Role = bindsource.Volume }), false, ""},
		{"a volume by name", "rbind", named, with(func(f *bindsource.Fact) { f.Role = bindsource.Volume }), false, "leave its destination out"},
	} {
		_, b, rep, err := one(t, specs.Mount{Destination: "/work", Type: "bind", Source: c.fact.Path, Options: strings.Fields(c.options)}, &c.fact, c.pol)
		if err != nil {
			if c.view || c.says == "" || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "view of "+c.fact.Path+" at /work: refused") {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if (b.Storage == plan.StorageReview) != c.view || c.view && (b.Protect || b.Absent || !b.NonRecursive) {
			t.Errorf("%s: planned %+v", c.name, *b)
		}
		var lines []string
		for _, ch := range append(rep.Of(report.Set), rep.Of(report.Dropped)...) {
			lines = append(lines, ch.String())
		}
		text := strings.Join(lines, "\n")
		if !strings.Contains(text, c.says) || strings.Contains(text, "an overlay") != strings.Contains(c.says, "an overlay") {
			t.Errorf("%s: reported\n%s", c.name, text)
		}
	}
}
