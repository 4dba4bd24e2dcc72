package lostpaths

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/state"
	"agentjail.dev/tests/env"
)

func TestIn(t *testing.T) {
	mounts := []mountinfo.Mount{
		{Point: "/w/a", Options: "ro"},
		{Point: "/w/b", Options: "rw"},
		{Point: "/w/c", Options: "ro"},
		{Point: "/w/c", Options: "rw"}, // the last one shows
	}
	var got []string
	for _, l := range In([]string{"/w/a", "/w/b/", "/w/c", "/w/d"}, mounts) {
		got = append(got, l.Path)
	}
	if want := []string{"/w/b/", "/w/c", "/w/d"}; !slices.Equal(got, want) {
		t.Errorf("lost: %q, want %q", got, want)
	}
}

// jail is a process in a mount namespace of its own, with read-only mounts at a, b and c below a
// directory, and its record.
func jail(t *testing.T) (s state.Store, j *state.Jail, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	s = state.Store{Root: filepath.Join(t.TempDir(), "run")}
	dir = t.TempDir()
	j = &state.Jail{}
	j.ID, j.Key, j.BootID = "jail", "jail", state.BootID()
	j.Journal, j.JournalSize = journal.NewPath(t.TempDir(), j.Key, time.Now()), 1<<20
	for _, name := range []string{"a", "b", "c"} {
		at := filepath.Join(dir, name)
		if err := os.Mkdir(at, 0o755); err != nil {
			t.Fatal(err)
		}
		j.Protected = append(j.Protected, at)
	}
	cmd := exec.Command("sh", "-ec", `for n in a b c; do mount --bind $1/$n $1/$n; mount -o remount,ro,bind $1/$n; done; echo ready; read x`, "sh", dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatal(line, err)
	}
	start, _, err := state.StartTime(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	j.InitPid, j.InitStart = cmd.Process.Pid, start
	if err := s.Create(j); err != nil {
		t.Fatal(err)
	}
	if err := journal.Of(&j.Brief).Log().Begin(journal.Event{Kind: journal.JailCreate}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Remove(j.Key) })
	return s, j, dir
}

// reported are the paths of the alerts in the jail's journal.
func reported(t *testing.T, j *state.Jail) (out []string) {
	t.Helper()
	events, err := journal.Read(j.Journal)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.Kind == journal.ProtectionLost {
			if e.Verdict != journal.VerdictAlert {
				t.Errorf("the verdict is %s", e.Verdict)
			}
			out = append(out, filepath.Base(e.Path))
		}
	}
	slices.Sort(out)
	return out
}

func await(t *testing.T, j *state.Jail, want ...string) {
	t.Helper()
	var got []string
	if !env.Poll(env.Patience, func() bool { got = reported(t, j); return slices.Equal(got, want) }) {
		t.Fatalf("alerts of %q, want %q", got, want)
	}
}

// TestWatch: each way of taking a mount away is seen at once, and reported once though two watch.
func TestWatch(t *testing.T) {
	s, j, dir := jail(t)
	ctx, stop := context.WithCancel(context.Background())
	var ended [2]chan error
	for i := range ended {
		ended[i] = make(chan error, 1)
	}
	go func() { ended[0] <- Watch(s, j) }()
	go func() {
		All(ctx, s, func(err error) { t.Error(err) })
		ended[1] <- nil
	}()
	if got := reported(t, j); len(got) > 0 {
		t.Errorf("before anything: %q", got)
	}
	if err := os.Remove(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	await(t, j, "a")
	other := filepath.Join(dir, "other")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Rename(other, filepath.Join(dir, "b")); err != nil { // as git and editors replace a file
		t.Fatal(err)
	}
	await(t, j, "a", "b")
	stop()
	if p, err := os.FindProcess(j.InitPid); err != nil || p.Kill() != nil {
		t.Fatal(err)
	}
	for _, c := range ended {
		if err := <-c; err != nil {
			t.Error(err)
		}
	}
	await(t, j, "a", "b")
}

// TestNow: a look finds what no process has watched.
func TestNow(t *testing.T) {
	s, j, dir := jail(t)
	if got, err := Now(j); err != nil || len(got) > 0 {
		t.Fatalf("%v, %v", got, err)
	}
	if err := os.Remove(filepath.Join(dir, "c")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{1, 0} {
		losses, err := Now(j)
		if err != nil || len(losses) != 1 || !strings.HasSuffix(losses[0].Path, "/c") {
			t.Fatalf("%v, %v", losses, err)
		}
		if fresh, err := Report(s, j, losses); err != nil || len(fresh) != want {
			t.Errorf("%d are new (%v), want %d", len(fresh), err, want)
		}
	}
	await(t, j, "c")
}
