package lint

import (
	"go/scanner"
	"go/token"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"agentjail.dev/tests/env"
)

const (
	// maxLine bounds a code line of the product, in columns; a tab is one.
	maxLine = 130
	// longText is a string that does not count: to break a message would hide it from grep.
	longText = 60
)

// longLines are files whose table has a row a line.
var longLines = []string{"runtime/observe/journal/kinds.go"}

// TestLines: code lines of the product have at most maxLine columns, apart from long texts.
func TestLines(t *testing.T) {
	long := strings.Repeat("x", 140)
	for text, want := range map[string]int{
		"package a\n\nvar " + long + " = 1\n":       1,
		"package a\n\nvar a = \"" + long + "\"\n":   0,
		"package a\n\nvar a = `\n" + long + "\n`\n": 0,
		"package a\n\nvar a = 1 // " + long + "\n":  1,
	} {
		if got := tooLong([]byte(text)); len(got) != want {
			t.Errorf("%q: lines %v", text, got)
		}
	}
	for _, f := range goFiles(t, []string{"runtime", "shim", "seccomp", "apparmor", "cmd"}, false, 300) {
		text := env.Read(t, f.path)
		if found := tooLong(text); len(found) > 0 && !slices.Contains(longLines, f.rel) {
			t.Errorf("%s: lines %v have more than %d columns", f.rel, found, maxLine)
		}
	}
}

// tooLong returns the numbers of the lines that are too long. Generated files have none.
func tooLong(text []byte) (found []int) {
	head, _, _ := strings.Cut(string(text), "\n")
	if strings.HasSuffix(head, "DO NOT EDIT.") {
		return nil
	}
	texts := map[int]int{} // columns of long texts by their lines
	file := token.NewFileSet().AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok != token.STRING {
			continue
		}
		line := file.Line(pos)
		for i, part := range strings.Split(lit, "\n") {
			if n := utf8.RuneCountInString(part); n >= longText {
				texts[line+i] += n
			}
		}
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		if utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))-texts[n] > maxLine {
			found = append(found, n)
		}
	}
	return found
}
