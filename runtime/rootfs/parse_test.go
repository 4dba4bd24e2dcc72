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
		dirs, root, parent, names string
	}{
		{"/e/o/ID/diff /e/o/l/A /e/o/l/B", "", "/e/o", "ID/diff l/A l/B"},
		{"/e/s/2/fs /e/s/1/fs", "", "/e/s", "2/fs 1/fs"},
		{"/e/one", "", "/e", "one"},
		{"/e/up /e/up/lower", "", "/e", "up up/lower"},
		{"/e/up/lower /e/up", "", "/e", "up/lower up"},
		{"/a/b /c/d", "", "/", "a/b c/d"},
		{"/a/bc /a/b", "", "/a", "bc b"},
		{"DIR/overlay/l/../ID/diff DIR/overlay/l/A/", "", "DIR/overlay", "ID/diff l/A"},
		{"/nonexistent/../b/x /b/y", "", "", ""},
		{"DIR/overlay/ID/diff l/UP/../diff1 l/A", "", "DIR/overlay", "ID/diff ID/diff1 l/A"},
		{"/x", "", "/", "x"},
		{"DIR/overlay/ID/diff l/A l/B", "", "DIR/overlay", "ID/diff l/A l/B"},
		{"DIR/snapshots/12/fs 1/fs", "", "DIR/snapshots", "12/fs 1/fs"},
		{"DIR/snapshots/12/fs missing/fs", "DIR/overlay/ID/merged", "", ""},
		{"l/A l/B", "", "", ""},
		{"DIR/overlay/ID/diff ../../../etc", "", "", ""},
		{"ID/diff l/A l/B", "DIR/overlay/ID/merged", "DIR/overlay", "ID/diff l/A l/B"},
		{"ID/diff l/UP/../diff1 l/A", "DIR/overlay/ID/merged", "DIR/overlay", "ID/diff ID/diff1 l/A"},
		{"ID/diff l/A missing", "DIR/overlay/ID/merged", "", ""},
		{"ID/diff ../overlay/l/A", "DIR/overlay/ID/merged", "", ""},
		{"ID/diff 1/fs", "DIR/overlay/ID/merged", "", ""}, // not of one directory
		{"7 8 9", "DIR/overlay/ID/merged", "", ""},
	} {
		l, err := layers{}, error(nil)
		dirs, ok := absolute(strings.Fields(strings.ReplaceAll(c.dirs, "DIR", dir)), strings.ReplaceAll(c.root, "DIR", dir))
		if ok {
			l, err = commonParent(dirs)
		}
		if (err != nil || !ok) != (c.parent == "") {
			t.Errorf("%s: %t, %v", c.dirs, ok, err)
			continue
		}
		if parent := strings.ReplaceAll(c.parent, "DIR", dir); l.parent != parent || strings.Join(l.names, " ") != c.names {
			t.Errorf("%s: %q %q", c.dirs, l.parent, l.names)
		}
	}
}
