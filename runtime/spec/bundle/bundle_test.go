package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

const good = `{"ociVersion": "1.0.2", "process": {"args": ["sh"], "cwd": "/", "user": {"uid": 0, "gid": 0}}, "root": {"path": "rootfs"}}`

// TestLoadBadInput holds one clear line for whatever stands where config.json
// should.
func TestLoadBadInput(t *testing.T) {
	for _, c := range []struct {
		name, text, says string
	}{
		{"empty", "", "unexpected end of JSON input"},
		{"truncated in an object", good[:len(good)-1], "unexpected end of JSON input"},
		{"truncated in a string", `{"ociVersion": "1.0`, "unexpected end of JSON input"},
		{"truncated in an escape", `{"ociVersion": "1.0\`, "not JSON at byte 20"},
		{"trailing garbage", good + "x", "invalid character 'x' after top-level value"},
		{"second document", good + good, "after top-level value"},
		{"trailing NUL", good + "\x00", "after top-level value"},
		{"byte order mark", "\xef\xbb\xbf" + good, "byte order mark"},
		{"UTF-16", "\xff\xfe{\x00}\x00", "not valid UTF-8"},
		{"Latin-1 in a value", `{"hostname": "caf` + "\xe9" + `"}`, "not valid UTF-8"},
		{"overlong UTF-8", `{"hostname": "` + "\xc0\xaf" + `"}`, "not valid UTF-8"},
		{"an array", `[]`, "is a JSON array, not an object"},
		{"a string", `"config"`, "is a JSON string, not an object"},
		{"a number", `1`, "is a JSON number, not an object"},
		{"wrong type", `{"process": {"args": "sh"}}`, "field process.args cannot be a string"},
		{"wrong type in a list", `{"mounts": [{"destination": 7}]}`, "field mounts.destination cannot be a number"},
		{"object for a list", `{"mounts": {}}`, "field mounts cannot be a object"},
		{"negative uid", `{"process": {"user": {"uid": -1}}}`, "field process.user.uid cannot be a number -1"},
		{"uid past 32 bits", `{"process": {"user": {"uid": 4294967296}}}`, "cannot be a number 4294967296"},
		{"huge number", `{"linux": {"resources": {"memory": {"limit": 1e999}}}}`, "cannot be a number"},
		{"fraction", `{"linux": {"resources": {"pids": {"limit": 1.5}}}}`, "cannot be a number"},
		{"hexadecimal", `{"linux": {"resources": {"pids": {"limit": 0x10}}}}`, "invalid character 'x'"},
		{"comment", `{/* no */}`, "invalid character '/'"},
		{"trailing comma", `{"hostname": "a",}`, "invalid character '}'"},
		{"control character", "{\"hostname\": \"a\nb\"}", `invalid character '\n' in string literal`},
		{"NUL in a value", `{"process": {"cwd": "/work\u0000/../proc"}}`, "NUL character"},
		{"NUL in a key", `{"annotations": {"a\u0000b": ""}}`, "NUL character"},
		{"the same field twice", `{"process": {}, "process": {"noNewPrivileges": true}}`, `field "process" twice`},
		{"twice in other letters", `{"process": {}, "Process": {}}`, "field process twice"},
		{"twice with an escape", `{"process": {}, "proces\u0073": {}}`, `field "process" twice`},
		{"twice with a long s", `{"process": {}, "proce` + "ſ" + `s": {}}`, "field process twice"},
		{"twice below", `{"linux": {"seccomp": {}, "SECCOMP": {}}}`, "field seccomp twice"},
		{"twice in a list's element", `{"mounts": [{"destination": "/a", "Destination": "/b"}]}`, "field destination twice"},
		{"twice in an unknown object", `{"future": {"a": 1, "a": 2}}`, `field "a" twice`},
		{"annotation twice", `{"annotations": {"a": "1", "a": "2"}}`, `field "a" twice`},
		{"one of many twice, another case between", `{"annotations": {"K7": "", ` + manyAnnotations(40) + `"K7": ""}}`, `field "K7" twice`},
		{"a field twice among many unknown", `{` + strings.ReplaceAll(manyAnnotations(40), "\"k", "\"x") + `"Root": {}, "root": {}}`, "field root twice"},
		{"one of many twice", `{"annotations": {` + manyAnnotations(40) + `"k7": ""}}`, `field "k7" twice`},
		{"deep objects", strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000), "nested more than 64 deep"},
		{"deep lists", strings.Repeat("[", 1000000), "nested more than 64 deep"},
		{"deep below a field", `{"linux": {"x": ` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}}`, "nested more than 64 deep"},
		{"huge", `{"hostname": "` + strings.Repeat("a", MaxConfig) + `"}`, "more than the 8388608 that are read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, ConfigName), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			b, err := Load(dir)
			if err == nil {
				t.Fatalf("was read: %+v", b.Spec)
			}
			if !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), filepath.Join(dir, ConfigName)) {
				t.Errorf("states %q, not %q with the file's name", err, c.says)
			}
			if strings.ContainsAny(err.Error(), "\n\r\x00") || len(err.Error()) > 400 {
				t.Errorf("not one line: %q", err)
			}
		})
	}
}

