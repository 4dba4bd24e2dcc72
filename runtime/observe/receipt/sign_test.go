package receipt

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
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

// signedReceipt is a receipt that a new key has signed, and the directory of the key.
func signedReceipt(t *testing.T) (dir string, key ed25519.PrivateKey, e *Envelope) {
	t.Helper()
	dir = keyDir(t)
	key, err := Key(dir)
	if err != nil {
		t.Fatal(err)
	}
	status := 3
	r := &Receipt{Schema: schema, State: Ended, Made: time.Now(), Began: time.Now(), Seconds: 1.1, Exit: Exit{Status: &status}}
	r.Identity.Command, r.Journal.Last = []string{"sh", "-c", "<&> \u2028"}, strings.Repeat("ab", 32)
	r.Touched.Applied = []Applied{{View: "v", Paths: 1, Sums: "sha256:" + strings.Repeat("cd", 32)}}
	if e, err = r.Sign(key); err != nil {
		t.Fatal(err)
	}
	return dir, key, e
}

func envelope(t *testing.T, e *Envelope) string {
	t.Helper()
	data, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestSign: a receipt in its envelope is what the key signed, in one reading. What was changed, what another key has signed, and what the key has
// signed in another form is not.
func TestSign(t *testing.T) {
	dir, key, e := signedReceipt(t)
	pub, err := Public(filepath.Join(dir, PublicFile))
	if err != nil {
		t.Fatal(err)
	}
	whole := envelope(t, e)
	if r, by, err := Open([]byte(whole), pub); err != nil || by != e.Signatures[0].KeyID || *r.Exit.Status != 3 {
		t.Errorf("%+v, %s, %v", r, by, err)
	}
	for from, to := range map[string]string{
		`"payload": "ey`: `"payload": "ez`, `"sig": "`: `"sig": "AAAA`, `"sig"`: `"note": 1, "sig"`, `"payloadType": "a`: `"payloadType": "b`,
		`"payload": "`: `"PAYLOAD": "e30=", "payload": "`, `"signatures"`: `"payload": "e30=", "signatures"`,
		`"payloadType"`: `"payloadType": "x", "payload\u0054ype"`,
	} {
		changed := strings.Replace(whole, from, to, 1)
		if changed == whole {
			t.Fatalf("there is no %s in %s", from, whole)
		}
		if _, _, err := Open([]byte(changed), pub); err == nil {
			t.Errorf("%s for %s: it is verified", to, from)
		}
	}
	for from, to := range map[string]string{
		`"state":"ended"`:   `"state":"running","state":"ended"`,
		`"exit":{`:          `"EXIT":{"status":0},"exit":{`,
		`"status":3`:        `"status":3,"\u0073tatus":3`,
		`"schema":`:         `"unknown":1,"schema":`,
		`"subject":[`:       `"subject":[],"subject":[`,
		`"seconds":1.1`:     `"seconds":1.10`,
		`"_type"`:           `"\u005ftype"`,
		`"predicateType":"`: `"predicateType":"x`,
		`{"_type"`:          `{}{"_type"`,
	} {
		text := strings.Replace(string(e.Payload), from, to, 1)
		if text == string(e.Payload) {
			t.Fatalf("there is no %s in %s", from, text)
		}
		other := &Envelope{PayloadType: e.PayloadType, Payload: []byte(text)}
		other.Signatures = []signature{{"", ed25519.Sign(key, other.authenticated())}}
		if _, _, err := Open([]byte(envelope(t, other)), pub); err == nil {
			t.Errorf("%s for %s: it is verified", to, from)
		}
		if i := strings.Index(text, `"predicate":`); i > 0 && strings.HasSuffix(text, "}}") && !strings.Contains(from, "predicateType") && from[1] != '_' && from != `"subject":[` && from != `{"_type"` {
			if _, err := Decode([]byte(text[i+len(`"predicate":`) : len(text)-1])); err == nil {
				t.Errorf("%s for %s: it is decoded", to, from)
			}
		}
	}
	_, _, foreign := signedReceipt(t)
	if _, _, err := Open([]byte(envelope(t, foreign)), pub); !errors.Is(err, errSignature) {
		t.Errorf("another key's: %v", err)
	}
}

// others is how a program that knows DSSE and in-toto alone reads an envelope: it prints what is signed, and writes the signature.
const others = `import base64, json, sys
e = json.load(open(sys.argv[1]))
body = base64.b64decode(e["payload"], validate=True)
open(sys.argv[2] + "/sig", "wb").write(base64.b64decode(e["signatures"][0]["sig"], validate=True))
t = e["payloadType"].encode()
open(sys.argv[2] + "/pae", "wb").write(b"DSSEv1 %d %s %d %s" % (len(t), t, len(body), body))
s = json.loads(body)
assert e["payloadType"] == "application/vnd.in-toto+json" and s["_type"] == "https://in-toto.io/Statement/v1", s
assert all(x["name"] and len(bytes.fromhex(x["digest"]["sha256"])) == 32 for x in s["subject"]), s
print([x["name"] for x in s["subject"]], s["predicate"]["state"])`

// TestOthersVerify: OpenSSL finds the signature good, and Python reads the statement.
func TestOthersVerify(t *testing.T) {
	dir, _, e := signedReceipt(t)
	work := t.TempDir()
	file := filepath.Join(work, "receipt.json")
	if err := os.WriteFile(file, []byte(envelope(t, e)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("python3", "-c", others, file, work).CombinedOutput()
	if want := "['applied/v', 'journal'] ended\n"; err != nil || string(out) != want {
		t.Fatalf("%v: %q, want %q", err, out, want)
	}
	out, err = exec.Command("openssl", "pkeyutl", "-verify", "-pubin", "-inkey", filepath.Join(dir, PublicFile), "-rawin", "-in", filepath.Join(work, "pae"),
		"-sigfile", filepath.Join(work, "sig")).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// FuzzOpen: no envelope is verified but one whose statement, encoded again, is the same.
func FuzzOpen(f *testing.F) {
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		f.Fatal(err)
	}
	r := &Receipt{Schema: schema, State: Ended}
	e, err := r.Sign(key)
	if err != nil {
		f.Fatal(err)
	}
	whole, err := json.Marshal(e)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole, e.Payload)
	f.Fuzz(func(t *testing.T, data, payload []byte) {
		if r, _, err := Open(data, pub); err == nil && r.State != Ended {
			t.Errorf("%q is verified", data)
		}
		own := &Envelope{PayloadType: payloadType, Payload: payload}
		own.Signatures = []signature{{"", ed25519.Sign(key, own.authenticated())}}
		data, err := json.Marshal(own)
		if err != nil {
			t.Fatal(err)
		}
		if r, _, err := Open(data, pub); err == nil {
			again, err := r.Sign(key)
			var text bytes.Buffer
			if err = errors.Join(err, json.Compact(&text, payload)); err != nil || len(r.subjects()) > 0 && !bytes.Contains(text.Bytes(), []byte("subject")) || len(again.Payload) == 0 {
				t.Errorf("%q: %v", payload, err)
			}
		}
	})
}
