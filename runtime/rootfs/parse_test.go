package rootfs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOverlayDirs reads mount options as mountinfo shows them, from engines and
// kernels that write them in their own ways.
func TestOverlayDirs(t *testing.T) {
	for _, c := range []struct{ opts, want string }{
		{"rw,lowerdir=/l/A:/l/B,upperdir=/u,workdir=/w", "/u /l/A /l/B"},
		{"rw,lowerdir=/l/A,upperdir=/u,workdir=/w,index=off,xino=off", "/u /l/A"},
		{"ro,lowerdir=/l/A:/l/B", "/l/A /l/B"},
		{"rw,lowerdir=l/A:l/B,upperdir=ID/diff,workdir=ID/work", "ID/diff l/A l/B"},
		{"rw,lowerdir+=/l/A,lowerdir+=/l/B,upperdir=/u,workdir=/w", "/u /l/A /l/B"},
		{`rw,lowerdir=/a\:b:/c,upperdir=/u`, "/u /a:b /c"},
		{`rw,lowerdir=/a\\:/c,upperdir=/u`, `/u /a\ /c`},
		{`rw,lowerdir=/a\,b:/c,upperdir=/u\,v`, "/u,v /a,b /c"},
		{`rw,upperdir=/u,lowerdir=/a\\\:b`, `/u /a\:b`},
		{"rw,lowerdir=/a::/data,upperdir=/u", ""},
		{"rw,lowerdir+=/a,datadir+=/data", ""},
		{"rw,relatime", ""},
		{"", ""},
		{"lowerdir=", ""},
		{`lowerdir=/a\`, `/a\`},
		{"rw,upperdirs=/x,lowerdirx=/y,lowerdir=/a", "/a"},
	} {
		if got := strings.Join(overlayDirs(c.opts), " "); got != c.want {
			t.Errorf("%s: %q, not %q", c.opts, got, c.want)
		}
	}
}

func TestCommonParent(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"overlay/l/A", "overlay/l/B", "overlay/ID/diff", "snapshots/1/fs", "snapshots/12/fs"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("../ID/diff", filepath.Join(dir, "overlay/l/UP")), os.Mkdir(filepath.Join(dir, "overlay/ID/diff1"), 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dirs, parent, names string
		bad                 bool
	}{
		{"/e/o/ID/diff /e/o/l/A /e/o/l/B", "/e/o", "ID/diff l/A l/B", false},
		{"/e/s/2/fs /e/s/1/fs", "/e/s", "2/fs 1/fs", false},
		{"/e/one", "/e", "one", false},
		{"/e/up /e/up/lower", "/e", "up up/lower", false},
		{"/e/up/lower /e/up", "/e", "up/lower up", false},
		{"/a/b /c/d", "/", "a/b c/d", false},
		{"/a/bc /a/b", "/a", "bc b", false},
		{"DIR/overlay/l/../ID/diff DIR/overlay/l/A/", "DIR/overlay", "ID/diff l/A", false},
		{"/nonexistent/../b/x /b/y", "", "", true},
		{"DIR/overlay/ID/diff l/UP/../diff1 l/A", "DIR/overlay", "ID/diff ID/diff1 l/A", false},
		{"/x", "/", "x", false},
		{"DIR/overlay/ID/diff l/A l/B", "DIR/overlay", "ID/diff l/A l/B", false},
		{"DIR/snapshots/12/fs 1/fs", "DIR/snapshots", "12/fs 1/fs", false},
		{"DIR/snapshots/12/fs missing/fs", "", "", true},
		{"l/A l/B", "", "", true},
		{"DIR/overlay/ID/diff ../../../etc", "", "", true},
	} {
		l, err := commonParent(strings.Fields(strings.ReplaceAll(c.dirs, "DIR", dir)))
		if (err != nil) != c.bad {
			t.Errorf("%s: %v", c.dirs, err)
			continue
		}
		if parent := strings.ReplaceAll(c.parent, "DIR", dir); l.parent != parent || strings.Join(l.names, " ") != c.names {
			t.Errorf("%s: %q %q", c.dirs, l.parent, l.names)
		}
	}
}
