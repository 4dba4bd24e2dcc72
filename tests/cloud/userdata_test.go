package cloud

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// userData is the part of cloud-init's configuration that the user data has
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
		Defer   bool   `yaml:"defer"`
	} `yaml:"write_files"`
	Commands [][]string `yaml:"runcmd"`
}

// maxUserData is what EC2 takes, the least of the large clouds (16 KB before base64).
const maxUserData = 16 << 10

func read(t *testing.T, name string) string {
	t.Helper()
	root := env.Get(t, engine.ModuleRoot)
	text := env.Read(t, filepath.Join(root, name))
	return string(text)
}

// TestUserData: cloud-init takes it, every cloud does, its scripts are a shell's, and what is to be filled in can be.
func TestUserData(t *testing.T) {
	text := read(t, "hack/cloud/user-data.yaml")
	if !strings.HasPrefix(text, "#cloud-config\n") {
		t.Error("cloud-init would not take it for its configuration")
	}
	if len(text) > maxUserData {
		t.Errorf("%d bytes are more than a cloud takes", len(text))
	}
	d := new(userData)
	dec := yaml.NewDecoder(strings.NewReader(text))
	dec.KnownFields(true)
	env.Check(t, dec.Decode(d))
	for _, f := range d.Files {
		if !f.Defer {
			t.Errorf("%s is there before the package whose directory it is in", f.Path)
		}
		if !strings.HasPrefix(f.Content, "#!/bin/sh\n") {
			continue
		}
		cmd := exec.Command("sh", "-n")
		cmd.Stdin = strings.NewReader(f.Content)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", f.Path, err, out)
		}
	}
	if len(d.Commands) != 1 || strings.Join(d.Commands[0], " ") != "/usr/local/sbin/agentjail-host DEB_URL DEB_SHA256" {
		t.Errorf("it runs %q", d.Commands)
	}
	if strings.Contains(text, "\n\t") {
		t.Error("YAML takes no tabs")
	}
}
