package main

import "testing"

func TestSomeOf(t *testing.T) {
	for _, c := range []struct {
		paths []string
		want  string
	}{
		{[]string{".git"}, ".git"},
		{[]string{".git", "deep/\x1b.GIT"}, `.git, deep/\x1b.GIT`},
		{[]string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"}, "1, 2, 3, 4, 5, 6, 7, 8 and 2 more"},
	} {
		if got := someOf(c.paths); got != c.want {
			t.Errorf("%q: got %q, want %q", c.paths, got, c.want)
		}
	}
}
