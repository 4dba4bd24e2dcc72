package lint

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/tests/env"
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
		text := env.Read(t, f.path)
		if strings.Contains(string(text), "unix.Openat2(") && !strings.HasPrefix(f.rel, "runtime/kernel/openat/") {
			t.Errorf("%s calls unix.Openat2: package openat has the ways to resolve a path", f.rel)
		}
		if !rawCall.Match(text) {
			continue
		}
		listed := false
		for _, r := range rawCallers {
			if pathname.Within(f.rel, r.below) {
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

// pure are the rooms that decide from data. What they decide can be tried without a kernel.
var pure = []string{"runtime/harden", "runtime/spec", "runtime/refusal", "runtime/version", "seccomp/compiler", "seccomp/profiles", "seccomp/verify"}

// impure are the packages in them that call the kernel all the same, and why.
var impure = []struct{ below, why string }{
	{"runtime/spec/bindsource", "it looks at what a bind mount names"},
	{"runtime/spec/credential", "it starts the host's program for a secret"},
	{"runtime/spec/sandbox/git", "it reads a repository of the host's"},
}

// TestPureRooms: what decides imports no system calls, and every row of the exceptions does.
func TestPureRooms(t *testing.T) {
	used := map[string]bool{}
	for _, f := range goFiles(t, []string{"runtime", "seccomp"}, false, 300) {
		dir := path.Dir(f.rel)
		if !slices.ContainsFunc(pure, func(room string) bool { return below(dir, room) }) {
			continue
		}
		for _, imported := range allImports(t, f.path) {
			if imported != "golang.org/x/sys/unix" && imported != "syscall" {
				continue
			}
			i := slices.IndexFunc(impure, func(r struct{ below, why string }) bool { return below(dir, r.below) })
			if i < 0 {
				t.Errorf("%s imports %s: what decides calls no kernel (remedy: a package below runtime/kernel, and its result as a parameter)", f.rel, imported)
				continue
			}
			used[impure[i].below] = true
		}
	}
	for _, r := range impure {
		if !used[r.below] {
			t.Errorf("%s imports no system calls (%s)", r.below, r.why)
		}
	}
}
