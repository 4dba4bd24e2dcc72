package procstatus

import (
	"os"
	"os/exec"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

func TestField(t *testing.T) {
	s, err := Read(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Field("Pid"); got != strconv.Itoa(os.Getpid()) {
		t.Errorf("Pid %q", got)
	}
	if s.Ended() || s.Field("State") == "" || s.Field("Pi") != "" || s.Field("NoSuchField") != "" {
		t.Errorf("%q", s)
	}
	if _, err := Read(1 << 30); err == nil {
		t.Error("a process that is not there has a status")
	}
}

// TestName: a process cannot write a field by its name.
func TestName(t *testing.T) {
	cmd := exec.Command("sh", "-c", `printf 'a\nPid:\t7' >/proc/$$/comm; kill -STOP $$`)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, unix.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("%v, %v", status, err)
	}
	s, err := Read(pid)
	if err != nil || s.Field("Pid") != strconv.Itoa(pid) {
		t.Errorf("%q, %v", s, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// It has ended when the kernel reports of it, and stays until it is waited for.
	if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if s, err = Read(pid); err != nil || !s.Ended() {
		t.Errorf("%q, %v", s, err)
	}
	_ = cmd.Wait()
}
