package main

import (
	"flag"
	"io"
	"strings"
	"testing"

	"agentjail.dev/tests/docs"
)

// TestPages: the options that pages have for `make bench` can be followed.
func TestPages(t *testing.T) {
	follow := func(options string) error {
		set := flag.NewFlagSet("bench", flag.ContinueOnError)
		set.SetOutput(io.Discard)
		_, err := parse(set, strings.Fields(options))
		return err
	}
	n := 0
	for _, page := range docs.Pages(t) {
		for _, c := range docs.Commands(t, page) {
			if options, is := strings.CutPrefix(c.Text, "make bench BENCH='"); is {
				n++
				if err := follow(strings.TrimSuffix(options, "'")); err != nil {
					t.Errorf("%s: `%s`: %v", page, c.Text, err)
				}
			}
		}
	}
	if n < 3 {
		t.Errorf("only %d commands were found", n)
	}
	for _, wrong := range []string{"-only cycel", "-rouds 3"} {
		if follow(wrong) == nil {
			t.Errorf("%s is followed", wrong)
		}
	}
}
