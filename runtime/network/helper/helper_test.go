package helper

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/kernel/pidfd"
	"agentjail.dev/runtime/kernel/programs"
	"agentjail.dev/runtime/network/helper/child"
	"agentjail.dev/runtime/state"
)

// Names of this test's program as a helper, and as a starter that is killed.
const (
	program = "helper-of-test"
	starter = "starter-of-test"
)

// TestMain is also the helper: its work reports what it does.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case program:
		beHelper()
	case starter:
		// Started and recorded, and then killed before the helper gets its work.
		work, work2, _ := pipe()
		_, ready2, _ := pipe()
		dir := os.Args[1]
		path, _ := programs.Path(program)
		beside, _ := strconv.Atoi(os.Args[2])
		o := Options{Dir: dir, Name: program, Beside: beside, Group: "agentjail-test-killed"}
		all := placesOf(o)
		r, err := record(o, all)
		if err != nil {
			os.Exit(2)
		}
		pid, _, err := fork(path, o, r.Cgroups, own, work, ready2)
		if err != nil {
			os.Exit(3)
		}
		if len(os.Args) > 3 {
			if err := r.begun(dir, pid); err != nil {
				os.Exit(4)
			}
		}
		os.Stdout.WriteString(strconv.Itoa(pid) + "\n")
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		work2.Close()
	}
	if dir, err := os.MkdirTemp(filepath.Dir(executable()), "writable-"); errors.Is(err, unix.EROFS) {
		os.Exit(elsewhere())
	} else if err == nil {
		os.Remove(dir)
	}
	os.Exit(m.Run())
}

func executable() string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return self
}

// elsewhere runs the tests by a copy of this program in a directory that takes others beside it,
// and returns the exit status.
func elsewhere() int {
	dir, err := os.MkdirTemp("/run", "agentjail-test-helper-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	at := filepath.Join(dir, "test")
	data, err := os.ReadFile(executable())
	if err == nil {
		err = os.WriteFile(at, data, 0o755)
	}
	if err != nil {
		panic(err)
	}
	c := exec.Command(at, os.Args[1:]...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		return 1
	}
	return 0
}

func beHelper() {
	ready := os.NewFile(child.ReadyFD, "ready")
	work, err := io.ReadAll(os.NewFile(child.SetupFD, "setup"))
	switch {
	case err != nil || len(work) == 0:
		os.Exit(1)
	case string(work) == "serve recorded" && !isRecorded():
		_, _ = ready.WriteString("not recorded before it gets any work")
		os.Exit(1)
	case strings.HasPrefix(string(work), "serve"):
		_, _ = ready.WriteString(child.Ready)
		ready.Close()
		for {
			_ = unix.Pause() // in select {} the Go runtime sees a deadlock
		}
	case string(work) == "mute":
		os.Exit(0)
	case string(work) == "deny": // and runs on
		_, _ = os.NewFile(child.FirstFD, "pid").WriteString(strconv.Itoa(os.Getpid()))
		_, _ = ready.WriteString("denied")
		ready.Close()
		for {
			_ = unix.Pause()
		}
	case strings.HasPrefix(string(work), "fail "):
		_, _ = ready.WriteString(string(work)[5:])
	case strings.HasPrefix(string(work), "print "):
		_, _ = os.Stderr.WriteString(string(work)[6:])
		_, _ = ready.WriteString(child.Ready)
	}
	os.Exit(1)
}

// isRecorded reports whether this helper is on record in the directory that is its first file.
func isRecorded() bool {
	r, err := Load("/proc/self/fd/" + strconv.Itoa(child.FirstFD))
	return err == nil && r != nil && r.Pid == os.Getpid() && r.Alive()
}

// beside puts this program beside itself under a helper's name, where Start looks.
func beside(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: the program must be root's")
	}
	self := executable()
	for _, name := range []string{program, starter} {
		at := filepath.Join(filepath.Dir(self), name)
		if err := os.Link(self, at); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Remove(at) })
	}
}

// grouped starts a process in control groups of its own, where this machine has such, and ends it
// with the test.
func grouped(t *testing.T) *os.Process {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := cmd.Process
	of, err := cgroups.Of("self")
	if err != nil {
		t.Fatal(err)
	}
	var made []string
	t.Cleanup(func() {
		_ = p.Kill()
		_, _ = p.Wait()
		for _, dir := range made {
			if err := leave(dir); err != nil {
				t.Error(err)
			}
		}
	})
	for _, g := range of {
		for _, root := range g.Mounts(cgroups.Root) {
			dir := filepath.Join(root, g.Path, "agentjail-test-"+strconv.Itoa(p.Pid))
			if os.Mkdir(dir, 0o755) != nil {
				continue // a machine that has it read-only
			}
			made = append(made, dir)
			_ = os.WriteFile(filepath.Join(dir, "cgroup.procs"), strconv.AppendInt(nil, int64(p.Pid), 10), 0) // a cpuset without processors takes none
		}
	}
	return p
}

