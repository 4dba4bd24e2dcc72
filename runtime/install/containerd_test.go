package install

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What containerd prints of its configuration, by release; FILE stands for what the file says of runc.
const (
	oldDump = `version = 2
imports = ["/etc/containerd/config.toml"]
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = %v
`
	newDump = `version = 4
imports = ['%s/conf.d/*.toml']
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = %v
`
)

// containerdDir makes options for a directory with a containerd that prints a dump.
func containerdDir(t *testing.T, dump string) ContainerdOptions {
	t.Helper()
	trustAll(t)
	dir := t.TempDir()
	o := ContainerdOptions{
		Runtimes: []Runtime{{"agentjail", "/bin/sh"}, {"agentjail-net", "/bin/cat"}}, Shim: "/bin/ls",
		Config: filepath.Join(dir, "config.toml"), DropIn: filepath.Join(dir, "conf.d/agentjail.toml"),
		Program: filepath.Join(dir, "containerd"),
	}
	dump = strings.Replace(dump, "%s", dir, 1)
	write(t, o.Program, "#!/bin/sh\ncat <<'E'\n"+dump+"E\n", 0o755)
	return o
}

func tablesOf(plugin string, systemd bool) string {
	var out string
	for _, r := range [][2]string{{"agentjail", "/bin/sh"}, {"agentjail-net", "/bin/cat"}} {
		out += fmt.Sprintf(`
[plugins.%[1]q.containerd.runtimes.%[2]s]
  runtime_type = "io.containerd.runc.v2"
  runtime_path = "/bin/ls"
  privileged_without_host_devices = true
  pod_annotations = ["dev.agentjail.*"]
  container_annotations = ["dev.agentjail.*"]
[plugins.%[1]q.containerd.runtimes.%[2]s.options]
  BinaryName = %[3]q
  SystemdCgroup = %[4]v
`, plugin, r[0], r[1], systemd)
	}
	return out
}

const (
	oldCRI = "io.containerd.grpc.v1.cri"
	newCRI = "io.containerd.cri.v1.runtime"
)

// TestContainerd: what is written where, that a second run changes nothing, and that the removal gives back what was there.
func TestContainerd(t *testing.T) {
	const commented = `# ours
version = 2   # old form
imports = ["/etc/x.toml"]

[plugins]
  [plugins."io.containerd.grpc.v1.cri"] # CRI
    sandbox_image = "pause" # keep
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = true
# the end`
	for _, c := range []struct {
		name, dump string
		before     string // "" for no file
		dropIn     bool
		want       string
	}{
		{"no file, old release", fmt.Sprintf(oldDump, false), "", false, "version = 2\n" + tablesOf(oldCRI, false)},
		{"no file, systemd", fmt.Sprintf(oldDump, true), "", false, "version = 2\n" + tablesOf(oldCRI, true)},
		{"no file, new release", fmt.Sprintf(newDump, "%s", true), "", true, "version = 4\n" + tablesOf(newCRI, true)},
		{"a file, new release", fmt.Sprintf(newDump, "%s", false), "version = 3\nroot = \"/x\"\n", true, "version = 4\n" + tablesOf(newCRI, false)},
		{"version 2 with comments", fmt.Sprintf(oldDump, true), commented, false, commented + "\n" + tablesOf(oldCRI, true)},
		{"version 2 on a release that prints 3", strings.Replace(fmt.Sprintf(newDump, "%s/not", true), "version = 4", "version = 3", 1), commented, false, commented + "\n" + tablesOf(oldCRI, true)},
		{"version 3", strings.Replace(fmt.Sprintf(newDump, "%s/not", false), "version = 4", "version = 3", 1), "version = 3\n", false, "version = 3\n" + tablesOf(newCRI, false)},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := containerdDir(t, c.dump)
			if c.before != "" {
				write(t, o.Config, c.before, 0o640)
			}
			file := o.Config
			if c.dropIn {
				file = o.DropIn
			}
			p, err := Containerd(o)
			if err != nil {
				t.Fatal(err)
			}
			if p.File != file || string(p.After) != c.want || !p.Changed() || !strings.Contains(p.Diff, "+  runtime_path") {
				t.Fatalf("%s:\n%s\nwant %s:\n%s", p.File, p.After, file, c.want)
			}
			if _, err := os.Stat(file); err == nil && c.before == "" {
				t.Fatal("a plan has written")
			}
			backup, err := p.Apply()
			if err != nil {
				t.Fatal(err)
			}
			if had := c.before != "" && !c.dropIn; (backup != "") != had || had && read(t, backup) != c.before {
				t.Errorf("backup %q", backup)
			}
			again, err := Containerd(o)
			if err != nil || again.Changed() || again.Diff != "" {
				t.Fatalf("a second run: %v, %v", err, again)
			}
			undo, err := UndoContainerd(o)
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range undo {
				if _, err := u.Apply(); err != nil {
					t.Fatal(err)
				}
			}
			if c.before == "" || c.dropIn {
				if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s is left: %v", file, err)
				}
			}
			if c.before != "" {
				if got := read(t, o.Config); strings.TrimRight(got, "\n") != strings.TrimRight(c.before, "\n") {
					t.Errorf("after the removal:\n%s\nwant\n%s", got, c.before)
				}
			}
			if left, _ := filepath.Glob(filepath.Join(filepath.Dir(o.Config), "*"+backupSuffix)); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			undo, err = UndoContainerd(o)
			if err != nil || len(undo) != 1 || undo[0].Changed() {
				t.Errorf("a second removal: %v, %v", undo, err)
			}
		})
	}
}

