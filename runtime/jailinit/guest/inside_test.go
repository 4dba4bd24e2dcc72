package guest_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/internal/testprograms"
	"agentjail.dev/runtime/jailinit"
)

// The real program runs here outside any jail, where nothing that it looks for
// holds: each of its checks has to report it.

var program string

func TestMain(m *testing.M) {
	if os.Getenv(stackEnv) != "" {
		stackFilters()
	}
	dir, err := os.MkdirTemp("", "agentjail-enter")
	if err != nil {
		panic(err)
	}
	if err := testprograms.Put(dir, "agentjail-enter"); err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "agentjail-enter")
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// run starts the step with orders as a delegate does. stray is left open.
func run(t *testing.T, orders []byte, dir string, stray *os.File, args ...string) (string, int) {
	t.Helper()
	return runWith(t, jailinit.Numbered(os.Environ()), orders, dir, stray, args...)
}

// runWith is run with this environment of the step.
func runWith(t *testing.T, environ []string, orders []byte, dir string, stray *os.File, args ...string) (string, int) {
	t.Helper()
	prog, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	f, err := os.CreateTemp(t.TempDir(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(orders); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = dir, environ
	cmd.ExtraFiles = []*os.File{prog, f}
	if stray != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, stray)
	}
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(out)), cmd.ProcessState.ExitCode()
}

// all names every check.
var all = []string{"ids", "namespaces", "status", "seccomp", "label", "network", "cwd", "files", "mounts", "limits", "oom score"}

// only leaves one check to run.
func only(name string) []string {
	var out []string
	for _, n := range all {
		if n != name {
			out = append(out, n)
		}
	}
	return out
}

