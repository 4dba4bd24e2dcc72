package policy

import "testing"

// TestWants: a mount that reaches a directory of workspace.review's, or may later, is a view.
func TestWants(t *testing.T) {
	w := Workspace{Review: []string{"/home/*/src/**", "/srv/x", "/opt/**/ws"}, Wanted: []string{"/w"}}
	for _, c := range []struct {
		at, source        string
		want, named, file bool
	}{
		{"/w/", "/any", true, true, false},
		{"/a", "/home/u/src/p/q", true, false, false},
		{"/a", "/home/u/src", true, false, false},
		{"/a", "/home/u", true, false, false},
		{"/a", "/home/u/src/f", true, false, true},
		{"/a", "/home/f", false, false, true},
		{"/a", "/", true, false, false},
		{"/a", "/home/u/srcs", false, false, false},
		{"/a", "/home/u/v/src/p", false, false, false},
		{"/a", "/srv/x", true, false, false},
		{"/a", "/srv/x/y", true, false, false},
		{"/a", "/srv", true, false, false},
		{"/a", "/srv/xy", false, false, false},
		{"/a", "/srv/x/../x", true, false, false},
		{"/a", "/opt/any", true, false, false},
		{"/a", "/led*/y/z", true, false, false},
		{"/a", "/ledger/y", false, false, false},
		{"/wx", "/any", false, false, false},
	} {
		if want, named, _ := w.Wants(c.at, []string{"/other", c.source}, !c.file, []string{`/led\*/y`}); want != c.want || named != c.named {
			t.Errorf("%+v: %v, %v", c, want, named)
		}
	}
	if want, named, _ := (Workspace{All: true}).Wants("/a", nil, true, nil); !want || named {
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
