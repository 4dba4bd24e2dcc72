package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

func TestParseList(t *testing.T) {
	const text = `# Words

| file | test | why |
|---|---|---|
| a.bats | one | because |
| a.bats | two \| three | since |
| b | * | all |

| another | table |
|---|---|
| a | b |
`
	l, err := parseList(text)
	want := list{{"a.bats", "one"}: "because", {"a.bats", "two | three"}: "since", {"b", "*"}: "all"}
	if err != nil || !maps.Equal(l, want) {
		t.Errorf("%v, %v", l, err)
	}
	for _, bad := range []string{"| a | b |  |", "| a | b | c |\n| a | b | d |"} {
		if l, err := parseList(bad); err == nil {
			t.Errorf("%q: %v", bad, l)
		}
	}
}

func TestLike(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true},
		{"a", "ab", false},
		{"*", "", true},
		{"*", "abc", true},
		{"a*", "abc", true},
		{"*c", "abc", true},
		{"a*c", "abc", true},
		{"a*b*c", "a-c", false},
		{"a*b*c", "a-b-c", true},
		{"b*", "abc", false},
		{"a*a", "a", false},
		{"set (*)", "set (2)", true},
	} {
		if got := like(c.pattern, c.text); got != c.want {
			t.Errorf("like(%q, %q) = %v", c.pattern, c.text, got)
		}
	}
}

func TestJudge(t *testing.T) {
	l := list{{"u", "known*"}: "x", {"u", "gone"}: "x", {"elsewhere", "y"}: "x"}
	base := results{{"u", "known 1"}: pass, {"u", "gone"}: pass, {"u", "new"}: pass}
	diff := []difference{{test{"u", "known 1"}, pass, fail}}
	if l.judge(diff, base, false) {
		t.Error("a listed difference fails")
	}
	if listed, others := l.split(append(diff, difference{test{"u", "new"}, pass, fail})); len(listed) != 1 || len(others) != 1 || others[0].name != "new" {
		t.Errorf("listed %v, others %v", listed, others)
	}
	if !l.judge(append(diff, difference{test{"u", "new"}, pass, fail}), base, false) {
		t.Error("a difference that is not listed passes")
	}
}

func TestGoTest(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	const text = "=== RUN   TestA\n--- FAIL: TestA (0.01s)\n    --- PASS: TestA/one (0.00s)\n    --- FAIL: TestA/two (0.00s)\n        --- FAIL: TestA/two/x (0.00s)\n--- SKIP: TestB (0.00s)\n--- PASS: TestC/x@sha256:ce9e4283cffc41150ee1f1651af084e44d2ac991d770d412725e4f402871fea1 (0.00s)\nFAIL\n"
	env.Check(t, os.WriteFile(log, []byte(text), 0o600))
	r, err := readGoTest(log, "u")
	if want := (results{{"u", "TestA/one"}: pass, {"u", "TestA/two/x"}: fail, {"u", "TestB"}: skipped, {"u", "TestC/x@sha256:N"}: pass}); err != nil || !maps.Equal(r, want) {
		t.Errorf("%v, %v", r, err)
	}
}

func TestTAP(t *testing.T) {
	const text = "TAP version 13\r\n1..4\r\nok 1 one\r\nnot ok 2 - two\r\n# not ok 9 a comment\r\nok 3 three # skip needs more\r\nok 4 one\r\n  ok 5 nested\r\nok 8 # skip\r\nokay 6\r\n"
	r := results{}
	env.Check(t, readTAP(strings.NewReader(text), "u", nil, r))
	want := results{{"u", "one"}: pass, {"u", "two"}: fail, {"u", "three"}: skipped, {"u", "one (2)"}: pass}
	if !maps.Equal(r, want) {
		t.Errorf("%v", r)
	}
	got := differences(want, results{{"u", "one"}: pass, {"u", "two"}: pass, {"u", "three"}: skipped})
	if len(got) != 2 || got[0].name != "one (2)" || got[0].is != nothing || got[1].name != "two" {
		t.Errorf("%v", got)
	}
}
