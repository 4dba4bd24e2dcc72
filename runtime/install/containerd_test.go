package install

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// What containerd prints of its configuration, by release; FILE stands for what the file states of
// runc.
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
func containerdDir(t *testing.T, dump string) Options {
	t.Helper()
	trustAll(t)
	dir := t.TempDir()
	o := Options{
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

// containerdCase is a configuration file and what becomes of it.
type containerdCase struct {
	name, dump string
	before     string // "" for no file
	main       string // %s stands for the drop-in's path
	dropIn     string // "" for none
}

// imported is a line that is added to a configuration file.
const imported = "imports = [\"%s\"] # added by agentjail\n"

// TestContainerd: what is written where, that a second run changes nothing, and that the removal
// gives back what was there.
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
	importing := strings.Replace(commented, `"/etc/x.toml"]`, `"/etc/x.toml", "%s"]`, 1)
	dump3 := func(systemd bool) string {
		return strings.Replace(fmt.Sprintf(newDump, "%s/not", systemd), "version = 4", "version = 3", 1)
	}
	for _, c := range []containerdCase{
		{"no file, old release", fmt.Sprintf(oldDump, false), "", "version = 2\n" + tablesOf(oldCRI, false), ""},
		{"no file, systemd", fmt.Sprintf(oldDump, true), "", "version = 2\n" + tablesOf(oldCRI, true), ""},
		{"no file, new release", fmt.Sprintf(newDump, "%s", true), "", "version = 4\n" + imported, "version = 4\n" + tablesOf(newCRI, true)},
		// That a release prints an import which the file does not have means nothing.
		{
			"a file, new release", fmt.Sprintf(newDump, "%s", false), "version = 3\nroot = \"/x\"\n",
			"version = 3\n" + imported + "root = \"/x\"\n", "version = 3\n" + tablesOf(newCRI, false),
		},
		{
			"a file that imports the directory", fmt.Sprintf(newDump, "%s", false), "version = 3\nimports = ['conf.d/*.toml']\n",
			"version = 3\nimports = ['conf.d/*.toml']\n", "version = 3\n" + tablesOf(newCRI, false),
		},
		{
			"imports of several lines", fmt.Sprintf(newDump, "%s", false), "version = 3\nimports = [\n  'a.toml', # first\n  'b.toml',\n]\n",
			"version = 3\nimports = [\n  'a.toml', # first\n  'b.toml', \"%s\",\n]\n", "version = 3\n" + tablesOf(newCRI, false),
		},
		{
			"no imports yet", fmt.Sprintf(newDump, "%s", false), "imports = [ ]\nversion = 3",
			"imports = [\"%s\" ]\nversion = 3", "version = 3\n" + tablesOf(newCRI, false),
		},
		{"version 2, old release", fmt.Sprintf(oldDump, true), commented, commented + "\n" + tablesOf(oldCRI, true), ""},
		// The drop-in has the version of the file.
		{"version 2 on a release that prints 3", dump3(true), commented, importing, "version = 2\n" + tablesOf(oldCRI, true)},
		{"version 2 on a release that prints 4", fmt.Sprintf(newDump, "%s", true), commented, importing, "version = 2\n" + tablesOf(oldCRI, true)},
		{"version 3", dump3(false), "version = 3", "version = 3\n" + imported, "version = 3\n" + tablesOf(newCRI, false)},
		// As this program once wrote it, and as a file is on a host whose containerd was renewed.
		{"handlers in the file, new release", fmt.Sprintf(newDump, "%s", true), commented + "\n" + tablesOf(oldCRI, true), commented + "\n" + tablesOf(oldCRI, true), ""},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t) })
	}
}

