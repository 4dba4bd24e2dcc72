package promise

import (
	"errors"
	"strings"
	"testing"
)

// TestMatrixShowsBrokenAndUntried: what is broken and what was not tried show.
func TestMatrixShowsBrokenAndUntried(t *testing.T) {
	m := &Matrix{columns: []string{"one", "two"}, notes: []string{"- two, x: no reason"}}
	m.set(noNewPrivs, "one", nil)
	m.set(noNewPrivs, "two", errors.New("not set"))
	m.set(filters, "one", nil)
	rows := map[string]string{}
	for line := range strings.Lines(m.String()) {
		for _, name := range []string{noNewPrivs, filters} {
			if cells, ok := strings.CutPrefix(line, name); ok {
				rows[name] = strings.Join(strings.Fields(cells), " ")
			}
		}
	}
	if rows[noNewPrivs] != "holds BROKEN" || rows[filters] != "holds -" || !strings.HasSuffix(m.String(), "no reason") {
		t.Errorf("%q\n%s", rows, m)
	}
}

// TestPromisesHaveOneName: a promise has one name, and what engines lack are promises.
func TestPromisesHaveOneName(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range All {
		if seen[p.Name] || p.Wrong == nil {
			t.Errorf("%q stands twice, or tests nothing", p.Name)
		}
		seen[p.Name] = true
	}
	for name, why := range Rootless {
		if !seen[name] || why == "" {
			t.Errorf("%q is no promise, or has no reason", name)
		}
	}
}
