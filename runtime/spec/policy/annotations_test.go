package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestAnnotations(t *testing.T) {
	lax := Default()
	lax.Limits.Pids, lax.Limits.Memory = 0, 0 // no bound
	for _, c := range []struct {
		name, value string
		took        func(Policy) bool // nil where the annotation must be ignored
	}{
		{"root.size", "1MiB", func(p Policy) bool { return p.Root.Size == 1<<20 }},
		{"root.size", "1GiB", func(p Policy) bool { return p.Root.Size == 1<<30 }}, // as policy has it
		{"root.size", "2GiB", nil},
		{"root.size", "0", nil}, // no cap
		{"root.size", "-1", nil},
		{"root.size", "lots", nil},
		{"root.size", "", nil},
		{"root.size", "inf", nil},
		{"root.inodes", "5", func(p Policy) bool { return p.Root.Inodes == 5 }},
		{"root.inodes", "99999999", nil},
		{"root.inodes", "0", nil},
		{"root.inodes", "-5", nil},
		{"root.inodes", "5.5", nil},
		{"root.inodes", "99999999999999999999", nil},
		{"tmpfs.size", "4096", func(p Policy) bool { return p.Tmpfs.Size == 4096 }},
		{"tmpfs.size", "1G", nil},
		{"userns.ids", "70000, 70001", func(p Policy) bool { return slices.Equal(p.Userns.IDs, []string{"70000", "70001"}) }},
		{"userns.ids", "1000", nil},
		{"userns.ids", "node", nil},
		{"tmpfs.max", "4096", func(p Policy) bool { return p.Tmpfs.Max == 4096 && p.Tmpfs.Size == 4096 }},
		{"tmpfs.max", "1G", func(p Policy) bool { return p.Tmpfs.Max == 1<<30 && p.Tmpfs.Size == 256<<20 }},
		{"limits.pids", "10", func(p Policy) bool { return p.Limits.Pids == 10 }},
		{"limits.pids", "99999", func(p Policy) bool { return p.Limits.Pids == 99999 }}, // where policy has no bound
		{"limits.pids", "0", nil},
		{"limits.memory", "1T", func(p Policy) bool { return p.Limits.Memory == 1<<40 }},
		{"seccomp.profile", "strict", func(p Policy) bool { return p.Seccomp.Profile == "strict" }},
		{"seccomp.profile", "default", func(p Policy) bool { return p.Seccomp.Profile == "default" }},
		{"seccomp.profile", "unconfined", nil},
		{"seccomp.profile", "", nil},
		{"on_loosen", "refuse", func(p Policy) bool { return p.OnLoosen == LoosenRefuse }},
		{"on_loosen", "strip", func(p Policy) bool { return p.OnLoosen == LoosenStrip }},
		{"on_loosen", "", nil},
		{"ebpf.block", "exec,bind", func(p Policy) bool { return slices.Equal(p.EBPF.Block, []string{"exec", "bind"}) }},
		{"ebpf.block", "exec,open", nil},
		{"ebpf.block", "", nil},
		{"binds.owner", "1000", func(p Policy) bool { return p.Binds.Owner == "1000" }},
		{"binds.owner", "node:1000", func(p Policy) bool { return p.Binds.Owner == "node:1000" }},
		{"binds.owner", "4294967295", nil},
		{"binds.owner", "../etc", nil},
		{"binds.owner", "", nil},
		{"limits.cpus", "64", nil},
		{"binds.allow", "/etc", nil},
		{"devices.allow", "/dev/kvm", nil},
		{"apparmor.required", "false", nil},
		{"userns.map", "nobody", nil},
		{"Root.Size", "1", nil}, // names are exact
		{"limits.memroy", "1", nil},
		{"", "", nil},
	} {
		p, ignored := lax.Tighten(map[string]string{AnnotationPrefix + c.name: c.value})
		if c.took != nil {
			if !c.took(p) || len(ignored) > 0 {
				t.Errorf("%s=%s: %+v, ignored %v", c.name, c.value, p, ignored)
			}
			continue
		}
		if !reflect.DeepEqual(p, lax) {
			t.Errorf("%s=%s has an effect: %+v", c.name, c.value, p)
		}
		if len(ignored) != 1 || ignored[0].Name != AnnotationPrefix+c.name || ignored[0].Value != c.value || ignored[0].Why == "" {
			t.Errorf("%s=%s: ignored without a word: %v", c.name, c.value, ignored)
		}
	}
	if p, ignored := lax.Tighten(map[string]string{"root.size": "1", "dev.agentjail": "x", "DEV.AGENTJAIL.root.size": "1", "io.x": "y"}); !reflect.DeepEqual(p, lax) || ignored != nil {
		t.Errorf("others' annotations: %+v, %v", p, ignored)
	}
}

