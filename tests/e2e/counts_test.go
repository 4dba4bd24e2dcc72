package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// taken is the probe's word on what it took.
type taken map[string]struct {
	Taken int    `json:"taken"`
	Errno string `json:"errno"`
}

// takesCounts starts a jail that takes all it is given of what the kernel counts by user.
func takesCounts(d *engine.T) (string, taken) {
	d.Helper()
	id := startJail(d, engine.Busybox, "probe", "counts")
	var got taken
	env.Eventually(d, "the jail has taken everything", func() bool {
		return json.Unmarshal([]byte(strings.TrimSpace(d.Docker("logs", id).Stdout)), &got) == nil
	})
	return id, got
}

// TestCountsAreTheJails: what the kernel counts by user is counted for each jail by itself. Neither host root nor another
// jail has less of it.
func TestCountsAreTheJails(t *testing.T) {
	needAgentjail(t)
	d := docker.For(t)
	_, first := takesCounts(d)
	for what, n := range first {
		if n.Errno == "" || n.Taken < 50 {
			t.Errorf("the jail took %d of %s, then %q: it shows nothing", n.Taken, what, n.Errno)
		}
	}
	if fd, err := unix.InotifyInit1(unix.IN_CLOEXEC); err != nil {
		t.Errorf("host root has no instance of inotify left: %v", err)
	} else {
		unix.Close(fd)
	}
	hostTimer(t, uint64(first["pending signals"].Taken/2))
	_, second := takesCounts(d)
	for what, n := range first {
		if second[what].Taken != n.Taken {
			t.Errorf("a second jail got %d of %s (%s), the first %d", second[what].Taken, what, second[what].Errno, n.Taken)
		}
	}
	if fd, err := unix.InotifyInit1(unix.IN_CLOEXEC); err != nil {
		t.Errorf("host root has no instance of inotify left after two jails: %v", err)
	} else {
		unix.Close(fd)
	}
}

// hostTimer makes and removes a timer as host root, who may have no more than most signals pending.
func hostTimer(t *testing.T, most uint64) {
	t.Helper()
	var was unix.Rlimit
	env.Check(t, unix.Prlimit(0, unix.RLIMIT_SIGPENDING, nil, &was))
	env.Check(t, unix.Prlimit(0, unix.RLIMIT_SIGPENDING, &unix.Rlimit{Cur: min(most, was.Cur), Max: was.Max}, nil))
	defer func() {
		if err := unix.Prlimit(0, unix.RLIMIT_SIGPENDING, &was, nil); err != nil {
			t.Error(err)
		}
	}()
	var id int32
	if _, _, errno := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, 0, uintptr(unsafe.Pointer(&id))); errno != 0 {
		t.Errorf("host root has no room for %d pending signals: %v", most, errno)
		return
	}
	if _, _, errno := unix.Syscall(unix.SYS_TIMER_DELETE, uintptr(id), 0, 0); errno != 0 {
		t.Error(errno)
	}
}
