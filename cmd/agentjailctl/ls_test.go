package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentjail.dev/runtime/observe/journal"
)

// TestLsBounds: of many jails that ended the last are listed, and how many more there are; all of
// them on request and as JSON.
func TestLsBounds(t *testing.T) {
	state, config := t.TempDir(), filepath.Join(t.TempDir(), "config.toml")
	dir := filepath.Join(state, "agentjail", "journal") // the default of an ordinary user, whom no other policy than root's holds
	t.Setenv("XDG_STATE_HOME", state)
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, fmt.Appendf(nil, "[journal]\ndir = %q\n", dir), 0o644); err != nil {
		t.Fatal(err)
	}
	const more = 3
	for i := range endedRows + more {
		path := journal.NewPath(dir, fmt.Sprintf("0123abcd-box-%02d-", i), time.Now().Add(time.Duration(i)*time.Second))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		most int
		line bool
	}{{nil, endedRows, true}, {[]string{"--all"}, endedRows + more, false}, {[]string{"--json"}, endedRows + more, false}, {[]string{"--running"}, 0, false}} {
		app := newApp()
		var out, report bytes.Buffer
		app.Writer, app.ErrWriter = &out, &report
		if err := run(app, append([]string{"agentjail", "--config", config, "ls"}, c.args...)); err != nil {
			t.Fatal(err)
		}
		listed := func(i int) bool { return strings.Contains(out.String(), fmt.Sprintf("box-%02d-", i)) }
		n := 0
		for i := range endedRows + more {
			if listed(i) {
				n++
			}
		}
		if n != c.most || n > 0 && !listed(endedRows+more-1) {
			t.Errorf("ls %v lists %d, expected %d, the newest first:\n%s", c.args, n, c.most, out.String())
		}
		if strings.Contains(report.String(), fmt.Sprintf("%d jails ended before these", more)) != c.line {
			t.Errorf("ls %v reports %q", c.args, report.String())
		}
	}
}
