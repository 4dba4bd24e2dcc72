package enginerecord

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// database is one of SQLite's with Podman's table: 300 containers, one of which was removed, in pages of 512 bytes.
func database(t testing.TB) []byte {
	t.Helper()
	f, err := os.Open("testdata/db.sql.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func idOf(n int) string { return fmt.Sprintf("%064x", n*7919) }

// TestPodmanLabels: a container's labels are found in either database, in any row, and a database that does not have the
// container, cannot be read or can be written by others is an error. Another engine's conmon has no labels.
func TestPodmanLabels(t *testing.T) {
	root := t.TempDir()
	conmon := conmonOf([]string{
		"conmon", "-c", "abc", "--exit-command", "/usr/bin/podman", "--exit-command-arg", "--root", "--exit-command-arg", root,
		"--exit-command-arg", "--tmpdir", "--exit-command-arg", filepath.Join(root, "tmp"),
	}, "abc")
	if got, err := (Conmon{Name: "n"}).Labels("abc"); got != nil || err != nil {
		t.Errorf("another engine's: %v, %v", got, err)
	}
	if _, err := conmon.Labels(idOf(1)); err == nil || !strings.Contains(err.Error(), filepath.Join(root, "db.sql")) {
		t.Errorf("no database: %v", err)
	}
	bolt := filepath.Join(root, "libpod", "bolt_state.db")
	if err := os.Mkdir(filepath.Dir(bolt), 0o700); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(bolt, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bbolt.Tx) error {
		all, err := tx.CreateBucket([]byte("ctr"))
		if err != nil {
			return err
		}
		one, err := all.CreateBucket([]byte("abc"))
		if err != nil {
			return err
		}
		return one.Put([]byte("config"), []byte(`{"id":"abc","labels":{"n":"bolt"}}`))
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	sql := filepath.Join(root, "db.sql")
	if err := os.WriteFile(sql, database(t), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := conmon.Labels("abc"); err != nil || got["n"] != "bolt" {
		t.Errorf("BoltDB's: %v, %v", got, err)
	}
	for i := range 300 {
		got, err := conmon.Labels(idOf(i))
		switch {
		case i == 17 && (err == nil || !strings.Contains(err.Error(), "no database of Podman's has container")):
			t.Errorf("one that was removed: %v, %v", got, err)
		case i != 17 && (err != nil || got["n"] != strconv.Itoa(i)):
			t.Fatalf("the container %d: %v, %v", i, got, err)
		}
	}
	for _, path := range []string{sql, bolt} {
		if err := os.Chmod(path, 0o622); err != nil {
			t.Fatal(err)
		}
		if _, err := conmon.Labels("abc"); err == nil {
			t.Errorf("%s, which others can write, is read", path)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSQLiteLock: no database is read while a process writes to it.
func TestSQLiteLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db.sql")
	if err := os.WriteFile(path, database(t), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: 0x40000002, Len: 510}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, 16), 0); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { _, err := sqliteConfig(path, idOf(3)); done <- err }()
	if _, err := f.WriteAt([]byte("SQLite format 3\x00"), 0); err != nil {
		t.Fatal(err)
	}
	lock.Type = unix.F_UNLCK
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// FuzzSQLite: a damaged database is an error, and takes no more time than its pages.
func FuzzSQLite(f *testing.F) {
	whole := database(f)
	f.Add(uint32(600), byte(13))
	f.Fuzz(func(t *testing.T, at uint32, b byte) {
		data := bytes.Clone(whole)
		data[int(at)%len(data)] ^= b
		if _, err := readSQLite(bytes.NewReader(data), idOf(299)); err != nil && !errors.Is(err, errNone) && !errors.Is(err, errSQLite) && !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	})
}
