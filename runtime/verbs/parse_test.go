package verbs

import (
	"slices"
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
