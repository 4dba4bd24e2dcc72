package seccomp

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

var update = flag.Bool("update", false, "write docs/seccomp-arguments.md")

const argumentsPage = "../docs/seccomp-arguments.md"

const argumentsHead = `# Checked arguments

<!-- written by go test ./seccomp -run TestArgumentsPage -update -->

Each rule compares the low 32 bits of integer arguments, as the kernel does, and all 64 bits of pointers. The inner filter has all of
them. The outer one leaves the arguments of ` + "`futex`, `madvise` and `mmap`" + ` to it, so that each call is looked at once, and those of ` + "`prlimit64`" + `,
since the init step sets limits.

"Success, nothing done" is for calls that programs end on when they fail. ` + "`sched_setaffinity`, `sched_setparam` and `ioprio_get`" + ` have
that answer for all arguments, the first but under profile server.

| calls | profiles | what passes | a program sees for the rest | reason |
|---|---|---|---|---|
`

// TestArgumentsPage: the page in docs says what the rules say.
func TestArgumentsPage(t *testing.T) {
	calls, in := map[string][]string{}, map[string][]string{}
	var names []string
	for _, name := range Profiles() {
		p, err := load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range slices.Concat(p.allow, p.refuse) {
			if g.rule == "" {
				continue
			}
			if !slices.Contains(names, g.rule) {
				names = append(names, g.rule)
			}
			if !slices.Contains(in[g.rule], name) {
				in[g.rule] = append(in[g.rule], name)
			}
			for _, n := range g.names {
				if !slices.Contains(calls[g.rule], n) {
					calls[g.rule] = append(calls[g.rule], n)
				}
			}
		}
	}
	slices.Sort(names)
	page := argumentsHead
	for _, name := range names {
		r, ok := ruleOf(name)
		if !ok || r.text == "" || r.why == "" {
			t.Errorf("rule %s: no text or no reason", name)
		}
		answers := answersOf(r)
		if len(r.allow) == 0 {
			answers += ", " + Done // the refused calls' own answer
		}
		page += fmt.Sprintf("| %s | %s | %s | %s | %s |\n", strings.Join(calls[name], ", "), strings.Join(in[name], ", "), r.text, answers, r.why)
	}
	if *update {
		if err := os.WriteFile(argumentsPage, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(argumentsPage); err != nil || string(have) != page {
		t.Errorf("the page is not what the rules say: go test ./seccomp -run TestArgumentsPage -update (%v)", err)
	}
}

// answersOf lists what a rule answers where it refuses, each once.
func answersOf(r argRule) string {
	var out []string
	for _, v := range r.refuse {
		text := Done
		if v.errno != 0 {
			text = unix.ErrnoName(syscall.Errno(v.errno))
		}
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return strings.Join(out, ", ")
}
