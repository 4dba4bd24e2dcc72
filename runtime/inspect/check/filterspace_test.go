package check

import (
	"strings"
	"testing"

	"agentjail.dev/runtime/spec/policy"
)

func TestFilterSpace(t *testing.T) {
	const old, affected = "6.1.0-48-cloud-amd64", "6.12.57+deb13-amd64"
	for _, c := range []struct {
		profile, release string
		pids             int64
		limit            uint64
		ok               bool
		says, remedy     string
	}{
		{"default", affected, 1024, 264 << 20, true, "264MiB for compiled filters (net.core.bpf_jit_limit); the programs of profile default load none", ""},
		{"strict", affected, 1024, 0, true, "no limit on compiled filters", ""},
		{"server", affected, 1024, 264 << 20, false, "Linux 6.9 and later can stop", "trusted programs"},
		{"server", "6.9-rc1", 1024, 264 << 20, false, "Linux 6.9 and later can stop", "trusted programs"},
		{"server", "7.0.1", 1024, 264 << 20, false, "Linux 6.9 and later can stop", "trusted programs"},
		{"server", old, 1024, 264 << 20, true, "one jail of profile server can take", ""},
		{"server", old, 1024, 64 << 20, false, "one jail of profile server can take", "net.core.bpf_jit_limit"},
		{"server", old, 0, 264 << 20, false, "nothing bounds", "limits.pids"},
	} {
		p := policy.Default()
		p.Seccomp.Profile, p.Limits.Pids = c.profile, c.pids
		a := filterSpaceOf(p, c.release, c.limit)
		if a.ok != c.ok || a.warn == c.ok || !strings.Contains(a.detail, c.says) || !strings.Contains(a.remedy, c.remedy) {
			t.Errorf("%+v: %+v", c, a)
		}
	}
	for release, want := range map[string]bool{"6.8.12": false, "5.15.0-91-generic": false, "6.9.0": true, "6.18.44": true, "7.0": true, "": true, "x.y": true} {
		if atLeast(release, 6, 9) != want {
			t.Errorf("%q at least 6.9: %v", release, !want)
		}
	}
}