func manyAnnotations(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%q: \"\", ", fmt.Sprint("k", i))
	}
	return b.String()
}

// What only looks odd is read: letters' case in keys that are data, escapes,
// astral characters, white space, the deepest nesting that is allowed.
func TestLoadOddInput(t *testing.T) {
	for name, text := range map[string]string{
		"plain":                       good,
		"white space":                 " \t\r\n" + good + "\n\n",
		"case in data":                `{"annotations": {"a": "1", "A": "2"}, "linux": {"sysctl": {"x": "", "X": ""}}}`,
		"escaped":                     `{"hostn\u0061me": "\u00e9\ud83d\ude00"}`,
		"same in siblings":            `{"mounts": [{"destination": "/a"}, {"destination": "/b"}], "root": {"path": "a"}}`,
		"key as value":                `{"annotations": {"a": "b", "b": "a"}, "process": {"args": ["a", "a"]}}`,
		"escaped quote":               `{"annotations": {"a\"": "", "a": "\\", "b": "\\\""}}`,
		"escaped backslash and zeros": `{"hostname": "\\u0000"}`,
		"deep":                        `{"x": ` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`,
		"nulls":                       `{"process": null, "linux": null, "mounts": null, "hooks": null}`,
		"null":                        `null`,
	} {
		if _, err := Decode([]byte(text), new(specs.Spec)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A name that decoders match without regard to case is the field itself, and
// is written by its own name only.
func TestOtherCase(t *testing.T) {
	for _, name := range []string{"Process", "PROCESS", "proceſs", "procesſ", "proceſſ"} {
		var s specs.Spec
		u, err := Decode([]byte(`{"`+name+`": {"args": ["sh"], "cwd": "/a", "cwd2": 1}}`), &s)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if s.Process == nil || s.Process.Cwd != "/a" {
			t.Errorf("%s is not taken for process", name)
			continue
		}
		s.Process.Cwd = "/hardened"
		out, err := json.Marshal(&s)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(out, []byte(name)) || !bytes.Contains(out, []byte(`"process":{`)) {
			t.Errorf("%s comes back: %s", name, out)
		}
		if want := []string{"process.cwd2"}; fmt.Sprint(u) != fmt.Sprint(want) {
			t.Errorf("%s: paths %v", name, u)
		}
	}
}

func TestLoadPlaces(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, ConfigName)
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "JSON specification file config.json not found") {
		t.Errorf("no file: %v", err)
	}
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory: %v", err)
	}
	os.Remove(at)
	if err := unix.Mkfifo(at, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a pipe without a writer: %v", err)
	}
	os.Remove(at)
	other := filepath.Join(dir, "other.json")
	if err := os.WriteFile(other, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, at); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a symbolic link: %v", err)
	}
	os.Remove(at)
	if err := os.WriteFile(at, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := Load(dir)
	if err != nil || b.Dir != dir || b.Spec.Root.Path != "rootfs" || b.Unknown != nil {
		t.Errorf("a good one: %+v, %v", b, err)
	}
}

func TestSave(t *testing.T) {
	dir := t.TempDir()
	b := &Bundle{Dir: dir, Spec: &specs.Spec{Version: "1.0.2", Hostname: "a"}}
	if err := b.Save(); err != nil {
		t.Fatal(err)
	}
	b.Spec.Hostname = "b"
	if err := b.Save(); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Lstat(filepath.Join(dir, ConfigName))
	if err != nil || fi.Mode() != 0o600 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
	again, err := Load(dir)
	if err != nil || again.Spec.Hostname != "b" {
		t.Errorf("%+v, %v", again, err)
	}
	b.Dir = filepath.Join(dir, "missing")
	if err := b.Save(); err == nil {
		t.Error("saved into a directory that does not exist")
	}
}
