package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRegistered: it is said which engine's configuration leads to these programs, and under which
// name.
func TestRegistered(t *testing.T) {
	for _, c := range []struct {
		name, file, text string
		warn             bool
		has              string
	}{
		{"nothing", "", "", false, "no engine's configuration leads to /opt/aj: agentjail install"},
		{"the default", "docker/daemon.json", `{"runtimes": {"agentjail": {"path": "/opt/aj/agentjail"}}, "default-runtime": "agentjail"}`, false, "/opt/aj: Docker as agentjail (its default)"},
		{"no default", "docker/daemon.json", `{"runtimes": {"agentjail": {"path": "/opt/aj/agentjail"}}}`, false, "/opt/aj: Docker as agentjail"},
		{"another copy", "docker/daemon.json", `{"runtimes": {"agentjail": {"path": "/opt/other/agentjail"}}}`, false, "no engine's"},
		{"a broken file", "docker/daemon.json", `{"runtimes": `, true, "Docker: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			etc := t.TempDir()
			if c.file != "" {
				path := filepath.Join(etc, c.file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			a := registered(&env{etc: etc, opts: Options{Programs: "/opt/aj"}})
			if a.ok == c.warn || !strings.Contains(a.detail, c.has) || !c.warn && strings.Contains(c.has, "Docker") && a.detail != c.has {
				t.Errorf("it says %+v, not %q", a, c.has)
			}
		})
	}
}