func (c containerdCase) test(t *testing.T) {
	o := containerdDir(t, c.dump)
	if c.before != "" {
		write(t, o.Config, c.before, 0o640)
	}
	want := map[string]string{o.Config: strings.ReplaceAll(c.main, "%s", o.DropIn)}
	if c.dropIn != "" {
		want[o.DropIn] = c.dropIn
	}
	present := func() map[string]string {
		out := map[string]string{}
		for _, file := range []string{o.Config, o.DropIn} {
			if _, err := os.Stat(file); err == nil {
				out[file] = read(t, file)
			}
		}
		return out
	}
	before := present()
	p, err := NewPlan(Containerd, o)
	if err != nil {
		t.Fatal(err)
	}
	if got := present(); !reflect.DeepEqual(got, before) {
		t.Fatal("a plan has written")
	}
	for _, f := range p.Files {
		if f.Changed() != (f.Diff != "") || string(f.After) != want[f.Path] {
			t.Errorf("%s:\n%s\nwant:\n%s", f.Path, f.After, want[f.Path])
		}
	}
	if _, err := p.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := present(); !reflect.DeepEqual(got, want) {
		t.Fatalf("written:\n%v\nwant:\n%v", got, want)
	}
	for _, f := range p.Files {
		if had := f.exists && f.Changed(); (f.Backup != "") != had || had && read(t, f.Backup) != before[f.Path] {
			t.Errorf("%s: backup %q", f.Path, f.Backup)
		}
	}
	again, err := NewPlan(Containerd, o)
	if err != nil || again.Changed() || len(again.Files) == 0 {
		t.Fatalf("a second run: %v, %v", err, again)
	}
	c.remove(t, o)
}

// remove takes out what was registered.
func (c containerdCase) remove(t *testing.T, o Options) {
	t.Helper()
	p, err := NewPlan(Containerd, undo(o))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	had, _, _ := strings.Cut(c.before, "\n[plugins.\""+oldCRI+"\".containerd.runtimes.agentjail]")
	for file, want := range map[string]string{o.Config: had, o.DropIn: ""} {
		got, err := os.ReadFile(file)
		if want == "" && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v\n%s", file, err, got)
		}
		if want != "" && strings.TrimRight(string(got), "\n") != strings.TrimRight(want, "\n") {
			t.Errorf("after the removal:\n%s\nwant\n%s", got, want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(o.Config), "*"+backupSuffix)); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if p, err = NewPlan(Containerd, undo(o)); err != nil || len(p.Files) != 1 || p.Changed() {
		t.Errorf("a second removal: %v, %v", p, err)
	}
}

// TestContainerdVersions: containerd 2.0 to 2.2 lose settings where files of different versions
// meet. A drop-in of another version than the file is written anew if it is agentjail's alone;
// where others are imported, the file itself is edited.
func TestContainerdVersions(t *testing.T) {
	dump3 := strings.Replace(fmt.Sprintf(newDump, "%s", false), "version = 4", "version = 3", 1)
	o := containerdDir(t, dump3)
	write(t, o.Config, "version = 2\nimports = [\"conf.d/*.toml\"]\n", 0o644)
	write(t, o.DropIn, "version = 3\n"+tablesOf(newCRI, false), 0o644)
	p, err := NewPlan(Containerd, o)
	if err != nil || len(p.Files) != 1 || string(p.Files[0].After) != "version = 2\n"+tablesOf(oldCRI, false) {
		t.Fatalf("%v: %+v", err, p)
	}
	write(t, o.DropIn, "version = 3\nroot = \"/x\"\n"+tablesOf(newCRI, false), 0o644)
	if _, err := NewPlan(Containerd, o); err == nil || !strings.Contains(err.Error(), "same version") {
		t.Errorf("a drop-in with something else: %v", err)
	}
	if err := os.Remove(o.DropIn); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(filepath.Dir(o.DropIn), "other.toml")
	for text, file := range map[string]string{"version = 3\n": o.Config, "version = 2\n": o.DropIn, "root = \"/y\"\n": o.DropIn, "version = [\n": o.Config} {
		write(t, other, text, 0o644)
		p, err := NewPlan(Containerd, o)
		if err != nil || len(p.Files) != 1 && file == o.Config || p.Files[0].Path != file {
			t.Errorf("%q beside: %v, %+v", text, err, p)
		}
	}
}

