package pathname

import "testing"

func TestPathsBelow(t *testing.T) {
	for _, c := range []struct {
		path, dir, rel string
		within         bool
	}{
		{"/a/b", "/a", "b", true},
		{"/a/b/c", "/a", "b/c", true},
		{"/a", "/a", "", true},
		{"/ab", "/a", "", false},
		{"/", "/a", "", false},
		{"/a", "/", "a", true},
		{"/a/b", "/", "a/b", true},
		{"/", "/", "", true},
		{"a/b", "a", "b", true},
		{"a", "a/b", "", false},
		{"", "a", "", false},
		{"/a", "", "a", true},
		{"a", "", "", false},
	} {
		rel, below := Rel(c.path, c.dir)
		if rel != c.rel || below != (c.rel != "") || below != Below(c.path, c.dir) || Within(c.path, c.dir) != c.within {
			t.Errorf("%q in %q: %q, below %t, within %t", c.path, c.dir, rel, below, Within(c.path, c.dir))
		}
	}
}
