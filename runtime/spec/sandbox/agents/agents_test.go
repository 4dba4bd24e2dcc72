package agents

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/spec/netrules"
	"agentjail.dev/runtime/spec/netrules/presets"
)

// TestEmbedded: each preset of this package parses, its rules and its credential too.
func TestEmbedded(t *testing.T) {
	const none = "/agentjail-has-no-such-directory" // one of an ordinary user's is not trusted
	for _, name := range Names() {
		a, err := Load(none, name)
		if err != nil {
			t.Error(err)
			continue
		}
		rules, err := netrules.Parse(a.Allow, nil, &presets.Source{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, host := range a.Credential.Hosts {
			if !rules.Match(host, 443).OK {
				t.Errorf("%s: the credential's host %s is not allowed", name, host)
			}
		}
	}
}

// TestParse: mistakes in a preset are errors.
func TestParse(t *testing.T) {
	const right = "program = \"x\"\ninstall = \"y\"\n"
	if _, err := parse("x", []byte(right)); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"install = \"y\"":                                    "program",
		"program = \"a/b\"\ninstall = \"y\"":                 "without a path",
		"program = \"x\"":                                    "install",
		right + "nonsense = 1":                               `line 3: unknown key "nonsense"`,
		right + "minimum = \"new\"":                          "minimum",
		right + "home.size = \"1MiB\"":                       "home.size",
		right + "home.files = { \"../x\" = \"\" }":           "home.files",
		right + "places = [\"bin\"]":                         "places",
		right + "[credential]\nname = \"k\"":                 "credential.from",
		right + "[credential]\nname = \"k\"\nfrom = \"key\"": "hosts",
	} {
		if _, err := parse("x", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestCheckVersion compares numbers, and not text.
func TestCheckVersion(t *testing.T) {
	for text, ok := range map[string]bool{
		"2.1.0": true, "2.0.99": false, "2.10.0": true, "v2.1.1": true, "tool 10.0.0 (x)": true, "2.1": false, "": false, "2.1.0-beta": true,
		"codex-cli 0.169.0": false,
	} {
		if _, err := (&Agent{Minimum: "2.1.0"}).CheckVersion(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// tree makes files with their text below a directory, links for text that begins with "->".
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if to, link := strings.CutPrefix(text, "->"); link {
			if err := os.Symlink(to, path); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestFind: a program's package, the packages beside it that it needs, and its interpreter are found.
func TestFind(t *testing.T) {
	dir := tree(t, map[string]string{
		"bin/agent":                              "->../lib/node_modules/@maker/agent/cli.js",
		"bin/node":                               "->../opt/node",
		"bin/own":                                "->../opt/own",
		"bin/lost":                               "#!/usr/bin/env no-such-interpreter\n",
		"opt/node":                               "\x7fELF",
		"opt/own":                                "\x7fELF",
		"lib/node_modules/@maker/agent/cli.js":   "#!/usr/bin/env -S node --flag\n",
		"lib/node_modules/other/package.json":    `{"version": "9.9.9"}`,
		"lib/node_modules/@maker/x/package.json": `{"dependencies": {"deep": "1"}}`,
		"lib/node_modules/deep/package.json":     `{"dependencies": {"@maker/agent": "1", "../../../etc": "1"}}`,
		"lib/node_modules/@maker/agent/package.json": `{"name": "agent", "version": "1.2.3",
			"optionalDependencies": {"@maker/x": "1", "@maker/absent": "1"}}`,
	})
	for name, want := range map[string]struct {
		version string
		needs   []string
	}{
		"agent": {"1.2.3", []string{"lib/node_modules/@maker/agent", "lib/node_modules/@maker/x", "lib/node_modules/deep", "opt/node"}},
		"own":   {"", []string{"opt/own"}},
		"lost":  {},
		"none":  {},
	} {
		p, err := Find(name, []string{dir + "/absent", dir + "/bin"})
		for i := range p.Needs {
			p.Needs[i], _ = filepath.Rel(dir, p.Needs[i])
		}
		if (err == nil) != (want.needs != nil) || err == nil && (p.Version != want.version || !slices.Equal(p.Needs, want.needs)) {
			t.Errorf("%s: %+v, %v; want %+v", name, p, err, want)
		}
	}
}

// TestDirs: the caller's PATH comes first, relative directories count for nothing, and of several versions the last is taken.
func TestDirs(t *testing.T) {
	home := tree(t, map[string]string{"v/18/bin/x": "", "v/20/bin/x": ""})
	a := &Agent{Places: []string{"~/v/*/bin", "~/none"}}
	if got, want := a.Dirs("/a:rel::/b", home), []string{"/a", "/b", home + "/v/20/bin", home + "/v/18/bin"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := a.Dirs("/a", ""); !slices.Equal(got, []string{"/a"}) {
		t.Errorf("without a home: %q", got)
	}
}
