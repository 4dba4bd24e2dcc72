package seccomp

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

var update = flag.Bool("update", false, "write the table of docs/seccomp.md")

const argumentsPage = "../docs/seccomp.md"

// The table stands between these lines of the page.
const (
	argumentsBegin = "<!-- written by go test ./seccomp -run TestArgumentsTable -update -->\n"
	argumentsEnd   = "<!-- /written -->\n"
	argumentsHead  = "| calls (profiles, if not all) | what passes | a program sees for the rest | reason |\n|---|---|---|---|\n"
)

// TestArgumentsTable: the table in docs is that of the rules.
func TestArgumentsTable(t *testing.T) {
	calls, in, own := map[string][]string{}, map[string][]string{}, map[string]string{}
	var names []string
	for _, name := range Profiles() {
		p, err := load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range slices.Concat(p.allow, p.refuse) {
			if g.rule == "" {
				continue
			}
			if !slices.Contains(names, g.rule) {
				names = append(names, g.rule)
			}
			own[g.rule] = g.errno
			if !slices.Contains(in[g.rule], name) {
				in[g.rule] = append(in[g.rule], name)
			}
			for _, n := range g.names {
				if !slices.Contains(calls[g.rule], n) {
					calls[g.rule] = append(calls[g.rule], n)
				}
			}
		}
	}
	slices.Sort(names)
	rows, of := []string{}, map[string]map[string][]string{} // a row has the calls whose rules are alike, by profiles
	var former argRule
	for _, name := range names {
		r, ok := ruleOf(name)
		if !ok || r.text == "" || r.why == "" {
			t.Errorf("rule %s: no text or no reason", name)
		}
		answers := answersOf(r)
		if len(r.allow) == 0 {
			answers += ", " + own[name]
		}
		text, why := r.text, r.why
		if more, ok := strings.CutPrefix(text, former.text+", "); ok && why == former.why { // the same rule, wider
			text, why = "also "+more, ""
		}
		row := fmt.Sprintf(" | %s | %s | %s |\n", text, answers, why)
		if of[row] == nil {
			rows, of[row] = append(rows, row), map[string][]string{}
		}
		of[row][profilesText(in[name])] = append(of[row][profilesText(in[name])], calls[name]...)
		if why != "" {
			former = r
		}
	}
	table := argumentsHead
	for _, row := range rows {
		var groups []string
		for _, profiles := range slices.Sorted(maps.Keys(of[row])) {
			groups = append(groups, strings.Join(of[row][profiles], ", ")+profiles)
		}
		table += "| " + strings.Join(groups, "; ") + row
	}
	page, err := os.ReadFile(argumentsPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(page), argumentsBegin)
	have, after, ends := strings.Cut(rest, argumentsEnd)
	if !begins || !ends {
		t.Fatalf("%s has no place for the table", argumentsPage)
	}
	if have == table {
		return
	}
	if !*update {
		t.Fatal("the table is not that of the rules: go test ./seccomp -run TestArgumentsTable -update")
	}
	if err := os.WriteFile(argumentsPage, []byte(before+argumentsBegin+table+argumentsEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// profilesText lists profiles in brackets, and those that are missing where that is shorter; "" for all.
func profilesText(have []string) string {
	var missing []string
	for _, p := range Profiles() {
		if !slices.Contains(have, p) {
			missing = append(missing, p)
		}
	}
	switch {
	case len(missing) == 0:
		return ""
	case len(missing) < len(have):
		return " (not in " + strings.Join(missing, ", ") + ")"
	}
	return " (" + strings.Join(have, ", ") + ")"
}

// answersOf lists what a rule answers where it refuses, each once.
func answersOf(r argRule) string {
	var out []string
	for _, v := range r.refuse {
		text := Done
		if v.errno != 0 {
			text = unix.ErrnoName(syscall.Errno(v.errno))
		}
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return strings.Join(out, ", ")
}
