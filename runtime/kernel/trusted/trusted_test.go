package trusted

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestExecutable(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes files of several owners")
	}
	// Not the usual temporary directory, which everybody can write.
	base, err := os.MkdirTemp("/run", "agentjail-test-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	if base, err = filepath.EvalSymlinks(base); err != nil {
		t.Fatal(err)
	}
	if _, err := Executable(base); errors.Is(err, errUntrusted) {
		t.Skipf("no root-owned place for the test: %v", err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	file := func(name string, mode fs.FileMode, uid int) {
		t.Helper()
		p := filepath.Join(base, name)
		must(os.MkdirAll(filepath.Dir(p), 0o755))
		must(os.WriteFile(p, []byte("#!/bin/sh\n"), 0o755))
		must(os.Chown(p, uid, 0))
		must(os.Chmod(p, mode))
	}
	link := func(target, name string) {
		t.Helper()
		p := filepath.Join(base, name)
		must(os.MkdirAll(filepath.Dir(p), 0o755))
		must(os.Symlink(target, p))
	}
	file("good", 0o755, 0)
	file("data", 0o644, 0)
	file("group", 0o775, 0)
	file("all", 0o757, 0)
	file("foreign", 0o755, 1000)
	file("sub/good", 0o755, 0)
	file("open/good", 0o755, 0)
	must(os.Chmod(filepath.Join(base, "open"), 0o777|fs.ModeSticky))
	file("theirs/good", 0o755, 0)
	must(os.Chown(filepath.Join(base, "theirs"), 1000, 0))
	link("sub/good", "relative")
	link(filepath.Join(base, "sub/good"), "absolute")
	link("../good", "sub/up")
	link("sub", "directory")
	link("open/good", "into-open")
	link("loop", "loop")
	link("missing", "dangling")
	link("good", "foreign-link")
	must(os.Lchown(filepath.Join(base, "foreign-link"), 1000, 0))

	for _, tt := range []struct {
		path      string
		want      string // resolved, relative to base; "" is a refusal
		untrusted bool
	}{
		{"good", "good", false},
		{"./sub//./good", "sub/good", false},
		{"sub/../good", "good", false},
		{"relative", "sub/good", false},
		{"absolute", "sub/good", false},
		{"sub/up", "good", false},
		{"directory/good", "sub/good", false},
		{"directory/up", "good", false},
		{"data", "", false},
		{"sub", "", false},
		{"missing", "", false},
		{"dangling", "", false},
		{"loop", "", false},
		{"good/more", "", false},
		{"group", "", true},
		{"all", "", true},
		{"foreign", "", true},
		{"open/good", "", true},
		{"theirs/good", "", true},
		{"into-open", "", true},
		{"foreign-link", "", true},
	} {
		got, err := Executable(base + "/" + tt.path)
		want := ""
		if tt.want != "" {
			want = filepath.Join(base, tt.want)
		}
		if got != want || (err == nil) != (tt.want != "") || errors.Is(err, errUntrusted) != tt.untrusted {
			t.Errorf("%s: %q, %v", tt.path, got, err)
		}
	}
	for _, path := range []string{"", "good", "../good", "/\x00"} {
		if got, err := Executable(path); err == nil {
			t.Errorf("%q: %q", path, got)
		}
	}
}

// TestRemedyOfOwner: no remedy changes the owner of a directory, such as a person's home; a remedy
// that changes a file's owner states what that means.
func TestRemedyOfOwner(t *testing.T) {
	for _, c := range []struct {
		mode uint32
		want bool
	}{{unix.S_IFDIR | 0o755, false}, {unix.S_IFDIR | 0o777, false}, {unix.S_IFREG | 0o644, true}} {
		err := Owner("/home/alice", &unix.Stat_t{Uid: 2000, Mode: c.mode})
		if err == nil || strings.Contains(err.Error(), "chown root") != c.want || !strings.Contains(err.Error(), "/etc/agentjail") {
			t.Errorf("%o: %v", c.mode, err)
		}
	}
}
