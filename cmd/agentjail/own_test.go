package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// TestOwnNames: the list that engines' calls are held against names all commands of agentjail's own.
func TestOwnNames(t *testing.T) {
	var names []string
	for _, c := range ownCommands() {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	listed := slices.Sorted(slices.Values(ownNames))
	if !slices.Equal(names, listed) {
		t.Errorf("the commands are %v, the list %v", names, listed)
	}
}

// TestOwnNamesAreCheap: an engine's call allocates nothing to find out whose verb it is.
func TestOwnNamesAreCheap(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { isOwn("create") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkIsOwn(b *testing.B) {
	for b.Loop() {
		isOwn("create")
	}
}

// TestVersion: the lines that dockerd looks for are there (moby daemon/info_unix.go, parseRuntimeVersion).
func TestVersion(t *testing.T) {
	for _, set := range []string{"", "0123456789abcdef"} {
		commit = set
		var out bytes.Buffer
		printVersion(cli.NewContext(&cli.App{Writer: &out}, nil, nil))
		lines := strings.Split(out.String(), "\n")
		if !strings.HasPrefix(lines[0], "agentjail version ") || !strings.HasPrefix(lines[1], "commit: ") || len(lines[1]) <= len("commit: ") {
			t.Errorf("with commit %q:\n%s", set, &out)
		}
		if set != "" && lines[1] != "commit: "+set {
			t.Errorf("%s, not the commit %s", lines[1], set)
		}
	}
	commit = ""
}
