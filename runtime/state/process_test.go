package state

import (
	"errors"
	"os"
	"testing"
)

// TestProcess: of a recorded process is stated what is known, and nothing of one of another PID
// namespace.
func TestProcess(t *testing.T) {
	self, err := Recorded(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(*Process)) Process {
		p := self
		change(&p)
		return p
	}
	for what, c := range map[string]struct {
		p                      Process
		alive, gone, elsewhere bool
	}{
		"this one":                      {self, true, false, false},
		"of an unknown namespace":       {with(func(p *Process) { p.PIDNS = 0 }), true, false, false},
		"a later one of that number":    {with(func(p *Process) { p.Start++ }), false, true, false},
		"of another boot":               {with(func(p *Process) { p.BootID = "another" }), false, true, false},
		"of another boot's namespace":   {with(func(p *Process) { p.BootID, p.PIDNS = "another", 1 }), false, true, false},
		"of another namespace":          {with(func(p *Process) { p.PIDNS++ }), false, false, true},
		"of another namespace, ended":   {with(func(p *Process) { p.PIDNS++; p.Start++ }), false, false, true},
		"none":                          {with(func(p *Process) { p.Pid = 0 }), false, true, false},
		"none, and another namespace's": {with(func(p *Process) { p.Pid = 0; p.PIDNS++ }), false, false, true},
	} {
		if c.p.Alive() != c.alive || c.p.Gone() != c.gone || c.p.Elsewhere() != c.elsewhere {
			t.Errorf("%s: alive %v, gone %v, elsewhere %v", what, c.p.Alive(), c.p.Gone(), c.p.Elsewhere())
		}
		if _, err := c.p.Open(); errors.Is(err, ErrElsewhere) != c.elsewhere {
			t.Errorf("%s: opened with %v", what, err)
		}
	}
}

// TestDeadElsewhere: a jail of another PID namespace is not dead, though its maker is no process
// here, and a jail that ends with its maker is, though its first process runs.
func TestDeadElsewhere(t *testing.T) {
	self, err := Recorded(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	j := Brief{
		ID: "j", Delegate: "/usr/bin/runc", DelegateRoot: "/nonexistent", Bundle: "/nonexistent", BootID: self.BootID, PIDNS: self.PIDNS,
		CreatorPid: self.Pid, CreatorStart: self.Start + 1,
	}
	if !j.Dead() {
		t.Error("without its maker it is not dead")
	}
	other := j
	other.PIDNS++
	if other.Dead() {
		t.Error("of another PID namespace it is dead")
	}
	j.InitPid, j.InitStart = self.Pid, self.Start
	if j.Dead() {
		t.Error("it is dead while its first process runs")
	}
	if j.Bound = true; !j.Dead() {
		t.Error("one that ends with its maker is not dead without it")
	}
}
