package delegate

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/cgroups"
)

// A fake is a delegate with fixed answers, which records its calls.
type fake struct {
	version  string
	features string // "" for a release that has none
	refuses  string // what a trial ends with; "" runs it
}

const (
	withSeccomp    = `{"ociVersionMax":"1.1.0","linux":{"seccomp":{"enabled":true}}}`
	withoutSeccomp = `{"ociVersionMax":"1.1.0","linux":{"seccomp":{"enabled":false}}}`
)

func (f fake) write(t *testing.T, path string) {
	t.Helper()
	script := fmt.Sprintf(`#!/bin/sh
echo "$(basename $0) $*" >>%s
case "$*" in
--version) echo %q ;;
features) [ -n '%s' ] || exit 1; echo '%s' ;;
*" run "*) [ -z %q ] || { echo %q >&2; exit 1; } ;;
esac
`, filepath.Join(filepath.Dir(filepath.Dir(path)), "calls"), f.version, f.features, f.features, f.refuses, f.refuses)
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
}

// hostWith has a directory of these delegates in the place of the host's, and
// returns it. The file "calls" above it gets a line for each call.
func hostWith(t *testing.T, have map[string]fake) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: a delegate must be root's, and is tried in a mount namespace")
	}
	dir := filepath.Join(t.TempDir(), "bin")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, f := range have {
		f.write(t, filepath.Join(dir, name))
	}
	was := directories
	directories = []string{dir}
	t.Cleanup(func() { directories = was })
	return dir
}

func calls(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(dir), "calls"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

// TestChoose: the best delegate that works is taken, and the reason is returned.
func TestChoose(t *testing.T) {
	runc1, runc5 := fake{"runc version 1.1.5", withSeccomp, ""}, fake{"runc version 1.5.2", withSeccomp, ""}
	crun8, crun21 := fake{"crun version 1.8.1", "", ""}, fake{"crun version 1.21", withSeccomp, ""}
	refusing := func(f fake) fake { f.refuses = "cgroups in hybrid mode not supported"; return f }
	bare := func(f fake) fake { f.features = withoutSeccomp; return f }
	for _, c := range []struct {
		name string
		have map[string]fake
		want string // "" for none
		not  string // in the reasons why a better one was not taken, or in the error
	}{
		{"nothing", nil, "", "no OCI runtime found"},
		{"one alone is not tried", map[string]fake{"crun": refusing(crun21)}, "crun", ""},
		{"a new crun before the newest runc", map[string]fake{"runc": runc5, "crun": crun21}, "crun", ""},
		{"one that refuses the host", map[string]fake{"runc": runc5, "crun": refusing(crun21)}, "runc", "cgroups in hybrid mode not supported"},
		{"an old crun after a runc with flaws", map[string]fake{"runc": runc1, "crun": crun8}, "runc", ""},
		{"an old crun where runc does not work", map[string]fake{"runc": refusing(runc1), "crun": crun8}, "crun", "cgroups"},
		{"one without seccomp", map[string]fake{"runc": runc1, "crun": bare(crun21)}, "runc", "built without seccomp"},
		{"one that is broken", map[string]fake{"runc": runc1, "crun": {}}, "runc", ""},
		{"none that runs a trial", map[string]fake{"runc": refusing(runc1), "crun": refusing(crun21)}, "runc", "cgroups in hybrid mode not supported"},
		{"none with seccomp", map[string]fake{"runc": bare(runc1), "crun": bare(crun21)}, "", "built without seccomp"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := hostWith(t, c.have)
			r, err := Choose(Auto, "")
			if c.want == "" {
				if !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), c.not) {
					t.Errorf("%+v, %v", r, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.Path != filepath.Join(dir, c.want) || r.Choice == nil || r.Choice.Why == "" {
				t.Errorf("took %+v, %+v", r, r.Choice)
			}
			if not := strings.Join(r.Choice.Not, "; "); c.not == "" != (not == "") || !strings.Contains(not, c.not) {
				t.Errorf("of better ones it reports %q", not)
			}
			// What policy names is not chosen by anything.
			if r, err := Choose("crun", ""); c.have["crun"].version != "" && (err != nil || r.Name != "crun" || r.Choice != nil) {
				t.Errorf("crun by name: %+v, %v", r, err)
			}
		})
	}
}

// TestChoiceKept: nothing is tried twice, until something changes.
func TestChoiceKept(t *testing.T) {
	crun := fake{"crun version 1.21", withSeccomp, ""}
	dir := hostWith(t, map[string]fake{"runc": {"runc version 1.5.2", withSeccomp, ""}, "crun": crun})
	cache := filepath.Join(t.TempDir(), "state")
	choose := func(want string) (asked bool) {
		t.Helper()
		before := calls(t, dir)
		r, err := Choose(Auto, cache)
		if err != nil {
			t.Fatal(err)
		}
		if r.Name != want || r.Choice == nil || r.Choice.Why == "" {
			t.Errorf("took %+v, %+v, want %s", r, r.Choice, want)
		}
		return calls(t, dir) != before
	}
	if !choose("crun") {
		t.Error("chosen without a trial")
	}
	if choose("crun") {
		t.Error("tried twice")
	}
	crun.refuses = "no"
	crun.write(t, filepath.Join(dir, "crun"))
	if !choose("runc") {
		t.Error("a changed delegate was not tried")
	}
	if choose("runc") {
		t.Error("tried again although nothing changed")
	}
	if err := os.Remove(filepath.Join(dir, "runc")); err != nil {
		t.Fatal(err)
	}
	choose("crun")
	// A record of another boot, layout or form, or one that has run out.
	crun.refuses = ""
	crun.write(t, filepath.Join(dir, "crun"))
	fake{"runc version 1.5.2", withSeccomp, ""}.write(t, filepath.Join(dir, "runc"))
	choose("crun")
	file := filepath.Join(cache, choiceFile)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{`"Boot":"`, `"Boot":"x`},
		{`"Layout":"`, `"Layout":"x`},
		{`"Form":`, `"Form":9`},
		{`"Until":0`, `"Until":1`},
		{"{", ""},
		{`"Path":"` + dir + "/crun\",\"Until", `"Path":"/elsewhere/crun","Until`},
	} {
		bad := strings.Replace(string(good), change[0], change[1], 1)
		if bad == string(good) {
			t.Fatalf("no %s in %s", change[0], good)
		}
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if !choose("crun") {
			t.Errorf("a record with %s was believed", change[1])
		}
	}
}

