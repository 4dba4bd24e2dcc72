package review

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// FuzzOf: whatever attributes of overlayfs's a layer's files have, a comparison ends, and all that
// it names lies below the directory or the layer, without links.
func FuzzOf(f *testing.F) {
	top := f.TempDir()
	for _, dir := range []string{"upper/a/b", "upper/d", "lower/a/b/c", "lower/d/e", "secret/in"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			f.Fatal(err)
		}
	}
	for _, file := range []string{"upper/a/b/w", "upper/a/w", "upper/d/copied", "lower/a/b/w", "lower/a/b/c/deep", "lower/d/e/x", "lower/d/copied", "secret/in/hidden", "secret/hidden"} {
		if err := os.WriteFile(filepath.Join(top, file), nil, 0o644); err != nil {
			f.Fatal(err)
		}
	}
	for _, tree := range []string{"upper", "lower"} {
		if err := os.Symlink("../../secret", filepath.Join(top, tree, "d/out")); err != nil {
			f.Fatal(err)
		}
	}
	open := func(name string) *os.File {
		d, err := os.Open(filepath.Join(top, name))
		if err != nil {
			f.Fatal(err)
		}
		f.Cleanup(func() { d.Close() })
		return d
	}
	upper, lower := open("upper"), open("lower")
	if err := unix.Setxattr(upper.Name(), "trusted.overlay.impure", []byte("y"), 0); err != nil {
		f.Skipf("attributes of the layer's, which only root with CAP_SYS_ADMIN sets: %v", err)
	}
	for _, to := range []string{"/d", "d", "/", "/d/../../secret", "../../secret", "/d/out", "out", "/d/out/in", ".", "a/b", "/a/b/c", "/nowhere", "/a\x00", "\xff", ".git", strings.Repeat("d/../", 200), strings.Repeat("/a", 2000)} {
		for _, opaque := range []string{"", "x", "y"} {
			f.Add([]byte(to), []byte("/d/e"), []byte(opaque), []byte("x"), []byte("\x00\xfb\x1d\x00\x81"+strings.Repeat("\x00", 24)), byte(255))
			f.Add([]byte("/d"), []byte(to), []byte("x"), []byte(opaque), []byte{}, byte(0x55))
		}
	}
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, filepath.Join(top, "secret/hidden"), 0)
	if err != nil {
		f.Fatal(err)
	}
	origin := slices.Concat([]byte{0, 0xfb, byte(21 + handle.Size()), 0, byte(handle.Type())}, make([]byte, 16), handle.Bytes())
	f.Add([]byte("/d"), []byte("/a"), []byte(""), []byte(""), origin, byte(255))
	f.Fuzz(func(t *testing.T, redirectA, redirectB, opaqueA, opaqueB, origin []byte, which byte) {
		for i, s := range []struct {
			at, name string
			value    []byte
		}{
			{"a", "redirect", redirectA},
			{"a/b", "redirect", redirectB},
			{"a", "opaque", opaqueA},
			{"a/b", "opaque", opaqueB},
			{"a/w", "whiteout", opaqueB},
			{"a/b/w", "whiteout", redirectA},
			{"d/copied", "origin", origin},
			{"d", "impure", opaqueA},
		} {
			place, name := filepath.Join(upper.Name(), s.at), "trusted.overlay."+s.name
			if err := unix.Removexattr(place, name); err != nil && err != unix.ENODATA {
				t.Fatal(err)
			}
			if which>>i&1 != 0 && len(s.value) < 1<<10 { // all have room in one block
				if err := unix.Setxattr(place, name, s.value, 0); err != nil && err != unix.ENOSPC {
					t.Fatal(err)
				}
			}
		}
		for _, d := range []*os.File{upper, lower} { // the position of the last listing
			if _, err := d.Seek(0, 0); err != nil {
				t.Fatal(err)
			}
		}
		r, err := Of(t.Context(), upper, lower, Options{Path: lower.Name()})
		if err != nil {
			if !strings.Contains(err.Error(), "the kernel does not follow") {
				t.Error(err)
			}
			return
		}
		var out bytes.Buffer
		if err := Print(&out, r.Changes, 0); err != nil {
			t.Fatal(err)
		}
		names := append(r.Units, slices.Concat(r.Git, r.Skipped)...)
		for from, to := range r.Moved {
			names = append(names, from, to)
		}
		for _, c := range r.Changes {
			names = append(names, c.Path, c.From, c.By, c.Source.Path)
		}
		bases, err := Bases(t.Context(), upper, lower, nil, which&1 != 0)
		if err != nil {
			t.Fatal(err)
		}
		for at, b := range bases {
			names = append(names, at, b.Path)
		}
		for _, name := range names {
			if name != "" && !filepath.IsLocal(name) || strings.Contains(name, "hidden") {
				t.Errorf("%q is named:\n%s", name, out.String())
			}
		}
		if len(r.Changes) > 100 {
			t.Errorf("%d changes:\n%s", len(r.Changes), out.String())
		}
	})
}
