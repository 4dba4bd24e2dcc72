package cri

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// settings are a host's own, of the same plugin that agentjail's handlers belong to.
const settings = `version = %[1]d
[plugins.%[2]q]
  max_container_log_line_size = 12345
  enable_selinux = true
  [plugins.%[2]q.cni]
    conf_dir = "/cni/here"
  [plugins.%[2]q.containerd]
    default_runtime_name = "plain"
    [plugins.%[2]q.containerd.runtimes.plain]
      runtime_type = "io.containerd.runc.v2"
      pod_annotations = ["a"]
      [plugins.%[2]q.containerd.runtimes.plain.options]
        BinaryName = "/usr/bin/crun"
        SystemdCgroup = true
# the end
`

// containerds are the programs of the releases that the tests have, and the plugins' names in the versions that each reads.
func containerds(t *testing.T) map[string]map[int]string {
	t.Helper()
	engine.NeedsRoot(t, "it builds containerd, which root keeps for all tests")
	newest, err := engine.Tool("containerd")
	env.Check(t, err)
	const old, current = "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"
	return map[string]map[int]string{"/usr/bin/containerd": {2: old}, newest: {2: old, 3: current, 4: current}}
}

// dump is what containerd makes of a configuration file.
func dump(t *testing.T, program, file string) map[string]any {
	t.Helper()
	out, err := exec.Command(program, "--config", file, "config", "dump").Output()
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	doc := map[string]any{}
	env.Check(t, toml.Unmarshal(out, &doc))
	return doc
}

// handlers takes agentjail's out of a dump and returns their paths. What is printed of the imports goes, too.
func handlers(doc map[string]any) map[string]any {
	delete(doc, "imports")
	out := map[string]any{}
	plugins, _ := doc["plugins"].(map[string]any)
	for _, p := range plugins {
		table, _ := p.(map[string]any)
		c, _ := table["containerd"].(map[string]any)
		runtimes, _ := c["runtimes"].(map[string]any)
		for name, h := range runtimes {
			if strings.HasPrefix(name, engine.Name) {
				out[name] = h.(map[string]any)["options"].(map[string]any)["BinaryName"]
				delete(runtimes, name)
			}
		}
	}
	return out
}

// TestInstallKeepsSettings: each release makes of the host's own settings what it made of them before agentjail was registered, and knows
// the handlers; the removal gives the file back.
func TestInstallKeepsSettings(t *testing.T) {
	engine.NeedsRoot(t, "only root's programs are registered")
	dir := env.Get(t, engine.Shim)
	agentjail := filepath.Join(dir, "agentjail")
	for program, versions := range containerds(t) {
		for version, plugin := range versions {
			t.Run(fmt.Sprintf("%s, version %d", filepath.Base(filepath.Dir(program)), version), func(t *testing.T) {
				etc := t.TempDir()
				main, dropIn := filepath.Join(etc, "config.toml"), filepath.Join(etc, "conf.d/agentjail.toml")
				text := fmt.Sprintf(settings, version, plugin)
				env.Check(t, os.WriteFile(main, []byte(text), 0o600))
				run := func(verb string) {
					t.Helper()
					out, err := exec.Command(agentjail, verb, "containerd", "--name", "agentjail", "--daemon-config", main, "--drop-in", dropIn, "--program", program).CombinedOutput()
					if err != nil {
						t.Fatalf("%s: %v\n%s", verb, err, out)
					}
				}
				before := dump(t, program, main)
				if got := handlers(before); len(got) > 0 {
					t.Fatalf("handlers before: %v", got)
				}
				run("install")
				after := dump(t, program, main)
				if got := handlers(after); !reflect.DeepEqual(got, map[string]any{"agentjail": agentjail}) {
					t.Errorf("handlers: %v", got)
				}
				if !reflect.DeepEqual(before, after) {
					t.Errorf("of the settings became\n%v\nwhich were\n%v", after, before)
				}
				if _, err := os.Stat(dropIn); (err == nil) != (program != "/usr/bin/containerd") {
					t.Errorf("drop-in: %v", err)
				}
				run("uninstall")
				if got, err := os.ReadFile(main); err != nil || string(got) != text {
					t.Errorf("after the removal: %v\n%s", err, got)
				}
				if left, _ := filepath.Glob(filepath.Join(etc, "conf.d/*")); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
			})
		}
	}
}

// TestContainerdImportsByRelease: what runtime/install knows of how releases import. Before 2.0, an imported file replaces what the main file states of a
// plugin; from then on it is merged, and no release reads what a file does not import.
func TestContainerdImportsByRelease(t *testing.T) {
	for program, versions := range containerds(t) {
		for version, plugin := range versions {
			etc := t.TempDir()
			main, dropIn := filepath.Join(etc, "config.toml"), filepath.Join(etc, "conf.d/agentjail.toml")
			handler := fmt.Sprintf("version = %d\n[plugins.%q.containerd.runtimes.agentjail]\nruntime_type = \"x\"\n[plugins.%[2]q.containerd.runtimes.agentjail.options]\nBinaryName = \"/x\"\n", version, plugin)
			env.Check(t, os.Mkdir(filepath.Dir(dropIn), 0o755))
			imports := fmt.Sprintf("imports = [%q]\n", dropIn)
			for file, text := range map[string]string{dropIn: handler, main: imports + fmt.Sprintf(settings, version, plugin)} {
				env.Check(t, os.WriteFile(file, []byte(text), 0o600))
			}
			out, err := exec.Command(program, "--config", main, "config", "dump").Output()
			env.Check(t, err)
			keeps := strings.Contains(string(out), "max_container_log_line_size = 12345")
			if merges := program != "/usr/bin/containerd"; keeps != merges || !strings.Contains(string(out), "runtimes.agentjail") {
				t.Errorf("%s, version %d: the main file's settings are kept: %v\n%s", program, version, keeps, out)
			}
		}
	}
}