// TestContainerdConflicts: what is not agentjail's stays, unless asked; what is, and old, is renewed in the file where it is.
func TestContainerdConflicts(t *testing.T) {
	kata := "version = 2\n\n[plugins.\"" + oldCRI + "\".containerd.runtimes.agentjail]\n  runtime_type = \"io.containerd.kata.v2\"\n\n# about debugging\n[debug]\n  level = \"warn\"\n"
	o := containerdDir(t, fmt.Sprintf(oldDump, false))
	write(t, o.Config, kata, 0o644)
	if _, err := Containerd(o); !errors.Is(err, ErrConflict) {
		t.Errorf("another's handler: %v", err)
	}
	if _, err := UndoContainerd(o); !errors.Is(err, ErrConflict) {
		t.Errorf("removal of another's handler: %v", err)
	}
	o.Force = true
	p, err := Containerd(o)
	if err != nil {
		t.Fatal(err)
	}
	if want := "version = 2\n\n# about debugging\n[debug]\n  level = \"warn\"\n" + tablesOf(oldCRI, false); string(p.After) != want {
		t.Errorf("forced:\n%s\nwant\n%s", p.After, want)
	}
	o.Force = false

	// An entry of agentjail's own with another setting is renewed.
	old := "version = 2\n" + strings.Replace(tablesOf(oldCRI, false), "privileged_without_host_devices = true", "privileged_without_host_devices = false", 1)
	write(t, o.Config, old, 0o644)
	if p, err = Containerd(o); err != nil || !p.Changed() || strings.Contains(string(p.After), "= false\n  pod") || strings.Count(string(p.After), "runtimes.agentjail]") != 1 {
		t.Errorf("renewed: %v\n%s", err, p.After)
	}

	for text, says := range map[string]string{
		"root = \"/x\"\n":             "version 1",
		"version = 1\n":               "version 1",
		"version = 9\n":               "version 9",
		"version = 2\nversion = 2\n":  "not valid TOML",
		"version = 2\nx = [1\n":       "not valid TOML",
		"version = 2\nplugins = {}\n": "cannot be edited",
	} {
		write(t, o.Config, text, 0o644)
		if _, err := Containerd(o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
		if got := read(t, o.Config); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	o.Program = "/bin/false"
	if _, err := Containerd(o); err == nil {
		t.Error("a containerd that fails")
	}
}

// TestCutTables: only the tables go, and what lies between stays where it was.
func TestCutTables(t *testing.T) {
	for _, c := range []struct{ before, after string }{
		{"a = 1\n[x.y]\nb = 1\n[x.y.z]\nc = 1\n[w]\nd = 1\n", "a = 1\n\n[w]\nd = 1\n"},
		{"a = 1\n\n[x.y]\nb = 1\n\n# of w\n\n# more of w\n[w]\n", "a = 1\n\n# of w\n\n# more of w\n[w]\n"},
		{"[x]\nb = '''\n[x.y]\n'''\n[ \"x\" . 'y' ] # comment\nc = 1\n", "[x]\nb = '''\n[x.y]\n'''\n"},
		{"[x.yy]\n[x]\n[y.x]\n", "[x.yy]\n[x]\n[y.x]\n"},
		{"[[x.y]]\na = 1\n[[x.y]]\na = 2\n", ""},
		{"[x.y]\n", ""},
		{"", ""},
	} {
		got, err := cutTables([]byte(c.before), "x", "y")
		if err != nil || string(got) != c.after {
			t.Errorf("%q became %q, %v, and not %q", c.before, got, err, c.after)
		}
	}
}
