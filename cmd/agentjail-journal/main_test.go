package main

import (
	"io"
	"testing"
)

// TestArguments: no command takes a further word.
func TestArguments(t *testing.T) {
	for _, args := range [][]string{{"x"}, {"unload", "x"}, {"probe", "x"}} {
		a := app()
		a.Writer, a.ErrWriter = io.Discard, io.Discard
		if err := a.Run(append([]string{a.Name}, args...)); err == nil || err.Error() != `"x" is no command (remedy: agentjail-journal --help)` {
			t.Errorf("%q: %v", args, err)
		}
	}
}
