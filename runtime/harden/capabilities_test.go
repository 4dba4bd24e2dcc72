package harden

import (
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/spec/policy"
)

// service is the built-in policy of that name.
func service(t *testing.T) policy.Policy {
	t.Helper()
	p, err := policy.Parse(nil, "f", "service")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestServiceCapabilities: the jail's root keeps what policy, the bundle's bounding set and a joined jail have in common,
// no other user keeps any, and neither does an inheritable or ambient set.
func TestServiceCapabilities(t *testing.T) {
	six := policy.Grantable()
	every := slices.Concat(defaultCaps, []string{"CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH", "ALL", "cap_chown", "CHOWN"})
	all := &specs.LinuxCapabilities{Bounding: every, Effective: every, Permitted: every, Inheritable: every, Ambient: every}
	join := func(has ...string) map[specs.LinuxNamespaceType]Join {
		return map[specs.LinuxNamespaceType]Join{"ipc": {Jail: "seven", UserNS: "/proc/7/ns/user", Capabilities: has, Most: has}}
	}
	for _, c := range []struct {
		name    string
		in      *specs.LinuxCapabilities
		uid     uint32
		allowed []string
		joins   map[specs.LinuxNamespaceType]Join
		process []string // of the process, and jail: of any of the jail's root
		jail    []string
	}{
		{"--privileged", all, 0, six, nil, six, six},
		{"another user", all, 1000, six, nil, nil, six},
		{"no policy", all, 0, nil, nil, nil, nil},
		{"two of policy", all, 0, six[2:4], nil, six[2:4], six[2:4]},
		{"--cap-drop=ALL", &specs.LinuxCapabilities{}, 0, six, nil, nil, nil},
		{"no object", nil, 0, six, nil, nil, nil},
		{"two of the bundle", &specs.LinuxCapabilities{Bounding: []string{"CAP_SETUID", "CAP_CHOWN"}}, 0, six, nil, []string{"CHOWN", "SETUID"}, []string{"CHOWN", "SETUID"}},
		{"not in the bounding set", &specs.LinuxCapabilities{Effective: every, Permitted: every, Ambient: every}, 0, six, nil, nil, nil},
		{"joined", all, 0, six, join("KILL"), []string{"KILL"}, []string{"KILL"}},
		{"joined a default jail", all, 0, six, join(), nil, nil},
	} {
		s := with(func(s *specs.Spec) {
			s.Process.Capabilities, s.Process.User = c.in, specs.User{UID: c.uid, GID: c.uid}
			if c.joins != nil {
				s.Linux.Namespaces[3].Path = "/proc/7/ns/ipc"
			}
		})
		pol, f := service(t), testFacts(s)
		pol.Process.Capabilities, f.Joins = c.allowed, c.joins
		res, rep, err := Harden(s, pol, f)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var want []string
		for _, p := range c.process {
			want = append(want, "CAP_"+p)
		}
		got := res.Spec.Process.Capabilities
		for _, set := range [][]string{got.Bounding, got.Permitted, got.Effective} {
			if !slices.Equal(set, want) {
				t.Errorf("%s: the process has %+v, not %v", c.name, got, want)
			}
		}
		if len(got.Inheritable)+len(got.Ambient) > 0 || !slices.Equal(res.Plan.Capabilities, c.jail) || res.Plan.OwnerAlone != (c.allowed != nil) {
			t.Errorf("%s: %+v, the jail %v, the owner alone %v\n%v", c.name, got, res.Plan.Capabilities, res.Plan.OwnerAlone, rep)
		}
		// An exec has no more than its container.
		pol.Process.Capabilities = res.Plan.Capabilities
		exec, _, err := Process(&specs.Process{Args: []string{"sh"}, Cwd: "/", Capabilities: all}, pol, testFacts(s))
		if err != nil || len(exec.Capabilities.Effective) != len(c.jail) {
			t.Errorf("%s: an exec has %+v: %v", c.name, exec, err)
		}
	}
}

// TestServiceRefusals: where other jails, containers or users may have the jail's ids, no jail keeps a capability.
func TestServiceRefusals(t *testing.T) {
	six := policy.Grantable()
	for _, c := range []struct {
		name   string
		change func(*policy.Policy, *Facts)
		says   string
	}{
		{"a user's engine", func(_ *policy.Policy, f *Facts) { f.Host.Rootless = true }, "others than the jail may have files of its ids"},
		{"the engine's ids", func(_ *policy.Policy, f *Facts) {
			ids := []specs.LinuxIDMapping{{HostID: 100000, Size: 2000}}
			f.IDs, _ = idmap.ForEngine(policy.Default().Userns.Pool, ids, ids)
		}, "others than the jail may have files of its ids"},
		{"nobody", func(p *policy.Policy, _ *Facts) { p.Userns.Map = policy.MapNobody }, "others than the jail may have files of its ids"},
		{"a default jail joins", func(p *policy.Policy, f *Facts) {
			p.Process.Capabilities = nil
			f.Joins = map[specs.LinuxNamespaceType]Join{"ipc": {Jail: "seven", UserNS: "/proc/7/ns/user", Most: six}}
		}, "and its policy has not (remedy: start both with one policy)"},
	} {
		s := with(func(s *specs.Spec) { s.Linux.Namespaces[3].Path = "/proc/7/ns/ipc" })
		pol, f := service(t), testFacts(s)
		c.change(&pol, &f)
		if got := refused(t, s, pol, f); !strings.Contains(got, c.says) {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

// TestGuestOwners: over a sandbox, whose kernel would answer chown with success, no root with capabilities has a writable directory of a
// person's; a volume and a read-only mount stay.
func TestGuestOwners(t *testing.T) {
	all := &specs.LinuxCapabilities{Bounding: defaultCaps}
	for source, c := range map[string]struct {
		options string
		caps    *specs.LinuxCapabilities
		refused bool
	}{
		"/home/dev/project":                     {"rw", all, true},
		"/home/dev/other":                       {"ro", all, false},
		"/home/dev/without":                     {"rw", nil, false},
		"/var/lib/docker/volumes/engines/_data": {"rw", all, false},
	} {
		s := with(func(s *specs.Spec) {
			s.Process.Capabilities = c.caps
			s.Mounts = append(s.Mounts, specs.Mount{Destination: "/w", Type: "bind", Source: source, Options: []string{"rbind", c.options}})
		})
		f := testFacts(s)
		f.Sandbox = "gvisor"
		_, _, err := Harden(s, service(t), f)
		if got := err != nil && strings.Contains(err.Error(), "chown there would return success"); got != c.refused || err != nil && !got {
			t.Errorf("%s: %v", source, err)
		}
	}
}