// ungrouped fails the test for control groups that are left.
func ungrouped(t *testing.T, dirs []string) {
	t.Helper()
	if len(dirs) == 0 {
		t.Log("this machine has no control groups for a helper")
	}
	for _, g := range dirs {
		if _, err := os.Stat(g); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", g, err)
		}
	}
}

// gone reports whether a process has ended, waiting for that by a pidfd.
func gone(t *testing.T, pid int) bool {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err == unix.ESRCH {
		return true
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	return pidfd.Wait(fd, patience) == nil
}

// TestLife: a helper is started in a session and control groups of its own, recorded, found alive,
// and ended with all that was made for it: one that is born beside a jail's first process, and one
// that was there before it.
func TestLife(t *testing.T) {
	beside(t)
	for _, born := range []bool{true, false} {
		t.Run(map[bool]string{true: "born beside", false: "placed"}[born], func(t *testing.T) { life(t, born) })
	}
}

func life(t *testing.T, born bool) {
	dir := t.TempDir()
	init := grouped(t)
	extra, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer extra.Close()
	o := Options{Dir: dir, Name: program, Group: "agentjail-test-helper", Files: []*os.File{extra}}
	if born {
		o.Beside = init.Pid
	}
	r, err := Start(o, []byte("serve recorded"))
	if err != nil {
		t.Fatal(err)
	}
	pid := r.Pid
	for range 2 { // the second time it has its place
		if err := Place(dir, init.Pid); err != nil {
			t.Fatal(err)
		}
	}
	if r, err = Load(dir); err != nil || r == nil || r.Pid != pid || !r.Waits() {
		t.Fatalf("recorded once it is ready: %+v, %v", r, err)
	}
	if len(places(init.Pid, o.Group)) != len(r.Cgroups) || r.Bounded() != (len(r.Cgroups) > 0) {
		t.Errorf("its groups are %v; bounded: %v", r.Cgroups, r.Bounded())
	}
	if err := r.Assign(dir); err != nil {
		t.Fatal(err)
	}
	if r, err = Load(dir); err != nil || r == nil || r.Waits() || r.Answer != "" {
		t.Fatalf("recorded once it is assigned: %+v, %v", r, err)
	}
	if err := r.Serves(dir, "an answer"); err != nil {
		t.Fatal(err)
	}
	if r, err = Load(dir); err != nil || r == nil || r.Pid != pid || r.Answer != "an answer" {
		t.Fatalf("recorded once it serves: %+v, %v", r, err)
	}
	if sid, err := unix.Getsid(r.Pid); err != nil || sid != r.Pid {
		t.Errorf("session %d, %v", sid, err)
	}
	if at, err := os.Readlink("/proc/" + strconv.Itoa(r.Pid) + "/fd/" + strconv.Itoa(child.FirstFD)); err != nil || at != dir {
		t.Errorf("its first file is %q, %v", at, err)
	}
	for _, g := range r.Cgroups {
		if in, err := cgroups.Procs(g); err != nil || !slices.Contains(in, r.Pid) {
			t.Errorf("%s has the processes %v, %v, and not the helper, %d", g, in, err, r.Pid)
		}
	}
	if err := End(dir); err != nil {
		t.Fatal(err)
	}
	if r.Alive() || !gone(t, r.Pid) {
		t.Error("it runs after its end")
	}
	ungrouped(t, r.Cgroups)
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left in the directory: %v", left)
	}
	if err := End(dir); err != nil {
		t.Errorf("a second end: %v", err)
	}
	if err := Place(dir, init.Pid); err != nil {
		t.Errorf("without a helper: %v", err)
	}
}

