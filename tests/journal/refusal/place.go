package refusal

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// A Place runs the rows: how its jails are used.
type Place struct {
	// Exec runs a command in the jail, and Detached one that does not end.
	Exec, Detached func(options []string, command ...string) error
	// Update requests other limits; one that is 0 is not requested.
	Update func(pids, memory int64) error
	// Denied is what is shown, of each jail that the driver made.
	Denied func() [][]Denial
}

// Try requests everything that a place can be requested while its jail runs, in order.
func (p *Place) Try(t *testing.T, rows []Row) {
	t.Helper()
	var probes []string
	for _, r := range rows {
		if r.Probe != "" {
			probes = append(probes, r.Probe)
		}
	}
	if err := p.Exec(nil, append([]string{"probe", "attempts"}, probes...)...); err != nil {
		t.Error(err)
	}
	for _, r := range rows {
		switch {
		case r.Sh != "":
			run := p.Exec
			if r.Stays {
				run = p.Detached
			}
			env.Poll(env.Patience, func() bool {
				// Most of them fail: that is what they are for.
				if err := run(nil, "sh", "-c", "exec >/dev/null 2>&1; "+r.Sh); err != nil && r.Stays {
					t.Errorf("%s: %v", r.Name, err)
				}
				return !r.Again || len(r.most(p.Denied())) > 0
			})
		case r.Exec != nil:
			if p.Exec(r.Exec, "true") == nil {
				t.Errorf("%s: it is given", r.Name)
			}
		case r.Pids != 0 || r.Memory != 0:
			if err := p.Update(r.Pids, r.Memory); err != nil {
				t.Errorf("%s: %v", r.Name, err)
			}
		}
	}
}

// Check holds what is shown against the rows: each exactly once in a journal, with rule and remedy. The matrix gets the driver's column.
func (p *Place) Check(t *testing.T, d Driver, rows []Row, m *Matrix) {
	t.Helper()
	journals := p.await(rows)
	n := 0
	var table strings.Builder
	for i := range rows {
		r := &rows[i]
		shown := r.most(journals)
		if len(shown) != 1 {
			t.Errorf("%s: %s %q is shown %d times: %+v", r.Name, r.Kind, r.What, len(shown), shown)
			continue
		}
		s := shown[0]
		if s.Rule == "" || s.Remedy == "" || !strings.Contains(s.Rule, r.Rule) || !strings.Contains(s.Remedy, r.Remedy) {
			t.Errorf("%s: by %q, remedy %q; want %q, %q: %+v", r.Name, s.Rule, s.Remedy, r.Rule, r.Remedy, s)
			continue
		}
		n++
		m.shown(r, d)
		fmt.Fprintf(&table, "%2d %s: %s %s, by %s (remedy: %s)\n", n, r.Name, s.Kind, s.What, s.Rule, s.Remedy)
	}
	t.Logf("%s: %d of %d:\n%s", d, n, len(rows), &table)
	for _, all := range journals {
		for _, s := range all {
			if _, known := journal.Lookup(s.Kind); !known || s.Rule == "" || s.Remedy == "" {
				t.Errorf("without rule or remedy: %+v", s)
			}
		}
	}
}

// await polls until every row is there, for a while.
func (p *Place) await(rows []Row) [][]Denial {
	var journals [][]Denial
	env.Poll(env.Patience, func() bool {
		journals = p.Denied()
		return !slices.ContainsFunc(rows, func(r Row) bool { return len(r.most(journals)) == 0 })
	})
	return journals
}

// Parse reads what `agentjail denied --json` states of a jail.
func Parse(t testing.TB, r engine.Result) []Denial {
	t.Helper()
	var got struct{ Denied []Denial }
	if r.Code != 0 {
		t.Fatal(r)
	}
	env.Check(t, json.Unmarshal([]byte(r.Stdout), &got))
	return got.Denied
}

// Collect starts a collector of refused system calls, with which the test ends it. The command is made of the program's path and arguments.
func Collect(t testing.TB, policy string, command func(args ...string) *exec.Cmd) {
	t.Helper()
	dir := env.Get(t, engine.BinDir)
	path := filepath.Join(dir, "agentjail-journal")
	env.Check(t, engine.Build("./cmd/agentjail-journal", path))
	Start(t, command(path, "--config", policy, "--syscalls", "--no-pins"))
}

// Start starts a collector by a command, and waits until it acts.
func Start(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	said := env.Get(t, cmd.StderrPipe)
	env.Check(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	var text strings.Builder
	for lines := bufio.NewScanner(said); lines.Scan(); {
		text.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "programs act on: ") {
			go func() {
				for lines.Scan() {
				}
			}()
			return
		}
	}
	t.Fatalf("the collector ends: %s", &text)
}
