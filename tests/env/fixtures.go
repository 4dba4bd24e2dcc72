package env

import (
	"os"
	"testing"
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
