package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// A list holds the differences that are known, with their reasons: the rows of a Markdown file's
// tables whose first cell is a unit, the second a test's name, and the last the reason. "*" in
// either stands for anything.
type list map[test]string

// readList reads a list; a missing file is an empty one.
func readList(path string) (list, error) {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return list{}, nil
	}
	if err != nil {
		return nil, err
	}
	return parseList(string(text))
}

func parseList(text string) (list, error) {
	l, above := list{}, ""
	for n, line := range strings.Split(text, "\n") {
		cells, ok := row(line)
		if !ok || len(cells) != 3 || cells[0] == "file" || strings.Trim(cells[0], "-: ") == "" {
			continue
		}
		t := test{cells[0], cells[1]}
		if _, twice := l[t]; twice {
			return nil, fmt.Errorf("line %d: %s is listed twice", n+1, t)
		}
		if cells[2] == "" {
			return nil, fmt.Errorf("line %d: %s has no reason", n+1, t)
		}
		if rest, as := strings.CutPrefix(cells[2], "as above"); as {
			cells[2] = above + rest
		}
		above = cells[2]
		l[t] = above
	}
	return l, nil
}

// row splits a table's row. "\|" is a bar in a cell.
func row(line string) ([]string, bool) {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "|") || !strings.HasSuffix(line, "|") || len(line) < 2 {
		return nil, false
	}
	const bar = "\x00"
	cells := strings.Split(strings.ReplaceAll(line[1:len(line)-1], `\|`, bar), "|")
	for i := range cells {
		cells[i] = strings.ReplaceAll(strings.TrimSpace(cells[i]), bar, "|")
	}
	return cells, true
}

// matches reports whether a row is about a test.
func matches(row, t test) bool { return like(row.unit, t.unit) && like(row.name, t.name) }

// like reports whether a text matches a pattern.
func like(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	for _, p := range parts[1 : len(parts)-1] {
		_, after, found := strings.Cut(text, p)
		if !found {
			return false
		}
		text = after
	}
	return strings.HasSuffix(text, parts[len(parts)-1])
}

// split separates the differences that are on the list from the others.
func (l list) split(diff []difference) (listed, others []difference) {
	for _, d := range diff {
		if l.has(d.test) {
			listed = append(listed, d)
		} else {
			others = append(others, d)
		}
	}
	return listed, others
}

// has reports whether a row is about a test.
func (l list) has(t test) bool {
	for row := range l {
		if matches(row, t) {
			return true
		}
	}
	return false
}

// judge prints what differs from the list, and reports whether a difference is not on it.
func (l list) judge(diff []difference, base results, draft bool) (failed bool) {
	used := map[test]bool{}
	for _, d := range diff {
		listed := false
		for row := range l {
			if matches(row, d.test) {
				listed, used[row] = true, true
			}
		}
		switch {
		case listed:
		case draft:
			failed = true
			fmt.Printf("| %s | %s |  |\n", d.unit, strings.ReplaceAll(d.name, "|", `\|`))
		default:
			failed = true
			fmt.Printf("DIFFERS in a jail, and is not listed: %s\n", d)
		}
	}
	for _, row := range slices.SortedFunc(maps.Keys(l), byName) {
		run := false
		for t := range base {
			run = run || matches(row, t)
		}
		if run && !used[row] {
			fmt.Printf("listed, and does not differ (any more): %s\n", row)
		}
	}
	fmt.Printf("%d differences in a jail\n", len(diff))
	return failed
}
