package cri

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v3"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// kubernetes is the directory of what Kubernetes is given.
func kubernetes(t *testing.T, name string) string {
	t.Helper()
	root := env.Get(t, engine.ModuleRoot)
	return filepath.Join(root, "hack/kubernetes", name)
}

// documents reads a file of YAML.
func documents(t *testing.T, name string) []map[string]any {
	t.Helper()
	f, err := os.Open(kubernetes(t, name))
	env.Check(t, err)
	defer f.Close()
	var out []map[string]any
	for d := yaml.NewDecoder(f); ; {
		var doc map[string]any
		if err := d.Decode(&doc); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out = append(out, doc)
	}
}

// The manifests name the handlers that are registered, and what the programs understand.
func TestManifests(t *testing.T) {
	var handlers []any
	for _, d := range documents(t, "runtimeclass.yaml") {
		if d["kind"] != "RuntimeClass" || d["apiVersion"] != "node.k8s.io/v1" {
			t.Errorf("%v", d)
		}
		handlers = append(handlers, d["handler"])
	}
	if len(handlers) != 2 || handlers[0] != "agentjail" || handlers[1] != "agentjail-net" {
		t.Errorf("handlers %v", handlers)
	}
	pod := documents(t, "pod.yaml")[0]
	if spec, _ := pod["spec"].(map[string]any); spec["runtimeClassName"] != "agentjail" {
		t.Errorf("pod %v", pod)
	}
	text := env.Read(t, kubernetes(t, "daemonset.yaml"))
	var set struct {
		Kind string
		Spec struct {
			Template struct {
				Spec struct {
					InitContainers []struct {
						Args         []string
						VolumeMounts []struct{ Name, MountPath string } `yaml:"volumeMounts"`
					} `yaml:"initContainers"`
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &set); err != nil || set.Kind != "DaemonSet" || len(set.Spec.Template.Spec.InitContainers) != 1 {
		t.Fatalf("%+v, %v", set, err)
	}
	c := set.Spec.Template.Spec.InitContainers[0]
	if len(c.VolumeMounts) != 1 || len(c.Args) < 3 || c.Args[2] != "--root="+"/node" {
		t.Errorf("%+v", c)
	}
}

// containerd takes the configurations, each release those that are for it.
func TestContainerdTakesConfigurations(t *testing.T) {
	onEach(t, func(t *testing.T, n *node) {
		files := []string{"containerd-v2.toml"}
		program := "containerd"
		if major, _, _ := strings.Cut(n.Containerd.Version(), "."); major != "1" {
			files = append(files, "containerd-v3.toml")
			program, _ = engine.Tool("containerd")
		}
		for _, file := range files {
			out, err := exec.Command(program, "--config", kubernetes(t, file), "config", "dump").Output()
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			type handler struct {
				Type    string         `toml:"runtime_type"`
				Path    string         `toml:"runtime_path"`
				Options map[string]any `toml:"options"`
			}
			var dump struct {
				Plugins map[string]struct {
					Containerd struct {
						Runtimes map[string]handler `toml:"runtimes"`
					} `toml:"containerd"`
				} `toml:"plugins"`
			}
			env.Check(t, toml.Unmarshal(out, &dump))
			found := map[string]handler{}
			for _, p := range dump.Plugins {
				maps.Copy(found, p.Containerd.Runtimes)
			}
			for _, name := range []string{"agentjail", "agentjail-net"} {
				h := found[name]
				if h.Path != "/usr/local/bin/containerd-shim-agentjail-v2" || h.Options["BinaryName"] != "/usr/local/bin/"+name || h.Options["SystemdCgroup"] != true {
					t.Errorf("%s: handler %s is %+v", file, name, h)
				}
			}
		}
	})
}

// What the DaemonSet does, on a file tree of its own: it copies, registers, restarts once, and takes all back.
func TestDaemonSetInstallsAndRemoves(t *testing.T) {
	engine.NeedsRoot(t, "it runs jails")
	from := env.Get(t, engine.Shim)
	root := filepath.Join(from, "a-node")
	env.Check(t, os.MkdirAll(filepath.Join(root, "usr/local"), 0o755))
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	run := func(verb string) string {
		t.Helper()
		cmd := exec.Command(filepath.Join(from, "agentjail"), verb, "node", "--root="+root, "--restart=/usr/local/bin/agentjail", "--restart=--version")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", verb, err, out)
		}
		return string(out)
	}
	if out := run("install"); !strings.Contains(out, "agentjail version") {
		t.Errorf("no restart: %s", out)
	}
	if out := run("install"); strings.Contains(out, "agentjail version") || !strings.Contains(out, "nothing to change") {
		t.Errorf("a second run: %s", out)
	}
	// What was written is what hack/kubernetes shows, but for the driver of control groups.
	want := env.Read(t, kubernetes(t, "containerd-v2.toml"))
	_, want, _ = bytes.Cut(want, []byte("version ="))
	got := env.Read(t, filepath.Join(root, "etc/containerd/config.toml"))
	if w := strings.ReplaceAll("version ="+string(want), "SystemdCgroup = true", "SystemdCgroup = false"); string(got) != w {
		t.Errorf("written:\n%s\nand not\n%s", got, w)
	}
	for _, name := range []string{"agentjail", "agentjailctl", "agentjail-net", "agentjail-enter", "agentjail-egress", "agentjail-egress-keys", engine.ShimName} {
		if st, err := os.Stat(filepath.Join(root, "usr/local/bin", name)); err != nil || st.Mode() != 0o755 {
			t.Errorf("%s: %v, %v", name, st, err)
		}
	}
	run("uninstall")
	for _, dir := range []string{"usr/local/bin", "etc/containerd"} {
		if left, _ := os.ReadDir(filepath.Join(root, dir)); len(left) > 0 {
			t.Errorf("left in %s: %v", dir, left)
		}
	}
}