// TestInvalidAnnotations: a value that is higher than policy's is not invalid, one that cannot be
// followed at all is.
func TestInvalidAnnotations(t *testing.T) {
	p := Default()
	for _, c := range []struct {
		name, value, why string
		invalid          bool
	}{
		{"limits.memory", "1TiB", "only tighten", false},
		{"limits.pids", "4194304", "only tighten", false},
		{"limits.memory", "lots", "not a size", true},
		{"limits.memory", "0", "more than 0", true},
		{"limits.pids", "ten", "whole number", true},
		{"seccomp.profile", "unconfined", "not a profile", true},
		{"seccomp.profile", "server", "only tighten", false},
		{"on_loosen", "ignore", "neither", true},
		{"ebpf.block", "everything", "", true},
		{"binds.owner", "../x", "", true},
		{"workspace", "direct", "neither", true},
		{"workspace", "a,/b", "absolute", true},
		{"root.backing", "disk", "only tighten", false},
		{"root.backing", "tape", "neither", true},
		{"root.disk", "1k", "less than", true},
		{"root.disk", "1t", "tighter", false},
		{"workspace.size", "1k", "less than", true},
		{"workspace.size", "1t", "tighter", false},
		{"journal.inside", "yes", "true nor false", true},
		{"network.publish", "8000:80", "network.mode", true},
		{"limits.memroy", "1G", `did you mean "limits.memory"?`, true},
		{"limits.cpus", "1", "only the policy file", true},
	} {
		_, ignored := p.Tighten(map[string]string{AnnotationPrefix + c.name: c.value})
		if len(ignored) != 1 || ignored[0].Invalid != c.invalid || !strings.Contains(ignored[0].Why, c.why) {
			t.Errorf("%s=%s: %+v", c.name, c.value, ignored)
		}
	}
}

// strict already is as tight as can be; the annotation for it changes nothing.
func TestAnnotationStaysStrict(t *testing.T) {
	p := Default()
	p.Seccomp.Profile, p.OnLoosen = "strict", LoosenRefuse
	for _, ann := range []map[string]string{
		{AnnotationPrefix + "seccomp.profile": "default", AnnotationPrefix + "on_loosen": "strip"},
		{AnnotationPrefix + "seccomp.profile": "strict", AnnotationPrefix + "on_loosen": "refuse"},
	} {
		if got, _ := p.Tighten(ann); !reflect.DeepEqual(got, p) {
			t.Errorf("%v: %+v", ann, got)
		}
	}
	// A profile of the host's own is not the caller's to leave.
	p.Seccomp.Profile = "mine"
	if got, _ := p.Tighten(map[string]string{AnnotationPrefix + "seccomp.profile": "strict"}); got.Seccomp.Profile != "mine" {
		t.Errorf("left for %s", got.Seccomp.Profile)
	}
}

// TestAnnotationsOnlyTighten tries random annotations on random policies: no
// value is ever looser after, and applying them again changes nothing.
func TestAnnotationsOnlyTighten(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	values := []string{"", "0", "1", "-1", "5", "4096", "1K", "1.5M", "1GiB", "9223372036854775807", "1e9", "strict", "default", "refuse", "strip", "true", "\x00", "١", "exec", "review", "/b,/a/", "bind,exec", "exec,exec", "exec,", "memory", "disk"}
	for range 20000 {
		p := Default()
		for _, v := range []*int64{&p.Root.Inodes, &p.Tmpfs.Inodes, &p.Limits.Pids, (*int64)(&p.Root.Size), (*int64)(&p.Tmpfs.Size), (*int64)(&p.Limits.Memory)} {
			*v = r.Int64N(1 << (1 + r.UintN(40)))
		}
		if r.IntN(2) == 0 {
			p.Root.Backing = RootDisk
		}
		if r.IntN(2) == 0 {
			p.Seccomp.Profile = "strict"
			p.EBPF.Block = []string{"trace", "bind"}
		}
		ann := map[string]string{}
		for range r.IntN(6) {
			ann[AnnotationPrefix+annotations[r.IntN(len(annotations))].name] = values[r.IntN(len(values))]
		}
		got, _ := p.Tighten(ann)
		if why := looser(got, p); why != "" {
			t.Fatalf("%v loosens %s: %+v from %+v", ann, why, got, p)
		}
		if again, _ := got.Tighten(ann); !reflect.DeepEqual(again, got) {
			t.Fatalf("%v applied twice: %+v, then %+v", ann, got, again)
		}
	}
}

