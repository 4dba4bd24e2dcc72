package verify

import (
	"cmp"
	"encoding/json"
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

// record is a published list of vulnerabilities with the entry points that
// their exploits need.
type record struct {
	About   string        `json:"about"`
	Entries []recordEntry `json:"entries"`
	CVEs    []cve         `json:"cves"`
	// Beside are vulnerabilities that the list does not have.
	Beside []cve `json:"beside"`
}

// recordEntry is an entry point. One of Layer, Open and Inside reports what comes
// of it.
type recordEntry struct {
	Name string `json:"name"`
	What string `json:"what"`
	// Layer is what denies the entry point. Where that is the filter, Ways are the calls that would
	// provide it; else Test is what makes the attempt.
	Layer string `json:"layer"`
	Ways  []Way  `json:"ways"`
	Test  string `json:"test"`
	// Open reports why ordinary work needs the entry point.
	Open string `json:"open"`
	// Inside describes what an exploit of a program inside the jail reaches.
	Inside string `json:"inside"`
}

// cve is one vulnerability of a record.
type cve struct {
	Date string `json:"date"`
	// ID is empty where none was assigned.
	ID     string `json:"cve"`
	What   string `json:"what"`
	Entry  string `json:"entry"`
	GVisor string `json:"gvisor"`
}

// openIn lists by name the entry points of a record that a process's filters
// leave open, and those that no filter closes; arch is a GOARCH.
func (r *record) openIn(progs [][]bpf.Insn, arch string) (map[string]bool, error) {
	p, err := newStack(progs, "", arch)
	if err != nil {
		return nil, err
	}
	open := map[string]bool{}
	for _, e := range r.Entries {
		passes, err := p.some(e.Ways)
		if err != nil {
			return nil, fmt.Errorf("entry %s: %w", e.Name, err)
		}
		open[e.Name] = passes || e.Open != ""
	}
	return open, nil
}

// TestTrackRecord: of each vulnerability of the list the entry point is out of
// reach, as the compiled filters or a named test state, or it is named as open.
// The page in docs is what the data states.
func TestTrackRecord(t *testing.T) {
	data, err := os.ReadFile("testdata/trackrecord.json")
	if err != nil {
		t.Fatal(err)
	}
	r := new(record) // gVisor's published list
	if err := json.Unmarshal(data, r); err != nil {
		t.Fatal(err)
	}
	open := map[string]map[string]bool{}
	for _, profile := range seccomp.Profiles() {
		if open[profile], err = r.openIn([][]bpf.Insn{compile(t, embedded(t, profile))}, "amd64"); err != nil {
			t.Fatal(err)
		}
	}
	entries := map[string]recordEntry{}
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
		t.Errorf("the page is not what the data states: go test ./seccomp/verify -run TestTrackRecord -update (%v)", err)
	}

	// The table can count: what lets everything pass has every entry of a filter open.
	all, err := r.openIn([][]bpf.Insn{{{Code: 0x06, K: bpf.RetAllow}}}, "amd64")
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

// checkEntry holds an entry against what it states.
func checkEntry(t *testing.T, e recordEntry, open bool) {
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
		t.Errorf("%s: is stated to be open, and is not", e.Name)
	case e.Layer != filterLayer && e.Open == "" && e.Inside == "" && (err != nil || !strings.Contains(string(text), "func "+function+"(")):
		t.Errorf("%s: no test %q (%v)", e.Name, e.Test, err)
	case (e.Open != "") != (e.Layer == ""):
		t.Errorf("%s: open and denied, or neither", e.Name)
	}
}

func verdictOf(e recordEntry, open map[string]bool) string {
	switch {
	case e.Inside != "":
		return "inside"
	case open[e.Name]:
		return "open"
	}
	return "out of reach"
}

// trackRecordText is the page.
func trackRecordText(r *record, entries map[string]recordEntry, open map[string]map[string]bool) string {
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
	b.WriteString("\n## Entry points\n\nThe " + filterLayer + " denies these in every profile, where nothing else is noted. The list does not have what is marked *, " +
		"and the table leaves it out.\n\n")
	for _, e := range r.Entries {
		var items []string
		for i, c := range slices.Concat(r.CVEs, r.Beside) {
			if c.Entry != e.Name {
				continue
			}
			item := cmp.Or(c.ID, c.Date+" "+c.What)
			if i >= len(r.CVEs) {
				item += "*"
			}
			items = append(items, item)
		}
		by := ""
		if e.Layer != filterLayer {
			by = "; " + e.Layer
		}
		if e.Test != "" {
			file, function, _ := strings.Cut(e.Test, " ")
			by += ": [" + function + "](../../" + file + ")"
		}
		if e.Open != "" {
			by = "; open: " + e.Open
		}
		if e.Inside != "" {
			by += ": " + e.Inside
		}
		if in := openProfiles(e, open); in != "" {
			by += "; open in " + in
		}
		fmt.Fprintf(&b, "- %s%s; %d: %s\n", e.What, by, len(items), strings.Join(items, ", "))
	}
	return b.String()
}

// openProfiles lists the profiles that leave an entry point open which others close.
func openProfiles(e recordEntry, open map[string]map[string]bool) string {
	in := slices.DeleteFunc(slices.Clone(seccomp.Profiles()), func(p string) bool { return !open[p][e.Name] })
	if len(in) == len(open) {
		return ""
	}
	return strings.Join(in, ", ")
}
