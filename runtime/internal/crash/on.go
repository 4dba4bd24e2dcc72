//go:build crashtest

// Package crash lets a test end the program at a named step, as kill -9 would.
package crash

import (
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Point ends the program with SIGKILL when AGENTJAIL_TEST_CRASH names it. When
// that is @FILE, the file's content counts, once: "kill NAME" or "panic NAME".
func Point(name string) {
	want := os.Getenv("AGENTJAIL_TEST_CRASH")
	if file, ok := strings.CutPrefix(want, "@"); ok {
		text, _ := os.ReadFile(file)
		how, point, _ := strings.Cut(string(text), " ")
		if point != name || os.Remove(file) != nil {
			return
		}
		if how == "panic" {
			panic("a test's, at " + name)
		}
		want = name
	}
	if want == name {
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		select {}
	}
}

var steps struct {
	sync.Mutex
	n map[string]int
}

// Step names a step by its number among those of one name: "NAME 1", "NAME 2".
func Step(name string) {
	steps.Lock()
	defer steps.Unlock()
	if steps.n == nil {
		steps.n = map[string]int{}
	}
	steps.n[name]++
	Point(name + " " + strconv.Itoa(steps.n[name]))
}

// Environ is the environment that passes a test's choice to another process.
func Environ() []string { return []string{"AGENTJAIL_TEST_CRASH=" + os.Getenv("AGENTJAIL_TEST_CRASH")} }
