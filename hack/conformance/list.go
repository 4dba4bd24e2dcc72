package main

import (
	"fmt"
	"os"
	"strings"
)

// A list holds the differences that are known, with their reasons: the rows of a Markdown file's tables whose first cell
// is a unit, the second a test's name, and the last the reason. "*" as a name is the whole unit.
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
	l := list{}
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
		l[t] = cells[2]
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

// has says whether a test is listed, by itself or with its unit.
func (l list) has(t test) bool {
	_, one := l[t]
	_, all := l[test{t.unit, "*"}]
	return one || all
}

// judge prints what is not as the list says, and reports whether a difference is not on it.
func (l list) judge(diff []difference, base results, draft bool) (failed bool) {
	differs := map[test]bool{}
	units := map[string]bool{}
	for _, d := range diff {
		differs[d.test], units[d.unit] = true, true
		if l.has(d.test) {
			continue
		}
		failed = true
		if draft {
			fmt.Printf("| %s | %s |  |\n", d.unit, strings.ReplaceAll(d.name, "|", `\|`))
			continue
		}
		fmt.Printf("DIFFERS in a jail, and is not listed: %s\n", d)
	}
	for t := range l {
		_, run := base[t]
		if t.name == "*" {
			for b := range base {
				run = run || b.unit == t.unit
			}
			differs[t] = units[t.unit]
		}
		if run && !differs[t] {
			fmt.Printf("listed, and does not differ (any more): %s\n", t)
		}
	}
	fmt.Printf("%d differences in a jail\n", len(diff))
	return failed
}
