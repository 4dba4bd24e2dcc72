package install

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// TestRegistered: of what engines' files name, exactly what leads to agentjail in one directory is
// found, and a plan to undo it takes it out.
func TestRegistered(t *testing.T) {
	defer func(f func(string) error) { checkBinary = f }(checkBinary)
	checkBinary = func(string) error { return nil }
	const bin = "/usr/bin"
	for _, c := range []struct {
		engine Engine
		file   string
		text   string
		names  []string
		left   string // of the file, "" where it is gone
	}{
		{Docker, "daemon.json", `{
    "default-runtime": "agentjail-strict",
    "runtimes": {
        "agentjail": {
            "path": "/usr/bin/agentjail"
        },
        "agentjail-strict": {
            "path": "/usr/bin/agentjail-strict"
        },
        "built": {
            "path": "/usr/local/bin/agentjail"
        },
        "other": {
            "path": "/usr/bin/crun"
        },
        "changed": {
            "path": "/usr/bin/agentjail",
            "runtimeArgs": ["--debug"]
        }
    }
}
`, []string{"agentjail", "agentjail-strict"}, `{
    "runtimes": {
        "built": {
            "path": "/usr/local/bin/agentjail"
        },
        "other": {
            "path": "/usr/bin/crun"
        },
        "changed": {
            "path": "/usr/bin/agentjail",
            "runtimeArgs": ["--debug"]
        }
    }
}
`},
		{Docker, "daemon.json", `{
    "runtimes": {
        "agentjail": {
            "runtimeType": "/usr/bin/containerd-shim-agentjail-v2"
        },
        "agentjail-strict": {
            "runtimeType": "/usr/bin/containerd-shim-agentjail-v2",
            "options": {
                "ConfigPath": "strict",
                "TypeUrl": "agentjail"
            }
        },
        "built": {
            "runtimeType": "/usr/local/bin/containerd-shim-agentjail-v2"
        },
        "changed": {
            "runtimeType": "/usr/bin/containerd-shim-agentjail-v2",
            "options": {"Root": "/elsewhere"}
        },
        "other": {
            "runtimeType": "io.containerd.kata.v2"
        }
    }
}
`, []string{"agentjail", "agentjail-strict"}, `{
    "runtimes": {
        "built": {
            "runtimeType": "/usr/local/bin/containerd-shim-agentjail-v2"
        },
        "changed": {
            "runtimeType": "/usr/bin/containerd-shim-agentjail-v2",
            "options": {"Root": "/elsewhere"}
        },
        "other": {
            "runtimeType": "io.containerd.kata.v2"
        }
    }
}
`},
		{Docker, "daemon.json", `{"log-driver": "local"}`, nil, `{"log-driver": "local"}`},
		{Podman, "agentjail.conf", "# Written by `agentjail install podman`.\n[engine.runtimes]\nagentjail = [\"/usr/bin/agentjail\"]\n", []string{"agentjail"}, ""},
		{
			CRIO, "agentjail.conf", "# Written by `agentjail install crio`.\n" + crioText("agentjail", "/usr/bin/agentjail") + "\n" + crioText("other", "/usr/bin/crun"),
			[]string{"agentjail"},
			"# Written by `agentjail install crio`.\n" + crioText("other", "/usr/bin/crun"),
		},
		{Containerd, "agentjail.toml", handlersText(bin), []string{"agentjail", "agentjail-net"}, ""},
	} {
		dir := t.TempDir()
		o := Options{Config: filepath.Join(dir, "none", "config"), DropIn: filepath.Join(dir, c.file), PIDFile: filepath.Join(dir, "pid"), Shim: bin + "/containerd-shim-agentjail-v2"}
		if c.engine == Docker {
			o.Config = o.DropIn
		}
		file := filepath.Join(dir, c.file)
		if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := Registered(c.engine, o, bin)
		if err != nil {
			t.Errorf("%s: %v", c.engine.Name(), err)
			continue
		}
		var names []string
		for _, r := range got {
			names = append(names, r.Name)
		}
		if len(names) != len(c.names) {
			t.Errorf("%s: found %v, not %v", c.engine.Name(), names, c.names)
		}
		if len(got) == 0 {
			continue
		}
		o.Undo, o.Runtimes = true, got
		p, err := NewPlan(c.engine, o)
		if err != nil {
			t.Errorf("%s: %v", c.engine.Name(), err)
			continue
		}
		if _, err := p.Apply(context.Background()); err != nil {
			t.Errorf("%s: %v", c.engine.Name(), err)
		}
		if text, _ := os.ReadFile(file); string(text) != c.left {
			t.Errorf("%s: left is\n%s", c.engine.Name(), text)
		}
	}
}

// handlersText is a drop-in for containerd.
func handlersText(bin string) string {
	o := Options{Shim: bin + "/containerd-shim-agentjail-v2"}
	text := "version = 2\n"
	for _, name := range []string{"agentjail", "agentjail-net"} {
		text += "\n" + handlerOf(o, Runtime{Name: name, Path: bin + "/" + name}, false).text(2, name)
	}
	return text
}

// TestWrittenFileGoes: a configuration file that an installation made goes with its removal, also
// where agentjail was made the default.
func TestWrittenFileGoes(t *testing.T) {
	defer func(f func(string) error) { checkBinary = f }(checkBinary)
	checkBinary = func(string) error { return nil }
	for _, def := range []string{"", "agentjail"} {
		dir := t.TempDir()
		o := Options{Config: filepath.Join(dir, "daemon.json"), PIDFile: filepath.Join(dir, "pid"), Runtimes: []Runtime{{"agentjail", "/usr/bin/agentjail"}}, Default: def}
		for _, undo := range []bool{false, true} {
			// What is at the default path may be removed: no one else keeps it for an engine's
			// flag.
			if o.Undo = undo; undo {
				o.Default = ""
			}
			p, err := NewPlan(Docker, o)
			if err != nil {
				t.Fatal(err)
			}
			if undo {
				if f := p.Files[0]; !onlyOurs(f, o) {
					t.Errorf("with the default %q, this is not taken for agentjail's own:\n%s", def, f.Before)
				}
				continue
			}
			if _, err := p.Apply(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
	}
}