// TestPlaceEnded: a helper that has ended is not placed, and its groups are found by its end.
func TestPlaceEnded(t *testing.T) {
	beside(t)
	dir := t.TempDir()
	init := grouped(t)
	r, err := Start(Options{Dir: dir, Name: program, Group: "agentjail-test-ended"}, []byte("serve"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.kill(); err != nil {
		t.Fatal(err)
	}
	if err := Place(dir, init.Pid); err == nil && len(places(init.Pid, "agentjail-test-ended")) > 0 {
		t.Error("a helper that has ended is placed")
	}
	if r, err = Load(dir); err != nil {
		t.Fatal(err)
	}
	if err := End(dir); err != nil {
		t.Fatal(err)
	}
	ungrouped(t, r.Cgroups)
}

// TestFails: a helper that reports why, or nothing, is not started and leaves nothing.
func TestFails(t *testing.T) {
	beside(t)
	for work, want := range map[string]string{"fail port 53 is taken\n": "port 53 is taken", "mute": "before it was ready"} {
		dir := t.TempDir()
		if _, err := Start(Options{Dir: dir, Name: program}, []byte(work)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", work, err)
		}
		if left, _ := os.ReadDir(dir); len(left) != 0 {
			t.Errorf("%q: left %v", work, left)
		}
	}
	if _, err := Start(Options{Dir: t.TempDir(), Name: "not-there"}, nil); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("without its program: %v", err)
	}
}

// TestLastError: what a helper wrote to its standard error is on record for as long as that helper is, and harmless
// whatever it is.
func TestLastError(t *testing.T) {
	beside(t)
	dir := t.TempDir()
	if got := LastError(dir); got != "" {
		t.Errorf("without a helper: %s", got)
	}
	for text, want := range map[string]string{
		"":                              "",
		"\n":                            "",
		"a reason\n":                    `"a reason"`,
		"a\x1b[2Jb\nc\n":                `"a\x1b[2Jb"`,
		strings.Repeat("a", maxError+1): `"` + strings.Repeat("a", maxLine) + `..."`,
	} {
		if _, err := Start(Options{Dir: dir, Name: program}, []byte("print "+text)); err != nil {
			t.Fatal(err)
		}
		if got := LastError(dir); got != want {
			t.Errorf("%.40q: %s, want %s", text, got, want)
		}
		if err := End(dir); err != nil {
			t.Fatal(err)
		}
		if left, _ := os.ReadDir(dir); len(left) != 0 {
			t.Errorf("left %v", left)
		}
	}
	at := filepath.Join(dir, stderrFile)
	if err := errors.Join(os.WriteFile(dir+"/other", []byte("a secret"), 0o600), os.Symlink("other", at)); err != nil {
		t.Fatal(err)
	}
	if got := LastError(dir); got != "" {
		t.Errorf("by a link: %s", got)
	}
	if err := errors.Join(os.Remove(at), unix.Mkfifo(at, 0o600)); err != nil {
		t.Fatal(err)
	}
	if got := LastError(dir); got != "" {
		t.Errorf("of a pipe: %s", got)
	}
}

// TestAbandoned: a helper that does not become ready is ended, and leaves neither groups nor a
// record.
func TestAbandoned(t *testing.T) {
	beside(t)
	dir := t.TempDir()
	init := grouped(t)
	const group = "agentjail-test-abandoned"
	pidFile, err := os.Create(filepath.Join(t.TempDir(), "pid"))
	if err != nil {
		t.Fatal(err)
	}
	defer pidFile.Close()
	if _, err := Start(Options{Dir: dir, Name: program, Beside: init.Pid, Group: group, Files: []*os.File{pidFile}}, []byte("deny")); err == nil || !strings.Contains(err.Error(), "denied") {
		t.Fatalf("%v", err)
	}
	text, err := os.ReadFile(pidFile.Name())
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if !gone(t, pid) {
		t.Error("it runs after it was abandoned")
	}
	ungrouped(t, dirs(places(init.Pid, group)))
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left in the directory: %v", left)
	}
}

// TestKilledStarter: the starter of a helper can be killed at any time: a helper without work ends,
// recorded or not.
func TestKilledStarter(t *testing.T) {
	beside(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	init := grouped(t)
	for _, recorded := range []bool{false, true} {
		dir := t.TempDir()
		args := []string{dir, strconv.Itoa(init.Pid)}
		if recorded {
			args = append(args, "record")
		}
		out, _ := exec.Command(filepath.Join(filepath.Dir(self), starter), args...).Output()
		pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
		if err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		if !gone(t, pid) {
			t.Errorf("recorded %v: process %d waits for work that no process sends", recorded, pid)
		}
		r, err := Load(dir)
		if err != nil || recorded && (r == nil || r.Pid != pid) || !recorded && r != nil && r.Pid != 0 {
			t.Fatalf("recorded %v: the record is %+v, %v", recorded, r, err)
		}
		if err := End(dir); err != nil {
			t.Error(err)
		}
		if r != nil {
			ungrouped(t, r.Cgroups)
		}
	}
}

// TestAnother: a process that has the recorded number now is neither taken for the helper nor
// killed.
func TestAnother(t *testing.T) {
	dir := t.TempDir()
	other := exec.Command("sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	start, _, err := state.StartTime(other.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []Record{
		{Process: state.Process{Pid: other.Process.Pid, Start: start - 1, BootID: state.BootID()}},
		{Process: state.Process{Pid: other.Process.Pid, Start: start, BootID: "another"}},
		{Process: state.Process{Pid: 1, Start: start, BootID: state.BootID()}},
	} {
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, recordFile), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if r.Alive() {
			t.Errorf("%+v is alive", r)
		}
		if err := End(dir); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if err := other.Process.Signal(unix.Signal(0)); err != nil {
		t.Fatalf("the other process: %v", err)
	}
	if r := (Record{Process: state.Process{Pid: other.Process.Pid, Start: start, BootID: state.BootID()}}); !r.Alive() {
		t.Error("the process itself is not found alive")
	}
}
