package oomscore

import (
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
)

// own is this process's score.
func own(t *testing.T) int {
	t.Helper()
	n, err := read(strconv.Itoa(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// child starts a process that waits to be killed.
func child(t *testing.T) *exec.Cmd {
	t.Helper()
	c := exec.Command("cat")
	if _, err := c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return c
}

func TestInherit(t *testing.T) {
	before := own(t)
	c := child(t)
	if err := Inherit(Jail, c.Start); err != nil {
		t.Fatal(err)
	}
	if got, err := read(strconv.Itoa(c.Process.Pid)); err != nil || got != Jail {
		t.Errorf("the child has %d, %v", got, err)
	}
	if got := own(t); got != before {
		t.Errorf("this process had %d and has %d", before, got)
	}
}

// TestInheritTogether: no process takes another's score for its own.
func TestInheritTogether(t *testing.T) {
	before := own(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := Inherit(Jail, func() error { return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := own(t); got != before {
		t.Errorf("this process had %d and has %d", before, got)
	}
}

func TestRaise(t *testing.T) {
	c := child(t)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct{ ask, want int }{{Jail, Jail}, {Jail + 50, Jail + 50}, {Jail, Jail + 50}} {
		if err := Raise(c.Process.Pid, s.ask); err != nil {
			t.Fatal(err)
		}
		if got, err := read(strconv.Itoa(c.Process.Pid)); err != nil || got != s.want {
			t.Errorf("requested %d: %d, %v", s.ask, got, err)
		}
	}
}
