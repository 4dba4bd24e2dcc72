package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// trustAll lets programs be registered that are in a test's directory.
func trustAll(t *testing.T) {
	old := checkBinary
	checkBinary = func(path string) error { _, err := os.Stat(path); return err }
	t.Cleanup(func() { checkBinary = old })
}

// trustAny lets programs be registered that are not there.
func trustAny(t *testing.T) {
	t.Helper()
	old := checkBinary
	checkBinary = func(string) error { return nil }
	t.Cleanup(func() { checkBinary = old })
}

// directory is a configuration directory without a daemon.
func directory(t *testing.T) Options {
	t.Helper()
	trustAll(t)
	dir := t.TempDir()
	return Options{
		Runtimes: []Runtime{{"agentjail", "/bin/sh"}},
		Config:   filepath.Join(dir, "docker/daemon.json"),
		PIDFile:  filepath.Join(dir, "docker.pid"),
		Socket:   filepath.Join(dir, "docker.sock"),
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// entries lists the directory of the configuration file.
func entries(t *testing.T, o Options) string {
	t.Helper()
	list, err := os.ReadDir(filepath.Dir(o.Config))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// undo is the removal of what the options register.
func undo(o Options) Options {
	o.Undo = true
	return o
}

// diff is what a plan shows of its only file.
func diff(t *testing.T, p *Plan) string {
	t.Helper()
	if len(p.Files) != 1 {
		t.Fatalf("%d files", len(p.Files))
	}
	return p.Files[0].Diff
}

// outcome is what came of a plan for one file.
type outcome struct {
	Result
	Backup string
}

func apply(t *testing.T, e Engine, o Options) outcome {
	t.Helper()
	p, err := NewPlan(e, o)
	if err != nil {
		t.Fatal(err)
	}
	if (diff(t, p) != "") != p.Changed() {
		t.Errorf("changed %v, diff %q", p.Changed(), diff(t, p))
	}
	r, err := p.Apply(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if r.Changed != p.Changed() {
		t.Errorf("plan %v, result %v", p.Changed(), r.Changed)
	}
	return outcome{r, p.Files[0].Backup}
}

func TestInstallAndUndo(t *testing.T) {
	o := directory(t)
	before := "{\n    \"debug\": true,\n    \"x\": 1e999\n}\n"
	write(t, o.Config, before, 0o640)
	if os.Geteuid() == 0 {
		if err := os.Chown(o.Config, 7, 8); err != nil {
			t.Fatal(err)
		}
		_ = unix.Setxattr(o.Config, "trusted.agentjail-test", []byte("kept"), 0)
	}
	var owner unix.Stat_t
	if err := unix.Stat(o.Config, &owner); err != nil {
		t.Fatal(err)
	}

	p, err := NewPlan(Docker, o)
	if err != nil {
		t.Fatal(err)
	}
	if read(t, o.Config) != before || entries(t, o) != "daemon.json" {
		t.Error("a plan alone changed something")
	}
	if !strings.Contains(diff(t, p), "+    \"runtimes\": {\n") || !strings.Contains(diff(t, p), "-    \"x\": 1e999\n+    \"x\": 1e999,\n") {
		t.Errorf("diff:\n%s", diff(t, p))
	}

	r := apply(t, Docker, o)
	if !r.Changed || r.Daemon.Running || r.Daemon.Detail == "" || r.Backup != o.Config+backupSuffix || read(t, r.Backup) != before {
		t.Errorf("%+v", r)
	}
	for _, path := range []string{o.Config, r.Backup} {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			t.Fatal(err)
		}
		if st.Mode != owner.Mode || st.Uid != owner.Uid || st.Gid != owner.Gid {
			t.Errorf("%s: mode %o, owner %d:%d", path, st.Mode, st.Uid, st.Gid)
		}
		value := make([]byte, 16)
		if n, err := unix.Getxattr(path, "trusted.agentjail-test", value); os.Geteuid() == 0 && err != unix.ENOTSUP && (err != nil || string(value[:n]) != "kept") {
			t.Errorf("%s: attribute %q, %v", path, value[:max(n, 0)], err)
		}
	}
	installed := read(t, o.Config)
	inode := func() uint64 {
		fi, err := os.Stat(o.Config)
		if err != nil {
			t.Fatal(err)
		}
		return fi.Sys().(*syscall.Stat_t).Ino
	}
	was := inode()
	if r := apply(t, Docker, o); r.Changed || r.Backup != "" || read(t, o.Config) != installed || inode() != was {
		t.Errorf("the second run: %+v", r)
	}
	if r := apply(t, Docker, undo(o)); !r.Changed || read(t, o.Config) != before || entries(t, o) != "daemon.json" {
		t.Errorf("%+v, directory %s:\n%s", r, entries(t, o), read(t, o.Config))
	}
	if r := apply(t, Docker, undo(o)); r.Changed {
		t.Errorf("the second undo: %+v", r)
	}
}

func TestNoFileNoDir(t *testing.T) {
	o := directory(t)
	if r := apply(t, Docker, undo(o)); r.Changed {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(filepath.Dir(o.Config)); err == nil {
		t.Error("undo made a directory")
	}
	p, err := NewPlan(Docker, o)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(diff(t, p), "--- /dev/null\n+++ "+o.Config+"\n@@ -0,0 +1,7 @@\n+{\n") {
		t.Errorf("diff:\n%s", diff(t, p))
	}
	old := syscall.Umask(0o077)
	r := apply(t, Docker, o)
	syscall.Umask(old)
	if fi, err := os.Stat(o.Config); !r.Changed || r.Backup != "" || err != nil || fi.Mode() != 0o644 {
		t.Errorf("%+v, %v, %v", r, fi, err)
	}
	apply(t, Docker, undo(o))
	if got := read(t, o.Config); got != "{}\n" {
		t.Errorf("left %q", got)
	}
}

func TestConfigRefused(t *testing.T) {
	for name, prepare := range map[string]func(o Options) error{
		"symbolic link": func(o Options) error {
			return errors.Join(os.WriteFile(o.Config+".real", []byte("{}"), 0o644), os.Symlink("daemon.json.real", o.Config))
		},
		"dangling link": func(o Options) error { return os.Symlink("nowhere", o.Config) },
		"directory":     func(o Options) error { return os.Mkdir(o.Config, 0o755) },
		"pipe":          func(o Options) error { return unix.Mkfifo(o.Config, 0o644) },
		"invalid JSON":  func(o Options) error { return os.WriteFile(o.Config, []byte("{\"a\": }"), 0o644) },
		"too long": func(o Options) error {
			return os.WriteFile(o.Config, []byte("{}"+strings.Repeat(" ", maxConfig)), 0o644)
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := directory(t)
			if err := os.MkdirAll(filepath.Dir(o.Config), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := prepare(o); err != nil {
				t.Fatal(err)
			}
			before := entries(t, o)
			for what, o := range map[string]Options{"install": o, "undo": undo(o)} {
				if _, err := NewPlan(Docker, o); err == nil || !strings.Contains(err.Error(), o.Config) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if after := entries(t, o); after != before {
				t.Errorf("directory %s, was %s", after, before)
			}
		})
	}
}

func TestChangedMeanwhile(t *testing.T) {
	o := directory(t)
	write(t, o.Config, "{}", 0o644)
	p, err := NewPlan(Docker, o)
	if err != nil {
		t.Fatal(err)
	}
	write(t, o.Config, `{"debug": true}`, 0o644)
	if _, err := p.Apply(context.Background()); !errors.Is(err, errFileChanged) {
		t.Error(err)
	}
	if got := read(t, o.Config); got != `{"debug": true}` || entries(t, o) != "daemon.json" {
		t.Errorf("%s, directory %s", got, entries(t, o))
	}
}

func TestUntrustedBinary(t *testing.T) {
	o := directory(t)
	checkBinary = checkRootsProgram
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil { // everybody can replace what is in it
		t.Fatal(err)
	}
	program := filepath.Join(dir, "agentjail")
	write(t, program, "#!/bin/sh\n", 0o755)
	o.Runtimes[0].Path = program
	if _, err := NewPlan(Docker, o); err == nil || !strings.Contains(err.Error(), "runtime agentjail") {
		t.Error(err)
	}
	if _, err := NewPlan(Docker, undo(o)); err != nil {
		t.Error(err)
	}
}

// TestNoDaemon: a pidfile that leads to no dockerd is no error, one that is rubbish is.
func TestNoDaemon(t *testing.T) {
	for text, ok := range map[string]bool{
		fmt.Sprint(os.Getpid()):    true, // a process, but not dockerd
		"4194303999":               false,
		"2147483647\n":             true, // gone
		"":                         false,
		"x":                        false,
		"-1":                       false,
		"0":                        false,
		"1":                        false,
		fmt.Sprint(os.Getpid(), 1): false,
	} {
		o := directory(t)
		write(t, o.PIDFile, text, 0o644)
		p, err := NewPlan(Docker, o)
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Apply(context.Background())
		if (err == nil) != ok || r.Daemon.Running || ok && r.Daemon.Detail == "" {
			t.Errorf("%q: %+v, %v", text, r, err)
		}
		if _, statErr := os.Stat(o.Config); (statErr == nil) != ok {
			t.Errorf("%q: written: %v", text, statErr)
		}
	}
}

func TestDaemonFlags(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		args string
		def  string
		want string
	}{
		{"dockerd --config-file " + dir + "/daemon.json", "", ""},
		{"dockerd --config-file=" + dir + "/daemon.json --debug", "", ""},
		{"dockerd --config-file=/elsewhere.json --config-file=" + dir + "/daemon.json", "", ""},
		{"dockerd", "", "reads /etc/docker/daemon.json"},
		{"dockerd --config-file=" + dir + "/other.json", "", "other.json"},
		{"dockerd --config-file=daemon.json", "", "relative"},
		{"dockerd --config-file=" + dir + "/daemon.json --add-runtime=x=y", "", "--add-runtime"},
		{"dockerd --config-file=" + dir + "/daemon.json --add-runtime x=y", "", "--add-runtime"},
		{"dockerd --config-file=" + dir + "/daemon.json --default-runtime=x", "", ""},
		{"dockerd --config-file=" + dir + "/daemon.json --default-runtime=x", "agentjail", "--default-runtime"},
	} {
		d := &daemon{pid: os.Getpid(), args: strings.Fields(tt.args)}
		err := d.checkFlags(Options{Config: dir + "/daemon.json", Default: tt.def})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.args, err)
		}
	}
}
