package packages

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"agentjail.dev/tests/engine"
)

// userData is the part of cloud-init's configuration that hack/cloud/user-data has
// (https://cloudinit.readthedocs.io/en/latest/reference/modules.html).
type userData struct {
	Update   bool     `yaml:"package_update"`
	Upgrade  bool     `yaml:"package_upgrade"`
	Packages []string `yaml:"packages"`
	Password bool     `yaml:"ssh_pwauth"`
	NoRoot   bool     `yaml:"disable_root"`
	Files    []struct {
		Path    string `yaml:"path"`
		Mode    string `yaml:"permissions"`
		Content string `yaml:"content"`
	} `yaml:"write_files"`
	Commands [][]string `yaml:"runcmd"`
}

// TestCloudInit: the user data of hack/cloud make this machine one whose Docker runs jails, unattended, from the package.
func TestCloudInit(t *testing.T) {
	m := newMachine(t)
	d := readUserData(t)
	file := m.give(deb(first))
	for _, f := range d.Files {
		text := f.Content
		if f.Path == "/etc/agentjail-setup.conf" {
			text = m.setup(text, file)
		}
		var mode os.FileMode
		if _, err := fmt.Sscanf(f.Mode, "%o", &mode); err != nil {
			t.Fatalf("%s: permissions %q", f.Path, f.Mode)
		}
		m.must("mkdir", "-p", filepath.Dir(f.Path))
		if err := os.WriteFile(m.path(f.Path), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	// Settings of the one kernel stay as they are.
	const stub = "/usr/local/sbin/sysctl"
	if err := os.WriteFile(m.path(stub), []byte("#!/bin/sh\necho \"settings: $*\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	// The unit of Docker's package would have started it.
	m.docker()
	for _, args := range d.Commands {
		r := m.run(args...)
		if r.Code != 0 || !strings.Contains(r.Stdout, "this host's containers are jails") || !strings.Contains(r.Stdout, "--load /etc/sysctl.d/90-agentjail.conf") {
			t.Fatal(r)
		}
		t.Logf("%s:\n%s%s", args[0], r.Stdout, r.Stderr)
	}
	if !m.isJail() {
		t.Error("a container is no jail")
	}
	if conf := m.must("cat", "/etc/docker/daemon.json"); !strings.Contains(conf, `"live-restore": true`) || !strings.Contains(conf, `"default-runtime": "agentjail"`) {
		t.Errorf("Docker's configuration is\n%s", conf)
	}
	if !m.exists("/etc/sysctl.d/90-agentjail.conf") {
		t.Error("the kernel settings would be gone at the next boot")
	}
	// Another package than the one that was meant is not installed.
	conf := "/etc/agentjail-setup.conf"
	m.must("sed", "-i", "s/^SHA256=.*/SHA256="+strings.Repeat("0", 64)+"/", conf)
	if r := m.run(d.Commands[0]...); r.Code == 0 {
		t.Errorf("with another sum: %s", r)
	}
}

// readUserData reads the user data, in which nothing but what this test does may be.
func readUserData(t *testing.T) *userData {
	t.Helper()
	root, err := engine.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "hack/cloud/user-data"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "#cloud-config\n") {
		t.Error("cloud-init would not take it for its configuration")
	}
	d := new(userData)
	dec := yaml.NewDecoder(strings.NewReader(string(text)))
	dec.KnownFields(true)
	if err := dec.Decode(d); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(d.Packages, "docker.io") || len(d.Files) == 0 || len(d.Commands) == 0 {
		t.Fatalf("it is not complete: %+v", d)
	}
	return d
}

// setup names a package that the machine has.
func (m *machine) setup(text, file string) string {
	m.Helper()
	content, err := os.ReadFile(m.path(file))
	if err != nil {
		m.Fatal(err)
	}
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case strings.HasPrefix(line, "PACKAGE="):
			line = "PACKAGE=" + file
		case strings.HasPrefix(line, "SHA256="):
			line = fmt.Sprintf("SHA256=%x", sha256.Sum256(content))
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
