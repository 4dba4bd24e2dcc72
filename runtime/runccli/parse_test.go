package runccli

import (
	"errors"
	"flag"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	global, v, call, err := Parse([]string{"--root", "/r", "exec", "-e", "A=1,2", "--env=B=", "-t", "id", "sh", "-c", "x", "--tty"})
	if err != nil {
		t.Fatal(err)
	}
	if v.Name != "exec" || global.String("root") != "/r" || !call.Bool("tty") || call.IsSet("cwd") {
		t.Errorf("%s, root %q, tty %v", v.Name, global.String("root"), call.Bool("tty"))
	}
	// A value is the caller's, with its commas.
	if got := call.StringSlice("env"); !slices.Equal(got, []string{"A=1,2", "B="}) {
		t.Errorf("env %q", got)
	}
	if want := []string{"id", "sh", "-c", "x", "--tty"}; !slices.Equal(call.Args, want) {
		t.Errorf("arguments %q", call.Args)
	}
	for _, args := range [][]string{{}, {"nosuch"}, {"create", "--nosuch"}, {"--nosuch"}, {"create", "--help"}, {"-h"}} {
		if _, _, _, err := Parse(args); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

// TestParseOrder: options are taken in any order, as runc does, but for what
// follows the id of a verb whose other arguments are somebody else's.
func TestParseOrder(t *testing.T) {
	for _, c := range []struct {
		in, args string            // of the verb
		options  map[string]string // by name; "true" for a switch
	}{
		{"update x --memory 5 --cpu-quota -1", "x", map[string]string{"memory": "5", "cpu-quota": "-1"}},
		{"update x --memory=5", "x", map[string]string{"memory": "5"}},
		{"--root update update x -r -", "x", map[string]string{"resources": "-"}},
		{"--root=/r --debug delete x --force", "x", map[string]string{"force": "true"}},
		{"delete -f x", "x", map[string]string{"force": "true"}},
		{"delete --force=false x", "x", map[string]string{"force": ""}},
		{"kill x -9", "x -9", map[string]string{"all": ""}},
		{"kill x 9 -a", "x 9", map[string]string{"all": "true"}},
		{"kill -- x -a", "x -a", map[string]string{"all": ""}},
		{"exec x ls --cwd /", "x ls --cwd /", map[string]string{"cwd": ""}},
		{"exec --cwd / x ls -t", "x ls -t", map[string]string{"cwd": "/", "tty": ""}},
		{"ps x -f y", "x -f y", nil},
		{"run -d x --pid-file p -- --bundle b", "x --bundle b", map[string]string{"detach": "true", "pid-file": "p"}},
		{"checkpoint x --work-path w", "x --work-path w", nil},
		{"state -", "-", nil},
	} {
		_, v, call, err := Parse(strings.Fields(c.in))
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		if got := strings.Join(call.Args, " "); got != c.args {
			t.Errorf("%s: arguments %q, not %q", c.in, got, c.args)
		}
		for name, want := range c.options {
			got := call.String(name)
			if call.Bool(name) {
				got = "true"
			}
			if got != want {
				t.Errorf("%s: %s's --%s is %q, not %q", c.in, v.Name, name, got, want)
			}
		}
	}
}

// TestParseErrors: what a command line lacks can be distinguished.
func TestParseErrors(t *testing.T) {
	for _, in := range []string{"--help", "-h", "create --help", "create x -h x", "kill -h", "restore --help", "exec --help"} {
		_, _, _, err := Parse(strings.Fields(in))
		if want := !strings.Contains(in, "x -h"); errors.Is(err, flag.ErrHelp) != want {
			t.Errorf("%s: %v", in, err)
		}
	}
	for _, in := range []string{"", "--debug", "--version"} {
		if _, _, _, err := Parse(strings.Fields(in)); !errors.Is(err, ErrNoVerb) {
			t.Errorf("%s: %v", in, err)
		}
	}
	var unknown *UnknownError
	if _, _, _, err := Parse([]string{"check", "--json"}); !errors.As(err, &unknown) || unknown.Verb != "check" {
		t.Errorf("check: %v", err)
	}
	for _, in := range []string{"update x --memory", "create --nosuch x", "--root"} {
		if _, _, _, err := Parse(strings.Fields(in)); err == nil {
			t.Errorf("%s is taken", in)
		}
	}
}

// TestPeopleIsCheap: an engine's call allocates nothing to find out whose verb it is.
func TestPeopleIsCheap(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { _ = slices.Contains(CtlCommands, "create") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
