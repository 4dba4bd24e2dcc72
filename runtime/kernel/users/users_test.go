package users

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestHomes: which paths are, lie in or hold a home, by name and by what links lead to.
func TestHomes(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"srv/real", "data/bob", "var/www", "var/lib/ci", "h/carol"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"bob": "data/bob", "homes": "h"} {
		if err := os.Symlink(target, filepath.Join(top, link)); err != nil {
			t.Fatal(err)
		}
	}
	passwd := strings.ReplaceAll(`root:x:0:0:root:/root:/bin/bash
www-data:x:33:33::TOP/var/www:/usr/sbin/nologin
ci:x:120:120::TOP/var/lib/ci:/bin/bash
alice:x:1000:1000::TOP/srv/real:/usr/sbin/nologin
bob:x:1001:1001::TOP/bob/:/bin/sh
carol:x:1002:1002::TOP/homes/carol:/bin/sh
none:x:1003:1003::/:/bin/sh
relative:x:1004:1004::x:/bin/sh
gone:x:1005:1005::TOP/gone/home:/bin/sh
nobody:x:65534:65534::TOP/var:/usr/sbin/nologin
`, "TOP", top)
	l := New()
	l.passwd = filepath.Join(top, "passwd")
	if err := os.WriteFile(l.passwd, []byte(passwd), 0o644); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]string{
		"srv/real": "srv/real", "srv/real/.ssh": "srv/real", "srv": "srv/real", "srv/realm": "", "data/bob/x": "data/bob", "h/carol": "h/carol",
		"var/www": "", "var/lib": "var/lib/ci", "gone": "gone/home", "elsewhere": "",
	} {
		if got := l.Homes(filepath.Join(top, at)); strings.Join(got, " ") != strings.TrimSuffix(filepath.Join(top, want), map[bool]string{true: top}[want == ""]) {
			t.Errorf("%s: %q, want %q", at, got, want)
		}
	}
	if got := l.Of(1001); len(got) != 1 || got[0].Home != top+"/bob" || got[0].Real != top+"/data/bob" {
		t.Errorf("%+v", got)
	}
}

// TestParentsThatAreLinks: a home of no listed user lies where a directory of homes leads to.
func TestParentsThatAreLinks(t *testing.T) {
	l := New()
	l.loaded, l.real = true, []string{"/srv/homes"}
	for at, want := range map[string]string{"/srv/homes/dave/x": "/srv/homes/dave", "/srv/homes": "/srv/homes", "/srv": "/srv/homes", "/srv/homesx": ""} {
		if got := strings.Join(l.Homes(at), " "); got != want {
			t.Errorf("%s: %q, want %q", at, got, want)
		}
	}
}

// TestLinkedHomes: a link in a directory of homes leads to a home.
func TestLinkedHomes(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"data/eve", "home/bob"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../data/eve", filepath.Join(top, "home/eve")); err != nil {
		t.Fatal(err)
	}
	l := New()
	l.loaded = true
	l.lookAt(filepath.Join(top, "home"))
	if got := l.Homes(top + "/data/eve/.ssh"); len(got) != 1 || got[0] != top+"/data/eve" {
		t.Errorf("%q", got)
	}
}

// TestGetent: a user that passwd(5) lacks is looked up once, and one that it has never.
func TestGetent(t *testing.T) {
	l := New()
	l.passwd = filepath.Join(t.TempDir(), "passwd")
	if err := os.WriteFile(l.passwd, []byte("me:x:1000:1000::/x/me:/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	l.Know(1000)
	if len(l.tried) != 0 {
		t.Error("getent ran for a user of passwd(5)")
	}
	root := l.Of(0) // the host's own passwd(5) has it
	if !l.tried[0] || len(root) != 1 || root[0].Home != "/root" {
		t.Errorf("%+v, tried %v", root, l.tried)
	}
	l.Know(0, 0)
	if n := len(slices.DeleteFunc(l.All(), func(u User) bool { return u.UID != 0 })); n != 1 {
		t.Errorf("%d entries of root", n)
	}
}
