package env

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Check ends the test at an error.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// AtEnd calls f when the test ends. Its error fails the test.
func AtEnd(t testing.TB, f func() error) {
	t.Cleanup(func() {
		if err := f(); err != nil {
			t.Error(err)
		}
	})
}

// Read returns what is in a file.
func Read(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	Check(t, err)
	return text
}

// Get returns what f does, and ends the test at its error.
func Get[T any](t testing.TB, f func() (T, error)) T {
	t.Helper()
	v, err := f()
	Check(t, err)
	return v
}

// Equal fails the test where got is not want.
func Equal[V comparable](t testing.TB, what string, got, want V) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Contain fails the test where part is not in text.
func Contain(t testing.TB, what, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%s: got %q, want it to contain %q", what, text, part)
	}
}

// Number returns the number that is a text.
func Number(t testing.TB, text string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(text))
	Check(t, err)
	return n
}

// Decode returns the JSON that a program printed.
func Decode[A any](t testing.TB, text string) A {
	t.Helper()
	var a A
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("no JSON of a %T: %v\n%s", a, err, text)
	}
	return a
}

// Tree lists what is below a directory, with the error that ends the list.
func Tree(dir string) string {
	var out strings.Builder
	err := filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		fmt.Fprintln(&out, p)
		return err
	})
	fmt.Fprintln(&out, err)
	return out.String()
}

// Put writes a file that belongs to uid.
func Put(t testing.TB, path, text string, mode os.FileMode, uid int) {
	t.Helper()
	Check(t, os.WriteFile(path, []byte(text), mode))
	Check(t, os.Lchown(path, uid, uid))
}

// Owner returns the owner of a file on the host, "uid:gid".
func Owner(t testing.TB, path string) string {
	t.Helper()
	var st unix.Stat_t
	Check(t, unix.Lstat(path, &st))
	return fmt.Sprintf("%d:%d", st.Uid, st.Gid)
}
