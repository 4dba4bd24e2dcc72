package receipt

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// keyDir is a directory that only this user can have written.
func keyDir(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: the host's key is in a directory of root's")
	}
	dir, err := os.MkdirTemp("/etc", "agentjail-receipt-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// TestKey: the key is made once, is no one else's to read, and its public half is everybody's.
func TestKey(t *testing.T) {
	dir := keyDir(t)
	first, err := Key(dir)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Key(dir); err != nil || !again.Equal(first) {
		t.Errorf("another key: %v", err)
	}
	for name, mode := range map[string]os.FileMode{keyFile: 0o600, PublicFile: 0o644} {
		if fi, err := os.Stat(filepath.Join(dir, name)); err != nil || fi.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, fi, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
	pub, err := Public(filepath.Join(dir, PublicFile))
	if err != nil || !pub.Equal(first.Public()) {
		t.Errorf("the public half is another: %v", err)
	}
	path := filepath.Join(dir, keyFile)
	for _, c := range []struct {
		what  string
		spoil func() error
	}{
		{"others can read it", func() error { return os.Chmod(path, 0o640) }},
		{"it is another's", func() error { return errors.Join(os.Chmod(path, 0o600), unix.Chown(path, 1000, 1000)) }},
		{"it is no key", func() error { return errors.Join(unix.Chown(path, 0, 0), os.WriteFile(path, []byte("x"), 0o600)) }},
	} {
		if err := c.spoil(); err != nil {
			t.Fatal(err)
		}
		if _, err := Key(dir); err == nil {
			t.Errorf("%s: it is used", c.what)
		}
	}
}

// TestSign: a receipt as it is printed is what the key signed; one in which anything was changed is not.
func TestSign(t *testing.T) {
	dir := keyDir(t)
	key, err := Key(dir)
	if err != nil {
		t.Fatal(err)
	}
	status := 3
	r := &Receipt{Schema: schema, State: Ended, Made: time.Now(), Began: time.Now(), Seconds: 1.1, Exit: Exit{Status: &status}}
	r.Identity.Command, r.Journal.Last = []string{"sh", "-c", "<&> \u2028"}, strings.Repeat("ab", 32)
	if err := r.Sign(key); err != nil {
		t.Fatal(err)
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	pub, err := Public(filepath.Join(dir, PublicFile))
	if err != nil {
		t.Fatal(err)
	}
	check := func(data string) error {
		r, err := Decode(strings.NewReader(data))
		if err != nil {
			return err
		}
		return r.CheckSignature(pub)
	}
	if err := check(string(data)); err != nil {
		t.Error(err)
	}
	for from, to := range map[string]string{
		`"status": 3`: `"status": 0`, `"lastHash": "a`: `"lastHash": "b`, `"state": "ended"`: `"state": "running"`,
		`"signedBy": "ed`: `"signedBy": "xd`, `"signature": "`: `"signature": "A`, `"signature"`: `"signatura"`, `"schema"`: `"note": 1, "schema"`,
	} {
		changed := bytes.Replace(data, []byte(from), []byte(to), 1)
		if bytes.Equal(changed, data) {
			t.Fatalf("there is no %s in %s", from, data)
		}
		if check(string(changed)) == nil {
			t.Errorf("%s for %s: the signature holds", to, from)
		}
	}
	other, err := Key(keyDir(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Sign(other); err != nil {
		t.Fatal(err)
	}
	if err := r.CheckSignature(pub); !errors.Is(err, errSignature) {
		t.Errorf("another key's: %v", err)
	}
}
