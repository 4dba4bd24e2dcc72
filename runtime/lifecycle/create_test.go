package lifecycle

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/spec/bundle"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/state"
)

// TestConsoleSocket: a socket for a terminal that the bundle does not request is
// refused before anything is made.
func TestConsoleSocket(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	for _, d := range []string{root, filepath.Join(dir, "bundle")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b := &bundle.Bundle{Dir: filepath.Join(dir, "bundle"), Spec: &specs.Spec{
		Version: "1.0.2", Root: &specs.Root{Path: root}, Process: &specs.Process{Args: []string{"sh"}, Cwd: "/"},
		Linux: &specs.Linux{Namespaces: []specs.LinuxNamespace{{Type: "pid"}, {Type: "mount"}}},
	}}
	if err := b.Save(); err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(dir, "state")
	a := &attempt{
		rt:  &Runtime{Store: state.Store{Root: store}, Policy: policy.Default()},
		ctx: t.Context(),
		o:   CreateOptions{ID: "j", Bundle: b.Dir, ConsoleSocket: filepath.Join(dir, "tty")},
		j:   &state.Jail{Brief: state.Brief{ID: "j", Key: "j", Bundle: b.Dir, IDs: idmap.Map{Block: -1}}},
	}
	if err := a.create(); err == nil || !strings.Contains(err.Error(), "console socket") {
		t.Errorf("%v", err)
	}
	if _, err := os.Lstat(store); err == nil {
		t.Error("something was made for the jail")
	}
	if a.in != nil || a.j.IDs.Block != -1 {
		t.Errorf("the jail got the ids %+v, of %+v", a.j.IDs, a.in)
	}
}

// TestUndo: what steps made is undone in reverse, all of it after a failure, and
// only what the making needed after a success.
func TestUndo(t *testing.T) {
	before := creation
	defer func() { creation = before }()
	failure := errors.New("x")
	for _, c := range []struct {
		name string
		last func(*attempt) error
		want string
	}{
		{"success", func(*attempt) error { return nil }, "second"},
		{"failure", func(*attempt) error { return failure }, "third second first"},
		{"panic", func(*attempt) error { panic(failure) }, "third second first"},
	} {
		var undone []string
		note := func(name string) func() { return func() { undone = append(undone, name) } }
		creation = creation[:0:0]
		creation = append(creation, struct {
			name string
			run  []func(*attempt) error
		}{"all", []func(*attempt) error{
			func(a *attempt) error { a.onFailure(note("first")); return nil },
			func(a *attempt) error { a.always(note("second")); return nil },
			func(a *attempt) error { a.onFailure(note("third")); return nil },
			c.last,
			func(*attempt) error { undone = append(undone, "went on"); return nil },
		}})
		if c.name == "success" {
			creation[0].run = creation[0].run[:4]
		}
		a := &attempt{rt: &Runtime{}, j: &state.Jail{}}
		err := a.create()
		var p *thread.Panic
		if (err == nil) != (c.name == "success") || errors.As(err, &p) != (c.name == "panic") {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := strings.Join(undone, " "); got != c.want {
			t.Errorf("%s: undone: %s, not %s", c.name, got, c.want)
		}
	}
}

// TestRan: the end of a program that ran is no failure to make its jail.
func TestRan(t *testing.T) {
	for _, c := range []struct {
		run, started bool
		err          error
		want         bool
	}{
		{true, true, &ExitError{3}, true},
		{true, false, &ExitError{3}, false},
		{false, true, &ExitError{3}, false},
		{true, true, errors.New("waiting for the jail"), false},
	} {
		a := &attempt{o: CreateOptions{Run: c.run}, j: &state.Jail{}}
		a.j.Started = c.started
		if got := a.programEnded(c.err); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestCreationNames: a trace, and with it hack/bench, finds the steps by these
// names, in this order.
func TestCreationNames(t *testing.T) {
	var names []string
	for _, s := range creation {
		names = append(names, s.name)
	}
	if want := []string{"load", "harden", "user namespace", "stage", "write", "delegate create", "settle"}; !slices.Equal(names, want) {
		t.Errorf("%v", names)
	}
}

// TestClaimAfterInterruptedRemove: what an interrupted removal left of a jail does not take its id.
func TestClaimAfterInterruptedRemove(t *testing.T) {
	r := &Runtime{Store: state.Store{Root: filepath.Join(t.TempDir(), "state")}}
	j := &state.Jail{Brief: state.Brief{ID: "a", Key: state.Key("", "a")}}
	if err := os.MkdirAll(filepath.Join(r.Store.Dir(j.Key), "layer"), 0o711); err != nil {
		t.Fatal(err)
	}
	if err := r.claim(j); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Store.Brief(j.Key); err != nil {
		t.Error(err)
	}
}
