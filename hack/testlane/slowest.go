package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// slowestTests is how many of the slowest tests the end of a run lists.
const slowestTests = 20

// A timed test is one whole test of a lane, and how long it took.
type timed struct {
	lane, name string
	seconds    float64
}

// verdictLine is go test's line on a whole test: it is not indented, as those of subtests are.
var verdictLine = regexp.MustCompile(`^--- (?:PASS|FAIL): (\S+) \((\d+\.\d+)s\)`)

// slowest returns the tests of all logs in dir that took longest, the slowest first.
func slowest(dir string, most int) ([]timed, error) {
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return nil, err
	}
	var all []timed
	for _, log := range logs {
		f, err := os.Open(log)
		if err != nil {
			return nil, err
		}
		lane := strings.TrimSuffix(filepath.Base(log), ".log")
		lines := bufio.NewReader(f)
		for {
			line, err := lines.ReadString('\n')
			if m := verdictLine.FindStringSubmatch(line); m != nil {
				if s, err := strconv.ParseFloat(m[2], 64); err == nil {
					all = append(all, timed{lane, m[1], s})
				}
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				f.Close()
				return nil, fmt.Errorf("reading %s: %w", log, err)
			}
		}
		f.Close()
	}
	slices.SortStableFunc(all, func(a, b timed) int { return cmp.Compare(b.seconds, a.seconds) })
	return all[:min(most, len(all))], nil
}

// listSlowest prints them.
func listSlowest(w io.Writer, all []timed) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(w, "the slowest tests:")
	for _, t := range all {
		fmt.Fprintf(w, "  %6.1f s  %s: %s\n", t.seconds, t.lane, t.name)
	}
}
