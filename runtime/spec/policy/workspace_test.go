package policy

import "testing"

func TestWants(t *testing.T) {
	w := Workspace{Review: []string{"/home/*/src/**", "/srv/x"}, Wanted: []string{"/w"}}
	for _, c := range []struct {
		at, source  string
		want, named bool
	}{
		{"/w/", "/any", true, true},
		{"/a", "/home/u/src/p/q", true, false},
		{"/a", "/home/u/src", true, false},
		{"/a", "/home/u/srcs", false, false},
		{"/a", "/home/u/v/src/p", false, false},
		{"/a", "/srv/x", true, false},
		{"/a", "/srv/x/y", false, false},
		{"/a", "/srv/x/../x", true, false},
		{"/wx", "/any", false, false},
	} {
		if want, named := w.Wants(c.at, c.source); want != c.want || named != c.named {
			t.Errorf("%+v: %v, %v", c, want, named)
		}
	}
	if want, named := (Workspace{All: true}).Wants("/a", "/b"); !want || named {
		t.Errorf("all: %v, %v", want, named)
	}
	for _, bad := range []string{"home/*", "/a/../b", "/a/", "/[", ""} {
		if (Workspace{Review: []string{bad}}).checkReview() == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestLayer: a layer has no more files than ext4 can have in it, and a size that ext4 can have.
func TestLayer(t *testing.T) {
	for _, c := range []struct {
		size Size
		want int64
	}{{2 << 30, 1 << 18}, {64 << 20, 16384}, {16 << 20, 4096}} {
		if got := (Workspace{Size: c.size, Files: 1 << 18}).Inodes(); got != c.want {
			t.Errorf("%s: %d, and not %d", c.size, got, c.want)
		}
	}
	for _, size := range []Size{0, 16<<20 - 1, 16 << 40} {
		if checkLayer("k", size) == nil {
			t.Errorf("%s is taken", size)
		}
	}
	if (Workspace{KeepSize: -1}).checkKeepSize() == nil {
		t.Error("a negative size is taken")
	}
}
