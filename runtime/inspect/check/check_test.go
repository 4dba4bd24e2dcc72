package check

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/rings"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes namespaces and mounts")
	}
}

// TestTable keeps the probes' names apart and the rings in order.
func TestTable(t *testing.T) {
	order := []rings.Ring{rings.None, rings.Resources, rings.Access, rings.Kernel}
	seen := map[string]bool{}
	last := 0
	for _, p := range probes {
		if seen[p.name] {
			t.Errorf("two probes are named %s", p.name)
		}
		seen[p.name] = true
		at := slices.Index(order, p.ring)
		if at < last {
			t.Errorf("%s: ring %s comes after ring %s", p.name, p.ring, order[last])
		}
		last = max(last, at)
		if p.required == nil || p.run == nil || p.what == "" {
			t.Errorf("%s is incomplete", p.name)
		}
	}
}

func TestStatus(t *testing.T) {
	for _, c := range []struct {
		name     string
		a        answer
		required bool
		want     Status
		start    bool
	}{
		{"ok", ok("x"), true, OK, true},
		{"lack of what is required", fail("r", "x"), true, Missing, false},
		{"lack of what is not", fail("r", "x"), false, Warning, true},
		{"warning about what is required", warn("r", "x"), true, Warning, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := []probe{{"p", rings.None, "p", func(policy.Policy) bool { return c.required }, func(*env) answer { return c.a }}}
			r := runProbes(&env{}, table, time.Minute)
			if r.Results[0].Status != c.want || r.CanStart != c.start {
				t.Errorf("got %s, CanStart %v; want %s, %v", r.Results[0].Status, r.CanStart, c.want, c.start)
			}
		})
	}
}

func TestHangingProbe(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	table := []probe{{"p", rings.None, "p", always, func(*env) answer { <-stop; return ok("late") }}}
	r := runProbes(&env{}, table, time.Millisecond)
	if r.Results[0].Status != Missing || !strings.Contains(r.Results[0].Detail, "no answer") {
		t.Errorf("a probe without an answer gives %+v", r.Results[0])
	}
}

// TestWithoutPrivileges: a caller without root gets that as the reason, and no remedy that would
// not help.
func TestWithoutPrivileges(t *testing.T) {
	table := []probe{
		{namePrivileges, rings.None, "p", always, func(*env) answer { return fail("run it as root", "no") }},
		{"other", rings.None, "o", always, func(*env) answer { return fail("buy a kernel", "EPERM") }},
		{"fine", rings.None, "f", always, func(*env) answer { return ok("yes") }},
	}
	r := runProbes(&env{}, table, time.Minute)
	if got := r.Results[0].Remedy; got != "run it as root" {
		t.Errorf("remedy of privileges is %q", got)
	}
	if got := r.Results[1].Remedy; strings.Contains(got, "kernel") || got == "" {
		t.Errorf("remedy of what follows is %q", got)
	}
	if got := r.Results[2].Remedy; got != "" {
		t.Errorf("a good probe has the remedy %q", got)
	}
}

func TestText(t *testing.T) {
	r := &Report{CanStart: false, Results: []Result{
		{Status: OK, Ring: "2", What: "tmpfs", Detail: "fine"},
		{Status: Warning, Ring: allRings, What: "a longer one", Detail: "bad\x1b[31m\nok  all  forged"},
		{Status: Missing, Ring: "0", What: "filter", Detail: "none", Remedy: "boot"},
	}}
	var b bytes.Buffer
	if err := r.Lines(&b); err != nil {
		t.Fatal(err)
	}
	want := `ok       ring 2  tmpfs         fine
warning  all     a longer one  bad\x1b[31m\x0aok  all  forged
missing  ring 0  filter        none -> boot
no jail can start on this host: 1 missing, 1 warning
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	// Problems first, in lines of a terminal; the rest is counted.
	r.Results[1].Detail += strings.Repeat(" and so on", 8)
	b.Reset()
	if err := r.Text(&b); err != nil {
		t.Fatal(err)
	}
	want = `no jail can start on this host: 1 missing, 1 warning
missing  filter: none -> boot
warning  a longer one: bad\x1b[31m\x0aok  all  forged and so on and so on and so...
ok       1 further check; ` + "`agentjail check -v`" + ` has all, in full
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// TestEveryProbeAnswers runs every probe on this machine. What they find here
// depends on the machine; but each must answer, and with a remedy where it is not well.
func TestEveryProbeAnswers(t *testing.T) {
	needRoot(t)
	r := Run(Options{PolicyPath: os.DevNull, StateRoot: t.TempDir()})
	if len(r.Results) != len(probes) {
		t.Fatalf("%d results for %d probes", len(r.Results), len(probes))
	}
	for _, x := range r.Results {
		t.Logf("%-7s %s: %s", x.Status, x.What, x.Detail)
		if x.Detail == "" {
			t.Errorf("%s states nothing", x.Name)
		}
		if x.Status == Missing && x.Remedy == "" {
			t.Errorf("%s is missing without a remedy", x.Name)
		}
	}
}

// childEnv makes the test program run the probes over and over, and onceEnv
// print them as JSON.
const (
	childEnv = "AGENTJAIL_CHECK_LOOP"
	onceEnv  = "AGENTJAIL_CHECK_ONCE"
)

func TestMain(m *testing.M) {
	if os.Getenv(onceEnv) != "" {
		_ = json.NewEncoder(os.Stdout).Encode(Run(Options{PolicyPath: os.DevNull}))
		os.Exit(0)
	}
	if os.Getenv(childEnv) != "" {
		for {
			Run(Options{PolicyPath: os.DevNull, StateRoot: os.Getenv(childEnv)})
			os.Stdout.WriteString("round\n")
		}
	}
	os.Exit(m.Run())
}

// TestProbesCanFail runs the probes as an ordinary user, who may make none of what they
// try: a probe that is content then would be content with anything.
func TestProbesCanFail(t *testing.T) {
	needRoot(t)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), onceEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	if r.CanStart {
		t.Error("no user can start jails")
	}
	for name, want := range map[string]Status{
		namePrivileges: Missing, "namespaces": Missing, "cgroup-namespace": Missing, "time-namespace": Warning, "mount-api": Missing,
		"tmpfs": Missing, "overlay": Missing, "overlay-idmapped": Warning, "network-seal": Missing, "user-namespace": Missing,
		"idmapped-mounts": Warning, "ebpf": Warning,
	} {
		i := slices.IndexFunc(r.Results, func(x Result) bool { return x.Name == name })
		if i < 0 {
			t.Errorf("no probe %s", name)
		} else if r.Results[i].Status != want {
			t.Errorf("%s is %s for user 65534 (%s), want %s", name, r.Results[i].Status, r.Results[i].Detail, want)
		}
	}
}

// TestNothingLeft runs the probes to their end, and kills them in the middle:
// the host's mounts and the state directory stay as they were.
func TestNothingLeft(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	Run(Options{PolicyPath: os.DevNull, StateRoot: dir})
	checkNothing(t, dir)
	for kills := range 5 {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), childEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Into the second round, then a little further each time: the pipe
		// takes some rounds, so the kill falls anywhere in one.
		buf := make([]byte, len("round\n")*(kills+1))
		if _, err := out.Read(buf); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		checkNothing(t, dir)
	}
}

func checkNothing(t *testing.T, dir string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(mounts, []byte("agentjail-check")) {
		t.Errorf("a mount is left:\n%s", mounts)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("%s is left in the state directory", e.Name())
	}
}
