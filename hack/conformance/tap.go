package main

import (
	"bufio"
	"io"
	"os"
	"regexp"
	"strings"
)

var (
	tapLine  = regexp.MustCompile(`^(ok|not ok)\b\s*\d*\s*(?:- )?(.*)$`)
	tapSkip  = regexp.MustCompile(`(?i)\s*# skip\b.*$`)
	tapBegin = "\r\n"
)

// maxLine bounds a line of a suite's output, in bytes.
const maxLine = 4 << 20

// readTAP adds the results of a unit in the Test Anything Protocol. tidy takes out of a test's name
// what is different each time; it may be nil.
func readTAP(in io.Reader, unit string, tidy func(string) string, into results) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		m := tapLine.FindStringSubmatch(strings.Trim(lines.Text(), tapBegin))
		if m == nil {
			continue
		}
		v, name := verdict(m[1]), m[2]
		if tapSkip.MatchString(name) {
			v, name = skipped, tapSkip.ReplaceAllString(name, "")
		}
		if tidy != nil {
			name = tidy(name)
		}
		if name = strings.TrimSpace(name); name != "" { // one without a name cannot be compared
			into.add(unit, name, v)
		}
	}
	return lines.Err()
}

// readTAPFile is readTAP of a file.
func readTAPFile(path, unit string, tidy func(string) string) (results, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := results{}
	return r, readTAP(f, unit, tidy, r)
}