// TestRefusals: each check refuses what is not a jail, and names the ring.
func TestRefusals(t *testing.T) {
	var host unix.Stat_t
	if err := unix.Stat("/proc/self/ns/uts", &host); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	group := filepath.Join(t.TempDir(), "memory.max")
	if err := os.WriteFile(group, []byte("max\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		check string
		o     jailinit.Orders
		stray *os.File
		want  string
	}{
		{"ids", jailinit.Orders{UIDMap: "0 2013265920 65536\n"}, nil, "ring 1, access: /proc/self/uid_map is not the jail's mapping"},
		{"namespaces", jailinit.Orders{Namespaces: []jailinit.Namespace{{Name: "uts", Host: host.Ino}}}, nil, "ring 2, resources: the uts namespace is the host's"},
		{"status", jailinit.Orders{UID: uint32(os.Getuid()) + 1}, nil, "ring 1, access: Uid is "},
		{"status", jailinit.Orders{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}, nil, "ring 1, access: "},
		{"seccomp", jailinit.Orders{}, nil, "ring 0, kernel surface: no system call filter is loaded"},
		{"label", jailinit.Orders{LabelFile: "/proc/self/comm", Label: "agentjail-default (enforce)"}, nil, "ring 1, access: the process is labelled \"agentjail-enter\""},
		{"label", jailinit.Orders{LabelFile: "/proc/self/none", Label: "x"}, nil, "ring 1, access: open /proc/self/none"},
		{"files", jailinit.Orders{}, dir, "ring 1, access: file 5 was left open (/)"},
		{"mounts", jailinit.Orders{}, nil, "ring 1, access: "},
		{"limits", jailinit.Orders{Limits: []jailinit.Limit{{Files: []string{"/none", group}, Max: 1 << 30}}}, nil, "memory.max is max and must be at most 1073741824"},
		{"oom score", jailinit.Orders{OOMScore: 1001}, nil, "ring 2, resources: /proc/self/oom_score_adj is "},
	} {
		c.o.Without = only(c.check)
		out, code := run(t, c.o.Encode(), "", c.stray, "true")
		if code != jailinit.ExitRefused || !strings.Contains(out, "agentjail: refusing to start: ") || !strings.Contains(out, c.want) {
			t.Errorf("%s: status %d and %q, want %d and %q", c.check, code, out, jailinit.ExitRefused, c.want)
		}
	}
}

// TestBecomes: without anything to refuse, the step becomes the program, with
// its arguments, and leaves nothing open.
func TestBecomes(t *testing.T) {
	o := jailinit.Orders{Without: all}
	out, code := run(t, o.Encode(), "", nil, "sh", "-c", `echo "$0 $1"; readlink /proc/$$/exe; [ -e /proc/$$/fd/3 ] || [ -e /proc/$$/fd/4 ] || echo closed; exit 7`, "a", "b c")
	exe, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	if want := "a b c\n" + exe + "\nclosed"; out != want || code != 7 {
		t.Errorf("status %d and %q, want 7 and %q", code, out, want)
	}
}

// TestVariables: of the step's environment, the program's numbered variables go on, and the
// delegate's HOME where the program has none.
func TestVariables(t *testing.T) {
	long := "LONG=" + strings.Repeat("x", 128<<10-len("LONG=")-1) // the kernel's most
	for _, c := range []struct{ given, want []string }{
		{
			[]string{"OWN=1", "A=1", "0=PATH=/usr/bin:/bin", "1=GODEBUG=inittrace=1", "2=A=b=c", "4==x", "3=A=2", "HOME=/h", "5=GOMEMLIMIT=none", "10=NONE"},
			[]string{"PATH=/usr/bin:/bin", "GODEBUG=inittrace=1", "A=b=c", "A=2", "=x", "GOMEMLIMIT=none", "NONE", "HOME=/h"},
		},
		{[]string{"HOME=/h", "0=HOME=", "1=PATH=/bin"}, []string{"HOME=", "PATH=/bin"}},
		{jailinit.Numbered([]string{"PATH=/bin", long, "A=1"}), []string{"PATH=/bin", long, "A=1"}},
	} {
		o := jailinit.Orders{Without: all}
		out, code := runWith(t, c.given, o.Encode(), "", nil, "cat", "/proc/self/environ")
		if want := strings.Join(c.want, "\x00") + "\x00"; out != want || code != 0 {
			t.Errorf("status %d, %.300q of %d, want %.300q of %d", code, out, len(out), want, len(want))
		}
	}
}

// TestVariablesOfBefore: orders of earlier forms come with the program's own variables, and those of
// the step among them.
func TestVariablesOfBefore(t *testing.T) {
	text, err := os.ReadFile("../testdata/orders-9")
	if err != nil {
		t.Fatal(err)
	}
	o, err := jailinit.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if got := o.Variables([]string{"A=1", "0=B", "B=2"}); !slices.Equal(got, []string{"0=B", "B=2"}) {
		t.Errorf("%q", got)
	}
}

// TestUmask: the program has the mask of the orders, whatever the step was started with.
func TestUmask(t *testing.T) {
	for mask, want := range map[uint32]string{0: "0000", 0o22: "0022", 0o777: "0777"} {
		o := jailinit.Orders{Without: all, Umask: mask}
		if out, code := run(t, o.Encode(), "", nil, "sh", "-c", "umask"); out != want || code != 0 {
			t.Errorf("%04o: status %d and %q", mask, code, out)
		}
	}
}

// TestNoProgram: statuses and messages are those that engines know.
func TestNoProgram(t *testing.T) {
	// The caller's path may have directories that this user cannot search, which changes the error.
	t.Setenv("PATH", "/usr/bin:/bin")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "text"), []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "noformat"), []byte("text"), 0o755); err != nil {
		t.Fatal(err)
	}
	o := jailinit.Orders{Without: all}
	for name, want := range map[string]struct {
		code int
		text string
	}{
		"":                 {127, `exec: "": executable file not found in $PATH`},
		"nosuch-program":   {127, `exec: "nosuch-program": executable file not found in $PATH`},
		dir + "/none":      {127, "no such file or directory"},
		dir + "/text":      {126, "permission denied"},
		dir + "/text/deep": {127, "not a directory"},
		dir:                {126, ": permission denied"},
		"./noformat":       {126, "exec format error"},
	} {
		out, code := run(t, o.Encode(), dir, nil, name)
		if code != want.code || !strings.Contains(out, want.text) {
			t.Errorf("%s: status %d and %q, want %d and %q", name, code, out, want.code, want.text)
		}
	}
	if out, code := run(t, []byte("agentjail-enter 0\n"), "", nil, "true"); code != jailinit.ExitRefused || !strings.Contains(out, "different versions") {
		t.Errorf("orders of another version: status %d and %q", code, out)
	}
}

// TestRlimits: limits are set, also those that no Go program could start under.
func TestRlimits(t *testing.T) {
	o := jailinit.Orders{Without: all, Rlimits: []jailinit.Rlimit{
		{Resource: unix.RLIMIT_AS, Soft: 64 << 20, Hard: 65 << 20}, {Resource: unix.RLIMIT_NOFILE, Soft: 9, Hard: 10},
	}}
	out, code := run(t, o.Encode(), "", nil, "sh", "-c", `ulimit -v; ulimit -Hv; ulimit -n; ulimit -Hn`)
	if want := "65536\n66560\n9\n10"; out != want || code != 0 {
		t.Errorf("status %d and %q, want 0 and %q", code, out, want)
	}
}

