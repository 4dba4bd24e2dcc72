package lifecycle

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"agentjail.dev/runtime/jailinit"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/cache"
)

// TestInitCalls: how an init works, and that none does, is known from the jail's filter.
func TestInitCalls(t *testing.T) {
	rules := func(names ...string) string {
		var out []string
		for _, name := range names {
			name, when, _ := strings.Cut(name, ":")
			out = append(out, fmt.Sprintf(`{"names": [%q], "when": [%s], "why": "a test"}`, name, when))
		}
		return `{"allow": [` + strings.Join(out, ",") + `]}`
	}
	for _, c := range []struct {
		profile, list    string
		leads, leadsATty bool
		refused          string
	}{
		{"default", "", true, true, ""},
		{"strict", "", false, false, ""},
		{"default", rules("clone", "pipe2", "kill", "wait4", "setsid", "ioctl"), true, true, ""},
		{"default", rules("clone", "pipe2", "kill", "wait4", "setsid"), true, false, ""},
		{"default", rules("clone", "pipe2", "kill", "wait4", "ioctl"), false, false, ""},
		{"default", rules("pipe2", "kill", "wait4"), false, false, "clone"},
		{"default", rules("clone", "wait4"), false, false, "pipe2, kill"},
		{"default", rules("clone", "pipe2", `kill:"arg1 == 15"`, `wait4:"arg0 == 1"`), false, false, "kill, wait4"},
	} {
		for _, arch := range []string{"amd64", "arm64"} {
			o := seccomp.Options{Profile: c.profile, Arch: arch}
			if c.list != "" {
				var err error
				if o.Only, err = seccomp.ParseList([]byte(c.list)); err != nil {
					t.Fatal(err)
				}
			}
			made, err := cache.Make(o, nil)
			if err != nil {
				t.Fatal(err)
			}
			for terminal, leads := range map[bool]bool{false: c.leads, true: c.leadsATty} {
				got, err := initOf(made.Program, arch, terminal)
				if c.refused == "" {
					if err != nil || got != (jailinit.Init{Stays: true, Leads: leads}) {
						t.Errorf("%+v, %s, terminal %v: %+v, %v", c, arch, terminal, got, err)
					}
					continue
				}
				var r *refusal.Error
				if !errors.As(err, &r) || r.Code != refusal.Init || !strings.HasSuffix(r.Why, ": "+c.refused) || !strings.Contains(r.Remedy, "--no-init") {
					t.Errorf("%+v, %s: %v", c, arch, err)
				}
			}
		}
	}
}