// looser compares what annotations may change; all else has to be the same.
func looser(a, b Policy) string {
	bound := func(v int64) int64 {
		if v == 0 {
			return math.MaxInt64
		}
		return v
	}
	for _, c := range []struct {
		name string
		a, b int64
	}{
		{"root.size", int64(a.Root.Size), int64(b.Root.Size)},
		{"root.inodes", a.Root.Inodes, b.Root.Inodes},
		{"root.disk", int64(a.Root.Disk), int64(b.Root.Disk)},
		{"tmpfs.size", int64(a.Tmpfs.Size), int64(b.Tmpfs.Size)},
		{"limits.pids", a.Limits.Pids, b.Limits.Pids},
		{"limits.memory", int64(a.Limits.Memory), int64(b.Limits.Memory)},
		{"workspace.size", int64(a.Workspace.Size), int64(b.Workspace.Size)},
	} {
		if bound(c.a) > bound(c.b) || c.a < 0 {
			return fmt.Sprintf("%s from %d to %d", c.name, c.b, c.a)
		}
	}
	if b.Seccomp.Profile == "strict" && a.Seccomp.Profile != "strict" || b.OnLoosen == LoosenRefuse && a.OnLoosen != LoosenRefuse {
		return "profile or on_loosen"
	}
	if a.MaxTmpfs(1<<50, true) > b.MaxTmpfs(1<<50, true) || a.Tmpfs.checkMax() != nil {
		return "tmpfs.max"
	}
	if a.Root.OnDisk() && !b.Root.OnDisk() || checkLayer("", a.Root.Disk) != nil {
		return "root.backing"
	}
	a.Root.Backing, a.Root.Disk = b.Root.Backing, b.Root.Disk
	a.Tmpfs.Max = b.Tmpfs.Max
	a.Root.Size, a.Root.Inodes, a.Tmpfs.Size, a.Limits.Pids, a.Limits.Memory = b.Root.Size, b.Root.Inodes, b.Tmpfs.Size, b.Limits.Pids, b.Limits.Memory
	if CheckOwner(a.Binds.Owner) != nil {
		return "binds.owner"
	}
	a.Binds.Owner = b.Binds.Owner // names one user for another: the jail has as much
	a.Seccomp.Profile, a.OnLoosen = b.Seccomp.Profile, b.OnLoosen
	for _, name := range b.EBPF.Block {
		if !slices.Contains(a.EBPF.Block, name) {
			return "ebpf.block"
		}
	}
	if a.EBPF.validate() != nil {
		return "ebpf.block"
	}
	a.EBPF = b.EBPF
	if b.Workspace.All && !a.Workspace.All || checkLayer("", a.Workspace.Size) != nil {
		return "workspace"
	}
	for _, d := range b.Workspace.Wanted {
		if !slices.Contains(a.Workspace.Wanted, d) {
			return "workspace"
		}
	}
	a.Workspace = b.Workspace
	if !reflect.DeepEqual(a, b) {
		return "something that no annotation is for"
	}
	return ""
}

func TestAnnotationsListed(t *testing.T) {
	for _, a := range annotations {
		if a.name == "" || strings.HasPrefix(a.name, AnnotationPrefix) || a.about == "" {
			t.Errorf("%s: %s", a.name, a.about)
		}
	}
}

// TestInsideByAnnotation: a container gets the file of its refusals only where policy leaves that to it, and can always do without.
func TestInsideByAnnotation(t *testing.T) {
	for _, c := range []struct{ policy, asked, want string }{
		{InsideOff, "true", InsideOff},
		{InsideAsk, "true", InsideOn},
		{InsideOn, "true", InsideOn},
		{InsideOn, "false", InsideOff},
		{InsideAsk, "", InsideAsk},
		{InsideAsk, "yes", InsideAsk},
		{InsideOff, "false", InsideOff},
	} {
		p := Default()
		p.Journal.Inside = c.policy
		ann := map[string]string{}
		if c.asked != "" {
			ann["dev.agentjail.journal.inside"] = c.asked
		}
		got, ignored := p.Tighten(ann)
		if got.Journal.Inside != c.want {
			t.Errorf("%s, annotation %q: %s, want %s", c.policy, c.asked, got.Journal.Inside, c.want)
		}
		if denied := c.policy == InsideOff && c.asked == "true" || c.asked == "yes"; denied != (len(ignored) == 1) {
			t.Errorf("%s, annotation %q: ignored %v", c.policy, c.asked, ignored)
		}
	}
}
