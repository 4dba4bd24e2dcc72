package workloads

import (
	"fmt"
	"slices"
	"strings"
)

// Compare compares two outputs line by line. It returns the first difference that the list does not name, "" if there is none, and those of the
// list that were not met.
func Compare(want, got string, differs []Difference) (problem string, unmet []Difference) {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	met := map[Difference]bool{}
	for len(a) > 0 || len(b) > 0 {
		if len(a) > 0 && len(b) > 0 && a[0] == b[0] {
			a, b = a[1:], b[1:]
			continue
		}
		i := slices.IndexFunc(differs, func(d Difference) bool {
			return (d.Runc == "" || len(a) > 0 && a[0] == d.Runc) && (d.Jail == "" || len(b) > 0 && b[0] == d.Jail)
		})
		if i < 0 {
			return fmt.Sprintf("differs from here:\nwant: %s\ngot:  %s\nall that is wanted:\n%s\nall that came:\n%s", first(a), first(b), want, got), nil
		}
		if differs[i].Runc != "" {
			a = a[1:]
		}
		if differs[i].Jail != "" {
			b = b[1:]
		}
		met[differs[i]] = true
	}
	for _, d := range differs {
		if !met[d] {
			unmet = append(unmet, d)
		}
	}
	return "", unmet
}

func first(lines []string) string {
	if len(lines) == 0 {
		return "(nothing more)"
	}
	return lines[0]
}
