package lint

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// rawCallers are the product's directories and files that make system calls by number, and why
// golang.org/x/sys/unix does not serve. All others call functions, which check types.
var rawCallers = []struct{ below, why string }{
	{"runtime/kernel", "it is about them"},
	{"runtime/jailinit/guest", "after its last preparations the init step may neither allocate nor be preempted"},
	{"runtime/network/names/egress", "every thread of it gives up its privileges"},
	{"runtime/inspect/check/seccomp.go", "seccomp(2), SECCOMP_GET_ACTION_AVAIL"},
	{"runtime/spec/bindsource/statmount.go", "statmount(2) of Linux 6.8"},
	{"seccomp/readback", "ptrace(2), PTRACE_SECCOMP_GET_FILTER"},
	{"shim/memory.go", "madvise(2) by address"},
}

var rawCall = regexp.MustCompile(`\b(unix|syscall)\.(Raw|AllThreads)?Syscall[0-9]*(NoError)?\(`)

// TestRawSystemCalls: system calls by number are made where they are listed, and every row of the
// list makes some.
func TestRawSystemCalls(t *testing.T) {
	used := map[string]bool{}
	for _, f := range goFiles(t, []string{"runtime", "seccomp", "apparmor", "shim", "cmd"}, false, 300) {
		text, err := os.ReadFile(f.path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "unix.Openat2(") && !strings.HasPrefix(f.rel, "runtime/kernel/openat/") {
			t.Errorf("%s calls unix.Openat2: package openat has the ways to resolve a path", f.rel)
		}
		if !rawCall.Match(text) {
			continue
		}
		listed := false
		for _, r := range rawCallers {
			if f.rel == r.below || strings.HasPrefix(f.rel, r.below+"/") {
				listed, used[r.below] = true, true
			}
		}
		if !listed {
			t.Errorf("%s makes a system call by number: golang.org/x/sys/unix may have a function for it, else it belongs to a package below runtime/kernel", f.rel)
		}
	}
	for _, r := range rawCallers {
		if !used[r.below] {
			t.Errorf("%s makes no system call by number (%s)", r.below, r.why)
		}
	}
}
