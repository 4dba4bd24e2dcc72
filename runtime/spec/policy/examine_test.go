package policy

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/seccomp"
)

// places makes a policy file and files beside it, by their path, and returns the policy file's.
func places(t *testing.T, text string, beside map[string]string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: a policy is root's")
	}
	dir := t.TempDir()
	for name, text := range beside {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "config.toml")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestExamine: all mistakes of a file and of its named policies are listed with their lines, and
// those that stop no jail are warnings.
func TestExamine(t *testing.T) {
	path := places(t, `limits.pids = "many"
limts.memory = 5
network.mode = "names"
network.allow = ["a.example.test"]
seccomp.only = "/nonexistent/list.json"
[credentials.missing]
hosts = ["a.example.test"]
header = "x-a"
from = "file:/nonexistent/key"
hostz = 3
[credentials.unused]
hosts = ["b.example.test"]
header = "x-a"
from = "file:DIR/key"
[policies.a]
seccomp.profile = "strct"
binds = 4
[policies.b.limits]
memory = true
[policies.c]
limits = { memory = "1q", PIDS = 4 }
[[policies.d]]
[LIMITS]
pids = 5
[policies.f]
root.inodes = -4
`, map[string]string{"key": "0123456789", "policies.d/x.toml": "limits.pids = 4\n\nlimits.cpu = 3\n", "policies.d/f.toml": "", "policies.d/y.toml": "[policies.z]\n", "policies.d/note": ""})
	problems, err := Examine(path)
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, p := range problems {
		line := strings.ReplaceAll(p.String(), filepath.Dir(path)+"/", "")
		if p.Warning {
			line = "warning " + line
		}
		text += line + "\n"
	}
	for _, want := range []string{
		`config.toml: line 1: limits.pids: the string "many", but it must be a whole number`,
		`config.toml: line 2: unknown key "limts.memory" (did you mean "limits.memory"?)`,
		`config.toml: line 5: seccomp.only = "/nonexistent/list.json"`,
		`config.toml: line 9: credentials.missing: file:/nonexistent/key`,
		`config.toml: line 10: unknown key "credentials.missing.hostz" (did you mean "hosts"?)`,
		`config.toml: line 16: [policies.a] seccomp.profile = "strct": must be one of ` + strings.Join(seccomp.Profiles(), ", ") + ` (did you mean "strict"?)`,
		`config.toml: line 17: [policies.a] binds is the number 4, but it must be a table`,
		`config.toml: line 19: [policies.b] limits.memory: true or false, but it must be a size`,
		`config.toml: line 21: [policies.c] limits.memory: "1q" is not a size`,
		`config.toml: line 21: [policies.c] unknown key "limits.PIDS" (did you mean "limits.pids"?)`,
		`config.toml: line 22: [policies.d] a list`,
		`config.toml: line 24: unknown key "LIMITS.pids" (did you mean "limits.pids"?)`,
		`config.toml: line 26: [policies.f] root.inodes = -4`,
		`config.toml: [policies.f] it is also in policies.d/f.toml (remedy: remove one)`,
		`policies.d/x.toml: line 3: [policies.x] unknown key "limits.cpu" (did you mean "limits.cpus"?)`,
		`policies.d/y.toml: [policies.y] [policies.z] in a file of policies.d`,
		`policies.d/note: not the file of a policy`,
	} {
		if n := strings.Count(text, want); n != 1 {
			t.Errorf("%d times %q", n, want)
		}
	}
	if n := strings.Count(text, "\n"); n != 17 {
		t.Errorf("%d problems:\n%s", n, text)
	}
	// The warning waits for a file without mistakes.
	path = places(t, "network.mode = \"names\"\nnetwork.allow = [\"a.example.test\"]\n[credentials.unused]\nhosts = [\"b.example.test\"]\nheader = \"x-a\"\nfrom = \"file:DIR/key\"\n", map[string]string{"key": "0123456789"})
	if problems, err = Examine(path); err != nil || len(problems) != 1 || !problems[0].Warning || problems[0].Line != 4 || !strings.Contains(problems[0].Text, "no policy of the file") {
		t.Errorf("%v, %v", problems, err)
	}
	path = places(t, "[credentials.used]\nhosts = [\"b.example.test\"]\nheader = \"x-a\"\nfrom = \"file:DIR/key\"\n[policies.net]\nnetwork.allow = [\"b.example.test\"]\n", map[string]string{"key": "0123456789"})
	if problems, err = Examine(path); err != nil || len(problems) != 0 {
		t.Errorf("used by a named policy: %v, %v", problems, err)
	}
	if _, err = Examine(path + ".none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// TestNamedFiles: policies.d/NAME.toml is the named policy NAME, and concerns no other.
func TestNamedFiles(t *testing.T) {
	path := places(t, "limits.pids = 7\nebpf.block = [\"exec\"]\n", map[string]string{
		"policies.d/good.toml": "limits.memory = \"64m\"\nebpf.block = [\"bind\"]\n", "policies.d/bad.toml": "limits.pids = 0.5\n", "policies.d/off.toml": "passthrough = true\n",
	})
	if p, err := Load(path, "good"); err != nil || p.Limits.Pids != 7 || p.Limits.Memory != 64<<20 {
		t.Errorf("%+v, %v", p.Limits, err)
	}
	if _, err := Load(path, ""); err != nil {
		t.Error(err)
	}
	if _, err := Load(path, "bad"); err == nil || !strings.Contains(err.Error(), "policies.d/bad.toml: line 1") {
		t.Error(err)
	}
	for _, name := range []string{"godo", "../policies.d/good", ".", "x/../good"} {
		if _, err := Load(path, name); !errors.Is(err, ErrNoPolicy) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if got := PassingThrough(path); len(got) != 1 || got[0] != "off" {
		t.Errorf("passing through: %v", got)
	}
	if got := strings.Join(Blocked(path), " "); got != "exec bind" {
		t.Errorf("blocked: %v", got)
	}
	if err := os.Chmod(filepath.Join(filepath.Dir(path), "policies.d/good.toml"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path, "good"); err == nil || !strings.Contains(err.Error(), "written by others") {
		t.Errorf("a file that others can write: %v", err)
	}
}

// TestExplain: each value comes with its place.
func TestExplain(t *testing.T) {
	path := places(t, "limits.pids = 7\nlimits.cpus = 1\n[policies.debug]\nlimits.pids = 9\n", nil)
	for name, want := range map[string]map[string]string{
		"":      {"limits.pids": path + ":1", "limits.cpus": path + ":2", "limits.memory": "default", "seccomp.profile": "default"},
		"debug": {"limits.pids": path + ":4, policy debug", "limits.cpus": path + ":2", "seccomp.profile": "the built-in policy debug"},
	} {
		e, err := Explain(path, name)
		if err != nil {
			t.Fatal(err)
		}
		p, _ := e.Tighten(map[string]string{AnnotationPrefix + "root.size": "1m"})
		e.Change("annotation", p)
		want["root.size"] = "annotation"
		n := 0
		for _, v := range e.Values() {
			if from, ok := want[v.Key]; ok && v.From != from {
				t.Errorf("%q: %s is from %q, not %q", name, v.Key, v.From, from)
			}
			n++
		}
		if n != len(Keys) {
			t.Errorf("%d values of %d keys", n, len(Keys))
		}
	}
	if _, err := Explain(path, "none"); !errors.Is(err, ErrNoPolicy) {
		t.Error(err)
	}
}

// TestSchema: the JSON Schema has each key, with what the table has of it, and no others.
func TestSchema(t *testing.T) {
	text, err := json.Marshal(Schema())
	if err != nil {
		t.Fatal(err)
	}
	type node struct {
		Properties           map[string]*node
		AdditionalProperties any
		Description          string
		Enum                 []string
		Defs                 map[string]*node `json:"$defs"`
	}
	var top node
	if err := json.Unmarshal(text, &top); err != nil {
		t.Fatal(err)
	}
	find := func(at *node, name string) *node {
		for part := range strings.SplitSeq(name, ".") {
			if at == nil || at.AdditionalProperties != false {
				return nil
			}
			at = at.Properties[part]
		}
		return at
	}
	for _, k := range Keys {
		got := find(top.Defs["policy"], k.Name)
		if got == nil || got.Description != k.About || len(got.Enum) != len(k.OneOf) {
			t.Errorf("%s: %+v", k.Name, got)
		}
		if (find(&top, k.Name) == nil) != (k.Name == "passthrough") {
			t.Errorf("%s at the top: %+v", k.Name, find(&top, k.Name))
		}
	}
	if top.Properties["policies"] == nil || find(&top, "limits.nothing") != nil {
		t.Error("the schema has no named policies, or too much")
	}
}

func writePolicy(path, text string) error { return os.WriteFile(path, []byte(text), 0o644) }
