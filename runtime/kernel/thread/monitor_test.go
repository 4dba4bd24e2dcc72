package thread

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Only the second thread of all may sleep longer: the others' sleeps are the program's.
func TestCalmMonitor(t *testing.T) {
	if err := unix.Access("/proc/"+secondThread()+"/timerslack_ns", unix.W_OK); err != nil {
		t.Skipf("this kernel does not let a thread's slack be set: %v", err)
	}
	if os.Geteuid() != 0 {
		t.Skip("only who has CAP_SYS_NICE sets another thread's slack")
	}
	before := slacks(t)
	CalmMonitor()
	after := slacks(t)
	second := secondThread()
	if want := slack(runtime.GOMAXPROCS(0)); second == strconv.Itoa(os.Getpid()) || after[second] != want {
		t.Errorf("the second thread, %s, may sleep %s ns longer, not %s", second, after[second], want)
	}
	for tid, slack := range after {
		if was, ok := before[tid]; ok && tid != second && slack != was {
			t.Errorf("thread %s may sleep %s ns longer; it was %s", tid, slack, was)
		}
	}
	if first, err := strconv.Atoi(second); err != nil || first < os.Getpid() {
		t.Errorf("the second thread is called %q", second)
	}
}

// slacks are the slacks of all threads of this process, by id.
func slacks(t *testing.T) map[string]string {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range tasks {
		if text, err := os.ReadFile("/proc/" + e.Name() + "/timerslack_ns"); err == nil { // a thread may end meanwhile
			out[e.Name()] = strings.TrimSpace(string(text))
		}
	}
	return out
}
