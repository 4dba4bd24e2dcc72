package reference

import (
	"strings"
	"testing"
)

// TestFind: whole names go before beginnings, and those that run before those that have ended.
func TestFind(t *testing.T) {
	all := []Named{}
	add := func(id string, runs bool, names ...string) {
		all = append(all, Named{ID: id, Show: id, Runs: runs, Names: func() []string { return names }})
	}
	add("webx-0001", true, "other")
	add("8f3a", true, "webx")
	add("8f3b", true, "two")
	add("8f3c", true, "two")
	add("old-1", false, "web")
	add("old-2", false, "web")
	add("old-2", false, "one")
	add("8f", false, "")
	add("gone", false, "8f3a-name")
	add("9c", false, "webx")
	for ref, want := range map[string]string{
		"webx": "8f3a", "webx-": "webx-0001", "8f": "8f", "8f3a-": "", "8f3": "ambiguous: 8f3a, 8f3b, 8f3c", "two": "ambiguous: 8f3b, 8f3c",
		"old-": "ambiguous: old-1, old-2", "old-2": "old-2", "go": "gone", "8f3a-name": "gone", "": "", "none": "",
	} {
		at, err := Find(ref, all, true)
		got := ""
		if err != nil {
			got = err.Error()
		} else if at >= 0 {
			got = all[at].ID
		}
		if got != want && (want == "" || err == nil || !strings.Contains(got, want)) {
			t.Errorf("%q: %q, not %q", ref, got, want)
		}
	}
	if at, err := Find("web", all, true); err != nil || all[at].ID != "old-1" {
		t.Errorf("the last: %d, %v", at, err)
	}
	if _, err := Find("web", all, false); err == nil || !strings.Contains(err.Error(), "old-1, old-2") {
		t.Errorf("ended ones of one name: %v", err)
	}
	all = nil
	for _, c := range "abcdefghijk" {
		add("x"+string(c), true)
	}
	if _, err := Find("x", all, true); err == nil || !strings.Contains(err.Error(), "xh and 3 more") {
		t.Errorf("many: %v", err)
	}
}
