package install

import (
	"fmt"
	"strings"
)

// unifiedDiff compares two small texts line by line, in the form of `diff -u` (and of patch(1)),
// with three lines of context.
func unifiedDiff(fromName, toName string, from, to []byte) string {
	const context = 3
	a, b := lines(from), lines(to)
	ops := edits(a, b)
	var out strings.Builder
	for start := 0; start < len(ops); {
		if ops[start].kind == ' ' {
			start++
			continue
		}
		// A hunk reaches as long as changes are near each other.
		first, end, quiet := max(0, start-context), start, 0
		for i := start; i < len(ops) && quiet <= 2*context; i++ {
			if quiet++; ops[i].kind != ' ' {
				quiet, end = 0, i+1
			}
		}
		last := min(len(ops), end+context)
		var olds, news int
		for _, op := range ops[first:last] {
			if op.kind != '+' {
				olds++
			}
			if op.kind != '-' {
				news++
			}
		}
		if out.Len() == 0 {
			fmt.Fprintf(&out, "--- %s\n+++ %s\n", fromName, toName)
		}
		fmt.Fprintf(&out, "@@ -%s +%s @@\n", hunkRange(ops[first].a, olds), hunkRange(ops[first].b, news))
		for _, op := range ops[first:last] {
			out.WriteByte(op.kind)
			out.WriteString(op.line)
			if !strings.HasSuffix(op.line, "\n") {
				out.WriteString("\n\\ No newline at end of file\n")
			}
		}
		start = last
	}
	return out.String()
}

// hunkRange is a hunk's position in one of the files; an empty hunk is at the line before it.
func hunkRange(start, count int) string {
	switch count {
	case 0:
		return fmt.Sprintf("%d,0", start)
	case 1:
		return fmt.Sprint(start + 1)
	}
	return fmt.Sprintf("%d,%d", start+1, count)
}

// lines splits a text into lines with their ends.
func lines(text []byte) []string {
	all := strings.SplitAfter(string(text), "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	return all
}

// edit is one line of the comparison: kept, removed or added, and how many lines of either text
// come before it.
type edit struct {
	kind byte // ' ', '-', '+'
	line string
	a, b int
}

// edits finds a shortest script by the longest common subsequence. What the texts have in common at
// both ends is cut off first; should the rest still be large, it counts as changed altogether.
func edits(a, b []string) []edit {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var out []edit
	i, j := 0, 0
	add := func(kind byte, line string) {
		out = append(out, edit{kind, line, i, j})
		if kind != '+' {
			i++
		}
		if kind != '-' {
			j++
		}
	}
	for range head {
		add(' ', a[i])
	}
	endA, endB := len(a)-tail, len(b)-tail
	common := commonSuffixes(a[head:endA], b[head:endB])
	for i < endA || j < endB {
		switch {
		case i < endA && j < endB && a[i] == b[j]:
			add(' ', a[i])
		case i < endA && (j == endB || common == nil || common[i+1-head][j-head] >= common[i-head][j+1-head]):
			add('-', a[i])
		default:
			add('+', b[j])
		}
	}
	for range tail {
		add(' ', a[i])
	}
	return out
}

// commonSuffixes is the table of the lengths of the longest common subsequences of all pairs of
// suffixes, nil if it would be large.
func commonSuffixes(a, b []string) [][]int {
	const most = 4 << 20
	if (len(a)+1)*(len(b)+1) > most {
		return nil
	}
	table := make([][]int, len(a)+1)
	for i := range table {
		table[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				table[i][j] = table[i+1][j+1] + 1
			} else {
				table[i][j] = max(table[i+1][j], table[i][j+1])
			}
		}
	}
	return table
}
