package apply

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// crashDir has what crashing built.
var crashDir string

// crashing builds this package's tests with the tag crashtest.
var crashing = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "agentjail-apply-crash-")
	if err != nil {
		return "", err
	}
	crashDir = dir
	bin := filepath.Join(dir, "test")
	out, err := exec.Command("go", "test", "-c", "-tags=crashtest", "-o", bin, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return bin, nil
})

// victim applies the changes of the place in AGENTJAIL_TEST_PLACE, or finishes an apply that was
// cut off, as TestMain's process.
func victim() int {
	var t victimT
	top := os.Getenv("AGENTJAIL_TEST_PLACE")
	p := &place{top: top, dir: top + "/dir", upper: top + "/upper"}
	must(&t, p.load())
	must(&t, p.view.Lock())
	if _, _, _, err := p.view.recoverJournal(t.Context()); err != nil {
		fmt.Println(err)
		return 1
	}
	if os.Getenv("AGENTJAIL_TEST_VICTIM") == "recover" {
		return 0
	}
	r := p.review(&t)
	what := os.Getenv("AGENTJAIL_TEST_VICTIM")
	if what == "discard" {
		must(&t, p.view.Discard(r, r.Changes, []string{"."}))
		return 0
	}
	if what == "conflict" || what == "each" {
		must(&t, os.WriteFile(p.dir+"/turn/file", []byte("the owner's\n"), 0o644))
	}
	if _, err := p.view.Run(t.Context(), r, r.Changes, Options{Each: what == "each"}); err != nil && !errors.Is(err, ErrConflicts) {
		fmt.Println(err)
		return 1
	}
	return 0
}

// run runs a victim that is killed at a point, and reports whether it was.
func (p *place) run(t *testing.T, bin, what, point string) bool {
	t.Helper()
	cmd := exec.Command(bin)
	cmd.Env = append(os.Environ(), "AGENTJAIL_TEST_PLACE="+p.top, "AGENTJAIL_TEST_VICTIM="+what, "AGENTJAIL_TEST_CRASH="+point)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		if s, ok := ended.Sys().(syscall.WaitStatus); ok && s.Signaled() && s.Signal() == unix.SIGKILL || strings.Contains(string(out), "signal: killed") {
			return true
		}
	}
	t.Fatalf("%s, to be killed at %q: %v: %s", what, point, err, out)
	return false
}

// TestKilledApplyIsFinished: whenever the processes of an apply are killed, and those of the call that finishes
// it, the directory is as before or as the view; the next apply then makes it as the view.
func TestKilledApplyIsFinished(t *testing.T) {
	for _, what := range []string{"apply", "conflict", "each"} {
		for _, who := range []string{"apply", "parent"} {
			t.Run(what+"/"+who, func(t *testing.T) { killed(t, what, who) })
		}
	}
}

// TestDiscardKilled: a discard that is killed has left the directory alone, and a view that the next
// one empties.
func TestDiscardKilled(t *testing.T) {
	points := 0
	for n := 1; !t.Failed(); n++ {
		p := newPlace(t, project)
		bin, err := crashing()
		must(t, err)
		work1(t, p)
		old := list(t, p.dir)
		p.unmount(t)
		must(t, p.save())
		if !p.run(t, bin, "discard", fmt.Sprintf("discard %d", n)) {
			break
		}
		points++
		if got := list(t, p.dir); got != old {
			t.Errorf("point %d: the directory is\n%s\nnot\n%s", n, got, old)
		}
		must(t, p.load())
		r := p.review(t)
		must(t, p.view.Discard(r, r.Changes, []string{"."}))
		if r := p.review(t); len(r.Changes) > 0 {
			t.Errorf("point %d: still %s", n, changes(r))
		}
		p.mount(t)
		if got := list(t, p.merged); got != old {
			t.Errorf("point %d: the view is\n%s\nnot\n%s", n, got, old)
		}
	}
	if points < 4 {
		t.Errorf("only %d points", points)
	}
}

// killAllEnv has each step of an apply met by each step of the call that finishes it.
const killAllEnv = "AGENTJAIL_KILL_ALL"

func killed(t *testing.T, what, who string) {
	points, pairs := 0, 0
	for n := 1; !t.Failed(); n++ {
		point := fmt.Sprintf("%s %d", who, n)
		if os.Getenv(killAllEnv) == "" {
			was, _ := killedAt(t, what, point, fmt.Sprintf("apply %d", n*7%29+1), fmt.Sprintf("parent %d", n%4+1))
			if !was {
				break
			}
			points++
			continue
		}
		was := false
		for _, second := range []string{"apply", "parent"} {
			for m := 1; !t.Failed(); m++ {
				first, again := killedAt(t, what, point, fmt.Sprintf("%s %d", second, m))
				was = first
				if !again {
					break
				}
				pairs++
			}
		}
		if !was {
			break
		}
		points++
	}
	t.Logf("%d points, %d pairs of points", points, pairs)
	if points < 4 {
		t.Errorf("only %d points", points)
	}
}

// killedAt kills an apply at a point, and the calls that finish it one after the other at further points. It returns whether the apply and
// the last of these calls were killed.
func killedAt(t *testing.T, what, point string, finish ...string) (first, last bool) {
	t.Helper()
	p := newPlace(t, project)
	bin, err := crashing()
	must(t, err)
	work1(t, p)
	view, old := list(t, p.merged), list(t, p.dir)
	if what != "apply" {
		old = strings.Replace(old, "turn/file 100644 1234:1235 was a directory\n", "turn/file 100644 1234:1235 the owner's\n", 1)
		if what == "each" { // all but the file in conflict
			view = strings.Replace(view, "turn 100644 1234:1235 is a file\n", "turn 40755 1234:1235\nturn/file 100644 1234:1235 the owner's\n", 1)
		} else {
			view = old
		}
	}
	merged := list(t, p.merged)
	p.unmount(t)
	must(t, p.save())
	if !p.run(t, bin, what, point) {
		must(t, p.close())
		return false, false
	}
	if !isPending(p.view.Journal) && strings.HasPrefix(point, "apply") {
		t.Errorf("%s: no journal", point)
	}
	for _, f := range finish {
		last = p.run(t, bin, "recover", f)
	}
	p.run(t, bin, "recover", "")
	point += ", then " + strings.Join(finish, ", ")
	got := list(t, p.dir)
	if got != view && got != old {
		t.Errorf("%s: the directory is\n%s\nneither\n%s\nnor\n%s", point, got, old, view)
	}
	if isPending(p.view.Journal) {
		t.Errorf("%s: the journal stays", point)
	}
	must(t, p.load())
	if what != "apply" {
		for _, c := range p.review(t).Changes { // what was taken back is none
			if (c.Conflict != "") != (c.Path == "turn") {
				t.Errorf("%s: %s: conflict %q", point, c, c.Conflict)
			}
		}
	}
	if what == "apply" {
		if got == old {
			if res, err := p.apply(t, Options{}); err != nil {
				t.Errorf("%s: the next apply: %+v: %v", point, res, err)
			}
		}
		if got := list(t, p.dir); got != view {
			t.Errorf("%s: after the next apply the directory is\n%s\nnot\n%s", point, got, view)
		}
		if r := p.review(t); len(r.Changes) > 0 {
			t.Errorf("%s: still %s", point, changes(r))
		}
	}
	p.mount(t)
	if got := list(t, p.merged); got != merged {
		t.Errorf("%s: the view is\n%s\nnot\n%s", point, got, merged)
	}
	p.unmount(t)
	must(t, p.close())
	return true, last
}
