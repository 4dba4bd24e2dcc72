package shown

import "testing"

// TestHost: a text that moves with the host's is the host's, and one of the same form is not.
func TestHost(t *testing.T) {
	for _, c := range []struct {
		before, text, after string
		host                bool
	}{
		{"vm\n", "vm\n", "vm\n", true},
		{"vm\n", "runc\n", "vm\n", false},
		{"", "", "", false},
		{"1000.25 1800.5", "1001.10 1801.7", "1002.0 1803.1", true},
		{"1000.25 1800.5", "3.10 5.20", "1002.0 1803.1", false},
		{"cpu 0 1204 77", "cpu 0 0 0", "cpu 0 1300 78", false},
		{"MemTotal: 24111000 kB MemFree: 1811000 kB", "MemTotal: 4194304 kB MemFree: 4190000 kB", "MemTotal: 24111000 kB MemFree: 1801000 kB", false},
		{"MemTotal: 24111000 kB MemFree: 1811000 kB", "MemTotal: 24111000 kB MemFree: 1805000 kB", "MemTotal: 24111000 kB MemFree: 1801000 kB", true},
	} {
		if got := Host(c.before, c.text, c.after); got != c.host {
			t.Errorf("%q between %q and %q: %v", c.text, c.before, c.after, got)
		}
	}
	if n := len(Rows()); n < 80 {
		t.Errorf("%d rows", n)
	}
}
