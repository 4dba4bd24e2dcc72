package promise

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
)

// A Matrix reports which engine keeps which promise. The zero value is empty. Engines may be tried at
// the same time.
type Matrix struct {
	mu      sync.Mutex
	columns []string
	cells   map[[2]string]string // by promise and engine
	notes   []string
}

// Try tries every promise of an engine, each as a subtest. What cannot be tried on this machine, or not of this engine, is no subtest:
// its reason stands below the matrix. start may skip the test, which leaves the column empty.
func (m *Matrix) Try(t *testing.T, name string, start func(*testing.T) *Engine) {
	m.add(name)
	s := NewSubject(t, start(t))
	s.under()
	for _, p := range All {
		if why := s.Without(p); why != "" {
			m.note(fmt.Sprintf("- %s, %s: %s", name, p.Name, why))
			continue
		}
		// Not in the subtest, which may not end a test that the engine's helpers belong to.
		err := s.wrong(p)
		m.set(p.Name, name, err)
		t.Run(p.Name, func(t *testing.T) {
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func (m *Matrix) add(column string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.columns = append(m.columns, column)
}

func (m *Matrix) note(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notes = append(m.notes, text)
}

func (m *Matrix) set(promise, engine string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cells == nil {
		m.cells = map[[2]string]string{}
	}
	m.cells[[2]string{promise, engine}] = "holds"
	if err != nil {
		m.cells[[2]string{promise, engine}] = "BROKEN"
	}
}

// String has a row for each promise and a column for each engine, and the reasons of what was not tried.
func (m *Matrix) String() string {
	slices.Sort(m.columns)
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\t"+strings.Join(m.columns, "\t"))
	for _, p := range All {
		row := []string{p.Name}
		for _, c := range m.columns {
			cell := m.cells[[2]string{p.Name, c}]
			if cell == "" {
				cell = "-"
			}
			row = append(row, cell)
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush()
	slices.Sort(m.notes)
	return b.String() + strings.Join(m.notes, "\n")
}
