package harden

import (
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/hostfacts"
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
)

// TestUsersEngine: what an ordinary user's engine requests, and cannot have.
func TestUsersEngine(t *testing.T) {
	s := small()
	s.Mounts = append(s.Mounts,
		specs.Mount{Destination: "/dev/fuse", Type: "bind", Source: "/dev/fuse", Options: []string{"bind"}},
		specs.Mount{Destination: "/work", Type: "bind", Source: "/home/user/work", Options: []string{"rbind", "rw"}},
		specs.Mount{Destination: "/dev/kvm", Type: "bind", Source: "/dev/kvm", Options: []string{"bind"}},
		specs.Mount{Destination: "/kept", Type: "bind", Source: "/home/user/.local/share/containers/storage/volumes/kept/_data", Options: []string{"rbind"}},
	)
	f := testFacts(s)
	for i, m := range s.Mounts {
		if strings.HasPrefix(m.Source, "/dev/") {
			f.Sources[i] = &bindsource.Fact{Path: m.Source, Kind: bindsource.Device}
		}
	}
	f.Host.Rootless, f.Host.Cgroup = true, hostfacts.Cgroup{V2: true}
	var err error
	one := []specs.LinuxIDMapping{{ContainerID: 0, HostID: 0, Size: 1}, {ContainerID: 1, HostID: 1, Size: 65536}}
	if f.IDs, err = idmap.ForUser(one, one); err != nil {
		t.Fatal(err)
	}
	r, rep, err := Harden(s, policy.Default(), f)
	if err != nil {
		t.Fatal(err)
	}
	var at []string
	for _, m := range r.Spec.Mounts {
		at = append(at, m.Destination)
	}
	if slices.Contains(at, "/dev/fuse") || slices.Contains(at, "/dev/kvm") || !slices.Contains(at, "/work") {
		t.Errorf("mounts: %v", at)
	}
	n := len(s.Mounts)
	if want := []int{n - 4, n - 2}; !slices.Equal(r.Plan.Dropped, want) {
		t.Errorf("dropped %v, not %v", r.Plan.Dropped, want)
	}
	for _, b := range r.Plan.Binds {
		if b.Owner != plan.OwnerNone {
			t.Errorf("%s: owners are mapped: %s", b.Source, b.Owner)
		}
		if r.Spec.Mounts[b.Index].Source != b.Source {
			t.Errorf("%s: the plan's index leads to %s", b.Source, r.Spec.Mounts[b.Index].Source)
		}
	}
	if l := r.Spec.Linux.Resources; l.Pids != nil || l.Memory != nil || l.CPU != nil {
		t.Errorf("limits that cannot be set: %+v", l)
	}
	if !r.Plan.AlreadyMapped {
		t.Error("the image's files would be shifted")
	}
	missing := map[string]bool{}
	for _, c := range rep.Of(report.Missing) {
		missing[c.Field] = true
	}
	for _, field := range []string{"linux.uidMappings", "linux.resources.pids", "linux.resources.memory", "linux.resources.cpu", "mounts[/work]"} {
		if !missing[field] {
			t.Errorf("%s is not stated to be missing: %v", field, missing)
		}
	}
	if rep.Of(report.Denied) == nil {
		t.Error("the devices are not stated to be lost")
	}
	pol := policy.Default()
	pol.OnLoosen = policy.LoosenRefuse
	if _, _, err := Harden(s, pol, f); err == nil || !strings.Contains(err.Error(), "/dev/fuse") {
		t.Errorf("with on_loosen = refuse: %v", err)
	}
}
