package openat

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOpen: each bound refuses what it is for, and nothing else.
func TestOpen(t *testing.T) {
	top := t.TempDir()
	tree := filepath.Join(top, "tree")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(tree, "dir"), 0o755))
	must(os.WriteFile(filepath.Join(tree, "dir/file"), []byte("text"), 0o644))
	must(os.WriteFile(filepath.Join(top, "outside"), nil, 0o644))
	must(os.Symlink("dir/file", filepath.Join(tree, "link")))
	must(os.Symlink("/dir/file", filepath.Join(tree, "absolute")))
	must(os.Symlink("/proc/self/fd/0", filepath.Join(tree, "magic")))
	must(unix.Mkfifo(filepath.Join(tree, "fifo"), 0o600))
	dir, err := unix.Open(tree, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(err)
	defer unix.Close(dir)
	for _, c := range []struct {
		path string
		how  How
		want error
	}{
		{"dir/file", Beneath, nil},
		{"link", Beneath, unix.ELOOP},
		{"../outside", Beneath, unix.EXDEV},
		{"../outside", NoLinks, nil},
		{"link", NoLinks, unix.ELOOP},
		{"link", Real, nil},
		{"magic", Real, unix.ELOOP},
		{"absolute", InRoot, nil},
		{"absolute", InRootNoLinks, unix.ELOOP},
		{"../../dir/file", InRootNoLinks, nil},
		{"magic", InRoot, unix.ENOENT},
	} {
		fd, err := Open(dir, c.path, c.how, unix.O_PATH)
		if err == nil {
			unix.Close(fd)
		}
		if !errors.Is(err, c.want) { //nolint:errorlint // an errno
			t.Errorf("%s within %#x: %v, not %v", c.path, c.how, err, c.want)
		}
	}

	proc, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(err)
	defer unix.Close(proc)
	if _, err := Open(proc, "proc/self", OneMount, unix.O_PATH|unix.O_NOFOLLOW); !errors.Is(err, unix.EXDEV) { //nolint:errorlint // an errno
		t.Errorf("into another mount: %v", err)
	}

	f, err := Regular(dir, "absolute", InRoot)
	must(err)
	defer f.Close()
	if name, err := Name(int(f.Fd())); err != nil || name != filepath.Join(tree, "dir/file") {
		t.Errorf("the file is %q, %v", name, err)
	}
	if _, err := Regular(dir, "fifo", InRoot); !errors.Is(err, ErrIrregular) {
		t.Errorf("a pipe: %v", err)
	}
	if got := Resolve(filepath.Join(tree, "link/none"), Real); got != filepath.Join(tree, "dir/file/none") {
		t.Errorf("resolved as %s", got)
	}
}
