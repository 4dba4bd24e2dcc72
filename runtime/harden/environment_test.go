package harden

import (
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
)

// TestEnvironment: what a process's environment gets beside what it has.
func TestEnvironment(t *testing.T) {
	const tar, asan, lsan = "TAR_OPTIONS=--no-same-owner", "ASAN_OPTIONS=detect_leaks=0", "LSAN_OPTIONS=detect_leaks=0"
	for _, c := range []struct {
		name    string
		uid     uint32
		env     []string
		off     bool
		want    []string
		profile string // "" is the default
	}{
		{"root", 0, nil, false, []string{tar, asan, lsan}, ""},
		{"a user, to whom tar gives what it extracts", 1000, nil, false, []string{asan, lsan}, ""},
		{"tar's options given", 0, []string{"TAR_OPTIONS="}, false, []string{asan, lsan}, ""},
		{"a name that only begins so", 0, []string{"TAR_OPTIONSX=1"}, false, []string{tar, asan, lsan}, ""},
		{"options of another kind", 1000, []string{"ASAN_OPTIONS=abort_on_error=1"}, false, []string{lsan}, ""},
		{"a list of known leaks", 1000, []string{"LSAN_OPTIONS=suppressions=x"}, false, []string{asan}, ""},
		{"leaks requested", 1000, []string{"ASAN_OPTIONS=detect_leaks=1"}, false, nil, ""},
		{"leaks requested otherwise", 1000, []string{"LSAN_OPTIONS=a=b:detect_leaks=1"}, false, nil, ""},
		{"leaks switched off", 1000, []string{"ASAN_OPTIONS=detect_leaks=0:a=b"}, false, []string{lsan}, ""},
		{"switched off", 0, nil, true, nil, ""},
		{"a profile that allows ptrace", 0, nil, false, []string{tar}, "debug"},
	} {
		s := with(func(s *specs.Spec) { s.Process.User.UID, s.Process.Env = c.uid, slices.Clone(c.env) })
		pol := policy.Default()
		pol.Process.Environment = !c.off
		if c.profile != "" {
			pol.Seccomp.Profile = c.profile
		}
		res, rep, err := Harden(s, pol, testFacts(s))
		if err != nil {
			t.Fatal(err)
		}
		if want := slices.Concat(c.env, c.want); !slices.Equal(res.Spec.Process.Env, want) {
			t.Errorf("%s: %q, not %q", c.name, res.Spec.Process.Env, want)
		}
		if n := len(find(rep, report.Set, "process.env[*")); n != len(c.want) {
			t.Errorf("%s: %d in the report: %v", c.name, n, rep.Changes)
		}
		// A further process as well, by its own user.
		got, _, err := Process(s.Process, pol, testFacts(s))
		if err != nil || strings.Join(got.Env, " ") != strings.Join(res.Spec.Process.Env, " ") {
			t.Errorf("%s: exec has %q, %v", c.name, got.Env, err)
		}
	}
}

// TestEnvironmentPassed: no variable counts descriptors that a jail does not get (sd_listen_fds(3)), at create and exec.
func TestEnvironmentPassed(t *testing.T) {
	s := with(func(s *specs.Spec) {
		s.Process.Env = []string{"A=1", "LISTEN_FDS=1", "LISTEN_PID=1", "LISTEN_FDNAMES=web", "LISTEN_FDS=2", "LISTEN_FDSX=1"}
	})
	pol := policy.Default()
	pol.Process.Environment = false
	res, rep, err := Harden(s, pol, testFacts(s))
	if err != nil {
		t.Fatal(err)
	}
	further, _, err := Process(s.Process, pol, testFacts(s))
	if err != nil {
		t.Fatal(err)
	}
	for what, got := range map[string][]string{"create": res.Spec.Process.Env, "exec": further.Env} {
		if want := []string{"A=1", "LISTEN_FDSX=1"}; !slices.Equal(got, want) {
			t.Errorf("%s: %q", what, got)
		}
	}
	if found := find(rep, report.Dropped, "process.env[*"); len(found) != 3 {
		t.Errorf("in the report: %v", found)
	}
}
