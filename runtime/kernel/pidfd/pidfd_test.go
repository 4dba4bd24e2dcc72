package pidfd

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestKill(t *testing.T) {
	cmd := exec.Command("sleep", "100000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	// A second time it has ended and was not waited for; a third time it was.
	for range 2 {
		if err := Kill(fd, time.Minute); err != nil {
			t.Error(err)
		}
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("it was not killed: %v", err)
	}
	if err := Kill(fd, time.Minute); err != nil {
		t.Error(err)
	}
}
