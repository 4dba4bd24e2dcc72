package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRegistered: it is stated which engine's configuration leads to these programs, and under which
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
		{"by the shim", "docker/daemon.json", `{"runtimes": {"agentjail": {"runtimeType": "/opt/aj/containerd-shim-agentjail-v2"}}}`, false, "/opt/aj: Docker as agentjail"},
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
				t.Errorf("it states %+v, not %q", a, c.has)
			}
		})
	}
}

// TestDockerInterfaces: it is reported of the releases that connect each container.
func TestDockerInterfaces(t *testing.T) {
	defer func(d time.Duration) { versionWait = d }(versionWait)
	versionWait = time.Minute
	for version, want := range map[string]bool{"27.5.1, build x": false, "28.0.0, build x": true, "29.9.3, build x": true} {
		e := withPrograms(t, map[string]string{"dockerd": "Docker version " + version})
		e.etc, e.opts.Programs = t.TempDir(), "/opt/aj"
		if err := os.Mkdir(filepath.Join(e.etc, "docker"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(e.etc, "docker/daemon.json"), []byte(`{"runtimes": {"agentjail": {"path": "/opt/aj/agentjail"}}}`), 0o644); err != nil {
			t.Fatal(err)
		}
		if a := registered(e); !a.ok || strings.Contains(a.detail, "--network=none") != want {
			t.Errorf("%s: %+v", version, a)
		}
	}
}