// noMemory are orders with a limit that lets no Go program map any memory.
var noMemory = jailinit.Orders{Without: all, Rlimits: []jailinit.Rlimit{{Resource: unix.RLIMIT_AS, Soft: 64 << 20, Hard: 64 << 20}}}

// TestRlimitsLast: the step maps no memory once its limits are set, however much it hands on.
func TestRlimitsLast(t *testing.T) {
	args := []string{"sh", "-c", `echo $#`}
	for range 10_000 {
		args = append(args, strings.Repeat("a", 100))
	}
	if out, code := run(t, noMemory.Encode(), "", nil, args...); out != "9999" || code != 0 {
		t.Errorf("status %d and %.1000q", code, out)
	}
}

// TestRlimitsAndNoProgram: why a program cannot be run is stated without memory, too.
func TestRlimitsAndNoProgram(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "noformat"), []byte("text"), 0o755); err != nil {
		t.Fatal(err)
	}
	long := "./" + strings.Repeat("./", 1000) + "noformat"
	if out, code := run(t, noMemory.Encode(), dir, nil, long); out != "exec "+long+": exec format error" || code != jailinit.ExitNotExecutable {
		t.Errorf("status %d and %.1000q", code, out)
	}
}

// TestOpenFilesLimit: without an order the program has the soft limit that the step was started
// with.
func TestOpenFilesLimit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "orders")
	o := jailinit.Orders{Without: all}
	if err := os.WriteFile(file, o.Encode(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, code := run(t, o.Encode(), "", nil, "sh", "-c", `ulimit -Sn 77; exec 3<"$0" 4<"$1"; exec env -i "0=PATH=$PATH" /proc/self/fd/3 sh -c "ulimit -Sn"`, program, file)
	if out != "77" || code != 0 {
		t.Errorf("status %d and %q, want 0 and 77", code, out)
	}
}

// TestRlimitValues: the kernel has exactly the numbers, which shells round.
func TestRlimitValues(t *testing.T) {
	o := jailinit.Orders{Without: all, Rlimits: []jailinit.Rlimit{{Resource: unix.RLIMIT_CORE, Soft: 1, Hard: 1}, {Resource: unix.RLIMIT_MSGQUEUE}}}
	out, code := run(t, o.Encode(), "", nil, "awk", `/^Max core|^Max msg/ { print $(NF-2), $(NF-1) }`, "/proc/self/limits")
	if want := "1 1\n0 0"; out != want || code != 0 {
		t.Errorf("status %d and %q, want 0 and %q", code, out, want)
	}
}

// TestRlimitsOnlyLowered: a hard limit that is lower already stays, but the one
// on core files has to be what it should be.
func TestRlimitsOnlyLowered(t *testing.T) {
	lower := []jailinit.Rlimit{{Resource: unix.RLIMIT_NOFILE, Soft: 40, Hard: 50}, {Resource: unix.RLIMIT_CORE}}
	higher := []jailinit.Rlimit{{Resource: unix.RLIMIT_NOFILE, Soft: 60, Hard: 70}}
	if err := setRlimitsIn(t, lower, higher); err != "" {
		t.Errorf("above the hard limit: %s", err)
	}
	higher = []jailinit.Rlimit{{Resource: unix.RLIMIT_CORE, Soft: 1, Hard: 1}}
	if err := setRlimitsIn(t, lower, higher); !strings.Contains(err, "resource limit 4 is 0 of 0 and must be 1 of 1") {
		t.Errorf("the limit on core files: %q", err)
	}
}

// setRlimitsIn is the error of a step which is started by a step: the first sets
// limits that the second finds.
func setRlimitsIn(t *testing.T, first, second []jailinit.Rlimit) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "orders")
	o := jailinit.Orders{Without: all, Rlimits: second}
	if err := os.WriteFile(file, o.Encode(), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Rlimits = first
	args := []string{"sh", "-c", `exec 3<"$0" 4<"$1"; exec env -i "0=PATH=$PATH" /proc/self/fd/3 true`, program, file}
	if os.Geteuid() == 0 {
		args = append([]string{"setpriv", "--bounding-set", "-sys_resource"}, args...)
	}
	out, code := run(t, o.Encode(), "", nil, args...)
	if code == 0 {
		return ""
	}
	return out
}

// TestProcessors: a limit below a processor's count shows to what counts them.
func TestProcessors(t *testing.T) {
	o := jailinit.Orders{Without: all, CPUs: 1, Seed: 12345}
	if out, code := run(t, o.Encode(), "", nil, "nproc"); out != "1" || code != 0 {
		t.Errorf("status %d and %q, want 0 and 1", code, out)
	}
}
