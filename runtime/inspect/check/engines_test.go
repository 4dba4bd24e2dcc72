package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// withPrograms makes a host with programs that print these lines.
func withPrograms(t *testing.T, lines map[string]string) *env {
	t.Helper()
	needRoot(t)
	dir := t.TempDir()
	e := &env{etc: filepath.Join(dir, "etc"), run: filepath.Join(dir, "run"), usr: filepath.Join(dir, "usr"), dpkg: filepath.Join(dir, "dpkg"), doc: filepath.Join(dir, "doc"), bins: []string{dir}}
	for name, line := range lines {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho '"+line+"'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

func TestEngineFixes(t *testing.T) {
	defer func(d time.Duration) { versionWait = d }(versionWait)
	versionWait = time.Minute
	for _, c := range []struct {
		name  string
		lines map[string]string
		ok    bool
		has   []string
	}{
		{"nothing", nil, true, []string{"no engine"}},
		{"all with fixes", map[string]string{"dockerd": "Docker version 29.5.1, build x", "containerd": "containerd github.com/containerd/containerd/v2 v2.4.2 x", "crun": "crun version 1.28"}, true, []string{"dockerd 29.5.1", "containerd v2.4.2", "crun 1.28"}},
		{"an old dockerd", map[string]string{"dockerd": "Docker version 29.5.0, build x", "crun": "crun version 1.28"}, false, []string{"CVE-2026-41568", "upgrade to dockerd 29.5.1"}},
		{"an old containerd", map[string]string{"containerd": "containerd github.com/containerd/containerd v1.7.30 x"}, false, []string{"CVE-2026-53488", "CVE-2026-47262", "1.7.33"}},
		{"an old crun", map[string]string{"crun": "crun version 1.21"}, true, []string{"CVE-2026-47766", "upgrade to crun 1.28.0"}},
		{"one that prints nothing", map[string]string{"dockerd": ""}, false, []string{"not understood"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := engineFixes(withPrograms(t, c.lines))
			text := a.detail + " -> " + a.remedy
			if a.ok != c.ok {
				t.Errorf("ok is %v: %s", a.ok, text)
			}
			for _, h := range c.has {
				if !strings.Contains(text, h) {
					t.Errorf("%q is not in %q", h, text)
				}
			}
		})
	}
	// A program that somebody else can write is not run.
	e := withPrograms(t, map[string]string{"dockerd": "Docker version 1.0.0, build x"})
	if err := os.Chmod(filepath.Join(e.bins[0], "dockerd"), 0o777); err != nil {
		t.Fatal(err)
	}
	if a := engineFixes(e); !strings.Contains(a.detail, "no engine") {
		t.Errorf("a program that any user can replace is run: %s", a.detail)
	}
}

// TestEnginesHere: what is installed on this machine is looked at.
func TestEnginesHere(t *testing.T) {
	needRoot(t)
	e := newEnv(Options{PolicyPath: os.DevNull, StateRoot: t.TempDir()})
	a := engineFixes(e)
	t.Log(a.detail, "->", a.remedy)
	for _, name := range []string{"dockerd", "containerd", "runc", "crun"} {
		if _, err := exec.LookPath(name); err == nil && !strings.Contains(a.detail, name+" ") {
			t.Errorf("%s is not looked at: %s", name, a.detail)
		}
	}
	if _, err := exec.LookPath("dockerd"); err == nil && !strings.Contains(logSize(e).detail, "Docker's logs") {
		t.Errorf("Docker's logs are not looked at: %s", logSize(e).detail)
	}
}

func TestImageBuilds(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, `{"default-runtime": "runc"}`: true, `{"default-runtime": "agentjail"}`: false, `{"default-runtime": "agentjail-net"}`: false, "{": false,
	} {
		e := &env{etc: t.TempDir()}
		if err := os.Mkdir(filepath.Join(e.etc, "docker"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(e.etc, "docker/daemon.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if a := imageBuilds(e); a.ok != want || !a.ok && a.remedy == "" {
			t.Errorf("%s: %+v", text, a)
		}
	}
	// BuildKit takes the runc in PATH.
	e := withPrograms(t, map[string]string{"agentjail": "agentjail"})
	if err := os.Symlink("agentjail", filepath.Join(e.bins[0], "runc")); err != nil {
		t.Fatal(err)
	}
	if a := imageBuilds(e); a.ok || !strings.Contains(a.detail, "BuildKit") {
		t.Errorf("runc is agentjail: %+v", a)
	}
}

func TestLogSize(t *testing.T) {
	const daemon, conf = "etc/docker/daemon.json", "etc/containers/containers.conf"
	for _, c := range []struct {
		name, engine string
		files        map[string]string
		ok           bool
		has          string
	}{
		{"no engine", "", nil, true, "no engine"},
		{"Docker without settings", "dockerd", nil, false, "max-size"},
		{"Docker with an empty file", "dockerd", map[string]string{daemon: "\n"}, false, "max-size"},
		{"Docker with a bound", "dockerd", map[string]string{daemon: `{"log-opts": {"max-size": "10m"}}`}, true, "10m"},
		{"Docker with none", "dockerd", map[string]string{daemon: `{"log-driver": "json-file", "log-opts": {"max-size": "-1"}}`}, false, "without end"},
		{"Docker, local", "dockerd", map[string]string{daemon: `{"log-driver": "local"}`}, true, "local"},
		{"Docker, broken", "dockerd", map[string]string{daemon: `{`}, false, "daemon.json"},
		{"Podman without settings or journal", "podman", nil, false, "log_size_max"},
		{"Podman with a journal", "podman", map[string]string{"run/systemd/journal/x": ""}, true, "journald"},
		{"Podman, files in spite of it", "podman", map[string]string{"run/systemd/journal/x": "", conf: "[containers]\nlog_driver = 'k8s-file'\n"}, false, "without end"},
		{"Podman with a bound", "podman", map[string]string{conf: "[containers]\nlog_driver = 'k8s-file'\n", "etc/containers/containers.conf.d/1.conf": "[containers]\nlog_size_max = 1000000\n"}, true, "log_size_max"},
		{"Podman with the distribution's", "podman", map[string]string{"usr/share/containers/containers.conf": "[containers]\nlog_size_max = 1000000\n"}, true, "log_size_max"},
		{"Podman, broken", "podman", map[string]string{conf: "["}, false, "containers.conf"},
	} {
		t.Run(c.name, func(t *testing.T) {
			lines := map[string]string{}
			if c.engine != "" {
				lines[c.engine] = "x"
			}
			e := withPrograms(t, lines)
			for name, text := range c.files {
				at := filepath.Join(e.bins[0], name)
				if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			a := logSize(e)
			if a.ok != c.ok || !strings.Contains(a.detail+" -> "+a.remedy, c.has) || !c.ok && a.remedy == "" {
				t.Errorf("%+v", a)
			}
		})
	}
}
