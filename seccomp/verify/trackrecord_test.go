package verify

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/abi"
	"agentjail.dev/seccomp/bpf"
)

var update = flag.Bool("update", false, "write docs/security/cve-track-record.md")

const trackRecordPage = "../../docs/security/cve-track-record.md"

// TestTrackRecord: of each vulnerability of the list the entry point is out of
// reach, as the compiled filters or a named test say, or it is named as open.
// The page in docs is what the data says.
func TestTrackRecord(t *testing.T) {
	r, err := TrackRecord()
	if err != nil {
		t.Fatal(err)
	}
	open := map[string]map[string]bool{}
	for _, profile := range seccomp.Profiles() {
		if open[profile], err = r.OpenIn([][]bpf.Insn{compile(t, embedded(t, profile))}, "amd64"); err != nil {
			t.Fatal(err)
		}
	}
	entries := map[string]RecordEntry{}
	for _, e := range r.Entries {
		checkEntry(t, e, open["default"][e.Name])
		entries[e.Name] = e
	}
	if len(r.CVEs) != 110 {
		t.Errorf("%d vulnerabilities", len(r.CVEs))
	}
	counts := map[string]int{}
	for _, c := range r.CVEs {
		e, ok := entries[c.Entry]
		if !ok {
			t.Errorf("%s %s: no entry %q", c.ID, c.What, c.Entry)
		}
		counts[verdictOf(e, open["default"])]++
	}
	if counts["open"] != 6 || counts["inside"] != 2 || counts["out of reach"] != 102 {
		t.Errorf("the default profile: %v", counts)
	}
	for _, c := range r.Beside {
		if _, ok := entries[c.Entry]; !ok {
			t.Errorf("%s %s: no entry %q", c.ID, c.What, c.Entry)
		}
		for _, listed := range r.CVEs {
			if listed.ID == c.ID {
				t.Errorf("%s is in the list", c.ID)
			}
		}
	}
	page := trackRecordText(r, entries, open)
	if *update {
		if err := os.WriteFile(trackRecordPage, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(trackRecordPage); err != nil || string(have) != page {
		t.Errorf("the page is not what the data says: go test ./seccomp/verify -run TestTrackRecord -update (%v)", err)
	}

	// The table can count: what lets everything pass has every entry of a filter open.
	all, err := r.OpenIn([][]bpf.Insn{{{Code: 0x06, K: bpf.RetAllow}}}, "amd64")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range r.Entries {
		if e.Layer == filterLayer && !all[e.Name] {
			t.Errorf("%s: closed without a filter", e.Name)
		}
	}
}

const filterLayer = "system call filter"

// checkEntry holds an entry against what it says.
func checkEntry(t *testing.T, e RecordEntry, open bool) {
	t.Helper()
	for _, w := range e.Ways {
		if _, ok := abi.Number(w.Call, "amd64"); !ok {
			t.Errorf("%s: no call %s", e.Name, w.Call)
		}
	}
	file, function, _ := strings.Cut(e.Test, " ")
	text, err := os.ReadFile(filepath.Join("../..", file))
	switch {
	case e.Layer == filterLayer && (len(e.Ways) == 0 || open):
		t.Errorf("%s: passes the filter", e.Name)
	case e.Open != "" && !open:
		t.Errorf("%s: is said to be open, and is not", e.Name)
	case e.Layer != filterLayer && e.Open == "" && e.Inside == "" && (err != nil || !strings.Contains(string(text), "func "+function+"(")):
		t.Errorf("%s: no test %q (%v)", e.Name, e.Test, err)
	case (e.Open != "") != (e.Layer == ""):
		t.Errorf("%s: open and denied, or neither", e.Name)
	}
}

func verdictOf(e RecordEntry, open map[string]bool) string {
	switch {
	case e.Inside != "":
		return "inside"
	case open[e.Name]:
		return "open"
	}
	return "out of reach"
}

// trackRecordText is the page.
func trackRecordText(r *Record, entries map[string]RecordEntry, open map[string]map[string]bool) string {
	var b strings.Builder
	b.WriteString("# Track record\n\n<!-- written by go test ./seccomp/verify -run TestTrackRecord -update -->\n\n" + r.About + "\n\n")
	b.WriteString("| | " + strings.Join(seccomp.Profiles(), " | ") + " |\n|---" + strings.Repeat("|---", len(seccomp.Profiles())) + "|\n")
	for _, verdict := range []string{"out of reach", "inside", "open"} {
		row := map[string]string{"out of reach": "entry point out of reach", "inside": "a program inside the jail, which gives no more than the jail has", "open": "open"}[verdict]
		for _, profile := range seccomp.Profiles() {
			n := 0
			for _, c := range r.CVEs {
				if verdictOf(entries[c.Entry], open[profile]) == verdict {
					n++
				}
			}
			row += fmt.Sprintf(" | %d", n)
		}
		b.WriteString("| " + row + " |\n")
	}
	b.WriteString("\n## Entry points\n\n| entry point | vulnerabilities | denied by | open in |\n|---|---|---|---|\n")
	for _, e := range r.Entries {
		n := 0
		for _, c := range slices.Concat(r.CVEs, r.Beside) {
			if c.Entry == e.Name {
				n++
			}
		}
		by := e.Layer
		if e.Test != "" {
			file, function, _ := strings.Cut(e.Test, " ")
			by += ": [" + function + "](../../" + file + ")"
		}
		if by == "" {
			by = "nothing: " + e.Open
		}
		if e.Inside != "" {
			by += ": " + e.Inside
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %s |\n", e.What, n, by, openProfiles(e, open))
	}
	b.WriteString("\n## Each vulnerability\n\nBy entry point. The list does not have what is marked *, and the first table leaves it out.\n\n")
	for _, e := range r.Entries {
		var items []string
		for i, c := range slices.Concat(r.CVEs, r.Beside) {
			if c.Entry != e.Name {
				continue
			}
			item := cmp.Or(c.ID, c.Date)
			if i >= len(r.CVEs) {
				item += "*"
			}
			if c.What != e.What {
				item += " " + c.What
			}
			items = append(items, item)
		}
		fmt.Fprintf(&b, "- **%s**: %s\n", e.What, strings.Join(items, "; "))
	}
	return b.String()
}

func openProfiles(e RecordEntry, open map[string]map[string]bool) string {
	in := slices.DeleteFunc(slices.Clone(seccomp.Profiles()), func(p string) bool { return !open[p][e.Name] })
	switch len(in) {
	case 0:
		return "none"
	case len(open):
		return "all"
	}
	return strings.Join(in, ", ")
}
