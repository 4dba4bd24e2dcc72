package atomicfile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWriteKinds: Write replaces a regular file and a link, nothing else, and leaves nothing when it fails. WriteInto writes
// into a device or a pipe, and is Write for others.
func TestWriteKinds(t *testing.T) {
	for _, c := range []struct {
		kind  uint32
		write bool // Write replaces it
		into  bool // WriteInto works
		stays bool // and leaves what was there
	}{
		{unix.S_IFREG, true, true, false},
		{unix.S_IFLNK, true, true, false},
		{unix.S_IFIFO, false, true, true},
		{unix.S_IFCHR, false, true, true},
		{unix.S_IFSOCK, false, false, true},
		{unix.S_IFDIR, false, false, true},
	} {
		dir := t.TempDir()
		at, victim := filepath.Join(dir, "at"), filepath.Join(dir, "victim")
		if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		var err error
		switch c.kind {
		case unix.S_IFLNK:
			err = os.Symlink(victim, at)
		case unix.S_IFDIR:
			err = os.Mkdir(at, 0o700)
		case unix.S_IFCHR:
			if err = unix.Mknod(at, c.kind|0o600, int(unix.Mkdev(1, 3))); err != nil {
				t.Log("a device is not tried: only root makes one")
				continue
			}
		default:
			err = unix.Mknod(at, c.kind|0o600, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		if c.kind == unix.S_IFIFO {
			if err := WriteInto(at, []byte("new"), 0o600); !errors.Is(err, unix.ENXIO) {
				t.Errorf("a pipe without a reader: %v", err)
			}
			reader, err := unix.Open(at, unix.O_RDONLY|unix.O_NONBLOCK, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(reader)
		}
		kind := func() uint32 {
			var st unix.Stat_t
			if err := unix.Lstat(at, &st); err != nil {
				t.Fatal(err)
			}
			return st.Mode & unix.S_IFMT
		}
		if err := WriteInto(at, []byte("new"), 0o600); (err == nil) != c.into || (kind() == c.kind) != (c.stays || c.kind == unix.S_IFREG) {
			t.Errorf("WriteInto of %o: %v, it is %o", c.kind, err, kind())
		}
		if c.kind != unix.S_IFLNK { // it is a file by now
			if err := Write(at, []byte("new"), 0o600); (err == nil) != c.write || kind() != c.kind {
				t.Errorf("Write of %o: %v, it is %o", c.kind, err, kind())
			}
		}
		if text, _ := os.ReadFile(victim); string(text) != "precious" {
			t.Errorf("%o: the link's target holds %q", c.kind, text)
		}
		if list, _ := os.ReadDir(dir); len(list) != 2 {
			t.Errorf("%o: it left %v", c.kind, list)
		}
	}
}

// TestTemporaryName: no name that another could have made before is written to.
func TestTemporaryName(t *testing.T) {
	dir := t.TempDir()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err == nil {
		defer unix.Close(fd)
		_, err = unix.InotifyAddWatch(fd, dir, unix.IN_CREATE)
	}
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for range 2 {
		if err := Write(filepath.Join(dir, "at"), []byte("new"), 0o600); err != nil {
			t.Fatal(err)
		}
		var buf [4096]byte
		n, err := unix.Read(fd, buf[:])
		if err != nil {
			t.Fatal(err)
		}
		name := string(bytes.TrimRight(buf[unix.SizeofInotifyEvent:n], "\x00"))
		if !regexp.MustCompile(`^at\.[0-9a-f]{32}\.tmp$`).MatchString(name) || seen[name] {
			t.Errorf("the temporary file is %q", name)
		}
		seen[name] = true
	}
}

// TestHead: the first bytes are kept over several writes, none of which fails.
func TestHead(t *testing.T) {
	h := Head{Max: 5}
	for _, text := range []string{"abc", "def", "ghi"} {
		if n, err := h.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
	if string(h.Text) != "abcde" {
		t.Errorf("kept %q", h.Text)
	}
}
