package review

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// randomText has short lines of few kinds, some of which look like a patch's own.
func randomText(r *rand.Rand) string {
	kinds := []string{"\n", "a\n", "b\n", "-- c\n", "++ d\n", "@@ -1 +1 @@\n", "\r\n", "\xff\xfe\n", " \n"}
	var b strings.Builder
	for range r.IntN(60) {
		b.WriteString(kinds[r.IntN(len(kinds))])
	}
	if r.IntN(3) == 0 {
		b.WriteString("no end")
	}
	return b.String()
}

// change returns a text with some lines removed and added.
func change(r *rand.Rand, was string) string {
	lines := strings.SplitAfter(was, "\n")
	var out []string
	for _, line := range lines {
		switch r.IntN(12) {
		case 0:
		case 1:
			out = append(out, "new\n", line)
		default:
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

// TestPatchOfAnyText: git makes the new text of the old one by the difference, whether lines were
// compared or all was replaced.
func TestPatchOfAnyText(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	r := rand.New(rand.NewPCG(4, 4))
	for _, compared := range []int{0, maxCompared} {
		dir := t.TempDir()
		want := map[string]string{}
		var patch strings.Builder
		for i := range 400 {
			was := randomText(r)
			is := change(r, was)
			if i%20 == 0 {
				is = randomText(r)
			}
			name := fmt.Sprintf("f%03d", i)
			d := &Differ{compared: compared}
			edits := d.edits(was, is)
			body := unified([2]string{"a/" + name, "b/" + name}, was, edits)
			checkRanges(t, body, was, is)
			if (body == "") != (was == is) {
				t.Errorf("%q to %q: %q", was, is, body)
			}
			if body != "" {
				fmt.Fprintf(&patch, "diff --git a/%s b/%s\n%s", name, name, body)
			}
			want[name] = is
			if err := os.WriteFile(dir+"/"+name, []byte(was), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command("git", "apply", "--whitespace=nowarn")
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(patch.String())
		cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES=/", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for name, text := range want {
			got, err := os.ReadFile(dir + "/" + name)
			if errors.Is(err, os.ErrNotExist) && text == "" {
				continue
			}
			if string(got) != text {
				t.Errorf("%s is %q, not %q: %v", name, got, text, err)
			}
		}
	}
}

// checkRanges compares the lines of each hunk with those that its head names in both texts.
func checkRanges(t *testing.T, body, was, is string) {
	t.Helper()
	for hunk := range strings.SplitSeq("\n"+body, "\n@@ -") {
		head, rest, ok := strings.Cut(hunk, " @@\n")
		if !ok {
			continue // what is before the first one
		}
		var got [2]string
		for line := range strings.Lines(rest + "\n") {
			switch {
			case line[0] == ' ' || line[0] == '-':
				got[0] += line[1:]
				if line[0] == '-' {
					continue
				}
				fallthrough
			case line[0] == '+':
				got[1] += line[1:]
			}
		}
		from, to, _ := strings.Cut(head, " +")
		for i, text := range []string{was, is} {
			first, n := 0, 1
			if k, _ := fmt.Sscanf([]string{from, to}[i], "%d,%d", &first, &n); k == 0 {
				t.Fatalf("%q", head)
			}
			all := strings.SplitAfter(text, "\n")
			at := max(first-1, 0)
			want := strings.Join(all[at:at+n], "")
			if strings.TrimSuffix(got[i], "\n") != strings.TrimSuffix(want, "\n") {
				t.Errorf("%q: %q, not %q", head, got[i], want)
			}
		}
	}
}

// TestWorkOfLines: however many lines a view has, lines are compared up to a bound, and the rest is
// written without work on each line.
func TestWorkOfLines(t *testing.T) {
	short := strings.Repeat("\n", maxText)
	other := strings.Repeat("x\n", maxText/2)
	d := new(Differ)
	for range 21 {
		for _, pair := range [][2]string{{"", short}, {short, ""}, {short, other}, {other, short}, {short[:maxText/8] + "y\n" + short[:maxText/8], short[:maxText/4]}} {
			body := unified([2]string{"a", "b"}, pair[0], d.edits(pair[0], pair[1]))
			if len(body) < 10 {
				t.Errorf("%q", body)
			}
		}
	}
	if d.compared > 1<<20 {
		t.Errorf("%d lines compared", d.compared)
	}
	if n := testing.AllocsPerRun(3, func() { unified([2]string{"a", "b"}, "", d.edits("", short)) }); n > 100 {
		t.Errorf("%v allocations for a file", n)
	}
}
