package workspace

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// newStore is a store without a view.
func newStore(t *testing.T) Store {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root mounts a layer")
	}
	if err := CheckHost(); err != nil {
		t.Skip(err)
	}
	return Store{Dir: t.TempDir(), Boot: "this"}
}

// diskStore is newStore on a disk, which a temporary directory need not be on.
func diskStore(t *testing.T) Store {
	t.Helper()
	s := newStore(t)
	base, err := os.MkdirTemp("/var/tmp", "agentjail-store-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	s.Dir = filepath.Join(base, "w")
	if err := s.CheckDisk(); err != nil {
		t.Skip(err)
	}
	return s
}

// viewTemplate is the template of a view, and its path.
func viewTemplate(s Store) (path string, err error) {
	f, err := s.template("view-", size, 1000, journaled(size), []string{upperDir, workDir})
	if err != nil {
		return "", err
	}
	f.Close()
	all, err := filepath.Glob(s.Dir + "/.*")
	if len(all) != 1 {
		err = errors.Join(err, fmt.Errorf("in the store: %q", all))
		return "", err
	}
	return all[0], err
}

// usable makes a view, has a jail begin with it, and ends it.
func usable(t *testing.T, s Store) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chown(dir, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	lower, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lower.Close()
	r := &Record{Key: "k", Size: size, Files: 1000}
	if err := s.Make(r, lower); err != nil {
		t.Fatal(err)
	}
	tree := begin(t, s, r, lower)
	write(t, tree, "new")
	tree.Close()
	if err := errors.Join(s.End("k"), s.Discard(r)); err != nil {
		t.Fatal(err)
	}
}

// TestTemplateDamaged: a template that another program has damaged, and one of another release, is
// made anew, and none but it is left.
func TestTemplateDamaged(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"missing":            os.Remove,
		"truncated":          func(path string) error { return os.Truncate(path, size/2) },
		"empty":              func(path string) error { return os.Truncate(path, 0) },
		"zeroed":             func(path string) error { return errors.Join(os.Truncate(path, 0), os.Truncate(path, size)) },
		"larger":             func(path string) error { return os.Truncate(path, 2*size) },
		"of another release": func(path string) error { return os.Rename(path, path[:len(path)-8]+"01234567") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			path, err := viewTemplate(s)
			if err != nil {
				t.Fatal(err)
			}
			if err := damage(path); err != nil {
				t.Fatal(err)
			}
			usable(t, s)
			if again, err := viewTemplate(s); err != nil || again != path {
				t.Errorf("%s, and then %s: %v", path, again, err)
			}
		})
	}
}

// TestTemplateLink: a link in the place of a template is not followed.
func TestTemplateLink(t *testing.T) {
	s := newStore(t)
	path, err := viewTemplate(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(path, path+"-moved"), os.Symlink(path+"-moved", path)); err != nil {
		t.Fatal(err)
	}
	if _, err := viewTemplate(s); !errors.Is(err, unix.ELOOP) {
		t.Errorf("opened with %v", err)
	}
}

// TestTemplateTogether: starts that make the template at one time all have a whole one.
func TestTemplateTogether(t *testing.T) {
	s := newStore(t)
	var wait sync.WaitGroup
	texts, errs := make([][]byte, 8), make([]error, 8)
	for i := range texts {
		wait.Go(func() {
			f, err := s.template("view-", size, 1000, journaled(size), []string{upperDir, workDir})
			if err != nil {
				errs[i] = err
				return
			}
			defer f.Close()
			texts[i] = make([]byte, 4096)
			_, errs[i] = f.ReadAt(texts[i], 0)
		})
	}
	wait.Wait()
	for i, text := range texts {
		if errs[i] != nil || !bytes.Contains(text, []byte{0x53, 0xef}) {
			t.Errorf("%d: %v", i, errs[i])
		}
	}
	usable(t, s)
	if _, err := viewTemplate(s); err != nil {
		t.Error(err)
	}
}

// TestTemplateFails: a template that mkfs.ext4 could not write leaves nothing, and the next start
// makes it.
func TestTemplateFails(t *testing.T) {
	s := newStore(t)
	t.Setenv("PATH", "/nonexistent")
	was := mkfs
	t.Cleanup(func() { mkfs = was })
	mkfs = filepath.Join(t.TempDir(), "mkfs")
	if err := os.WriteFile(mkfs, []byte("#!/bin/sh\necho No space left on device >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := viewTemplate(s)
	if err == nil || !strings.Contains(err.Error(), "mkfs.ext4: exit status 1: No space left on device") {
		t.Errorf("made with %v", err)
	}
	if left, err := os.ReadDir(s.Dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	mkfs = was
	usable(t, s)
}

// TestTemplateFullDisk: on a disk that has room for the layer or the template, not for both, the
// start is refused by name, and no part of a view is left.
func TestTemplateFullDisk(t *testing.T) {
	s := newStore(t)
	if err := unix.Mount("none", s.Dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(s.Dir, unix.MNT_DETACH) })
	lower, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer lower.Close()
	if err := s.Make(&Record{Key: "k", Size: size, Files: 1000}, lower); err == nil || !strings.Contains(err.Error(), "MiB free, and the layer takes 16 MiB (remedy: ") {
		t.Errorf("made with %v", err)
	}
	if left, err := filepath.Glob(s.Dir + "/.new-*"); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