// TestContainerdKeepsOthersDropIn: what else is in the drop-in stays, and then the import of it,
// too.
func TestContainerdKeepsOthersDropIn(t *testing.T) {
	o := containerdDir(t, fmt.Sprintf(newDump, "%s", false))
	write(t, o.Config, "version = 3\n", 0o644)
	const theirs = "version = 3\n[debug]\n  level = \"warn\"\n"
	write(t, o.DropIn, theirs, 0o644)
	for _, o := range []Options{o, undo(o)} {
		p, err := NewPlan(Containerd, o)
		if err == nil {
			_, err = p.Apply(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, o.DropIn); got != theirs {
		t.Errorf("the drop-in became %q", got)
	}
	if got := read(t, o.Config); got != fmt.Sprintf("version = 3\n"+imported, o.DropIn) {
		t.Errorf("the file became %q", got)
	}
}

// TestChangedMeanwhileOfSeveral: no file is written if one of them has changed.
func TestChangedMeanwhileOfSeveral(t *testing.T) {
	o := containerdDir(t, fmt.Sprintf(newDump, "%s", false))
	write(t, o.Config, "version = 3\n", 0o644)
	p, err := NewPlan(Containerd, o)
	if err != nil || len(p.Files) != 2 {
		t.Fatal(err, p)
	}
	write(t, o.Config, "version = 3\nroot = \"/x\"\n", 0o644)
	if _, err := p.Apply(t.Context()); !errors.Is(err, errFileChanged) {
		t.Error(err)
	}
	if _, err := os.Stat(o.DropIn); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the drop-in was written: %v", err)
	}
}

// TestArrays: strings go into an array and out of it, and the rest stays as it was.
func TestArrays(t *testing.T) {
	for _, c := range []struct{ before, with, after string }{
		{"version = 3\n[t]\n", "version = 3\ni = [\"v\"] # added by agentjail\n[t]\n", ""},
		{"# a\nversion = 3 # b\nx = 1\n", "# a\nversion = 3 # b\ni = [\"v\"] # added by agentjail\nx = 1\n", ""},
		{"i = []\n", "i = [\"v\"]\n", ""},
		{"i = [\n]\n", "i = [\"v\"\n]\n", ""},
		{"i = ['a, [b', \"c\" , ] # d\n", "i = ['a, [b', \"c\", \"v\" , ] # d\n", ""},
		{"\"i\"  =  [\"a\"]", "\"i\"  =  [\"a\", \"v\"]", ""},
	} {
		with, err := putInArray([]byte(c.before), "i", "v")
		if err != nil || string(with) != c.with {
			t.Errorf("%q became %q, %v, and not %q", c.before, with, err, c.with)
			continue
		}
		if after, err := cutFromArray(with, "i", "v"); err != nil || string(after) != c.before {
			t.Errorf("%q became %q, %v, and not %q", with, after, err, c.before)
		}
	}
	if got, err := cutFromArray([]byte("i = ['v', 'w']\n"), "i", "v"); err != nil || string(got) != "i = ['w']\n" {
		t.Errorf("%q, %v", got, err)
	}
	for _, text := range []string{"i = 1\n", "i = [[1]]\n", "i = [\n", "i.j = []\n[i]\n"} {
		got, err := putInArray([]byte(text), "i", "v")
		if _, rerr := readTOML(got); err == nil && rerr == nil {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// TestContainerdConflicts: what is not agentjail's stays, unless an option overrides it; what is, and old, is
// renewed in the file where it is.
func TestContainerdConflicts(t *testing.T) {
	kata := "version = 2\n\n[plugins.\"" + oldCRI + "\".containerd.runtimes.agentjail]\n  runtime_type = \"io.containerd.kata.v2\"\n\n# about debugging\n[debug]\n  level = \"warn\"\n"
	o := containerdDir(t, fmt.Sprintf(oldDump, false))
	write(t, o.Config, kata, 0o644)
	if _, err := NewPlan(Containerd, o); !errors.Is(err, errConflict) {
		t.Errorf("another's handler: %v", err)
	}
	if _, err := NewPlan(Containerd, undo(o)); !errors.Is(err, errConflict) {
		t.Errorf("removal of another's handler: %v", err)
	}
	o.Force = true
	p, err := NewPlan(Containerd, o)
	if err != nil {
		t.Fatal(err)
	}
	if want := "version = 2\n\n# about debugging\n[debug]\n  level = \"warn\"\n" + tablesOf(oldCRI, false); string(p.Files[0].After) != want {
		t.Errorf("forced:\n%s\nwant\n%s", p.Files[0].After, want)
	}
	o.Force = false

	// An entry of agentjail's own with another setting is renewed.
	old := "version = 2\n" + strings.Replace(tablesOf(oldCRI, false), "privileged_without_host_devices = true", "privileged_without_host_devices = false", 1)
	write(t, o.Config, old, 0o644)
	if p, err = NewPlan(Containerd, o); err != nil || !p.Changed() || strings.Contains(string(p.Files[0].After), "= false\n  pod") || strings.Count(string(p.Files[0].After), "runtimes.agentjail]") != 1 {
		t.Errorf("renewed: %v\n%s", err, p.Files[0].After)
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
		if _, err := NewPlan(Containerd, o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
		if got := read(t, o.Config); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	o.Program = "/bin/false"
	if _, err := NewPlan(Containerd, o); err == nil {
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