// TestTrial: delegates of this host run a trial's container and leave nothing;
// one that cannot do what jails need is found out.
func TestTrial(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	all := distinct(All())
	if len(all) == 0 {
		t.Skip("no delegate on this host")
	}
	worked := false
	for _, r := range all {
		err := r.try()
		t.Logf("%s: %v", r.Path, err)
		worked = worked || err == nil
	}
	if !worked {
		t.Error("no delegate runs a trial")
	}
	// Beside this, other packages' tests may try delegates.
	if left := trialGroups(fmt.Sprintf("%s%d.*", trialGroup, os.Getpid())); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || bytes.Contains(mounts, []byte("agentjail-trial")) {
		t.Errorf("the trial's tmpfs is mounted: %v", err)
	}
}

// TestSweepTrials: what a trial has left goes with the next one, and not what belongs to a trial of
// another process that runs still.
func TestSweepTrials(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	root := cgroups.Root
	if _, err := os.Stat(root + "/cgroup.procs"); err != nil {
		root += "/pids"
	}
	if _, err := os.Stat(root + "/cgroup.procs"); err != nil {
		t.Skip("no control groups are mounted")
	}
	ended := exec.Command("/bin/true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	of := func(pid int) string { return fmt.Sprintf("%s/%s%d.1000000", root, trialGroup, pid) }
	for _, pid := range []int{ended.Process.Pid, 1} {
		if err := os.Mkdir(of(pid), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Rmdir(of(pid)) })
	}
	sweepTrials()
	if _, err := os.Stat(of(ended.Process.Pid)); err == nil {
		t.Error("what a process has left that has ended is still there")
	}
	if _, err := os.Stat(of(1)); err != nil {
		t.Errorf("of a process that runs: %v", err)
	}
}

// TestExitProgram: the program that a trial runs is what the kernel takes for
// one.
func TestExitProgram(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		f, err := elf.NewFile(bytes.NewReader(exitProgram(arch)))
		if err != nil {
			t.Fatal(err)
		}
		if f.Machine != machine || f.Type != elf.ET_EXEC || len(f.Progs) != 1 || f.Entry != f.Progs[0].Vaddr+120 {
			t.Errorf("%s: %+v", arch, f.FileHeader)
		}
	}
	if exitProgram("s390x") != nil {
		t.Error("a program for an architecture without one")
	}
	here := filepath.Join(t.TempDir(), "exit")
	if err := os.WriteFile(here, exitProgram("amd64"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("uname", "-m").Output(); err == nil && slices.Equal(out, []byte("x86_64\n")) {
		if err := exec.Command(here).Run(); err != nil {
			t.Error(err)
		}
	}
}
