package cgroups

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/kernel/atomicfile"
)

// tree makes a host's control groups of plain files. Hierarchies are the
// directories that have a file cgroup.procs, of version 2 with cgroup.controllers.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	was := Version
	Version = func(dir string) int {
		v := 0
		for i, name := range []string{"cgroup.procs", "cgroup.controllers"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				v = i + 1
			}
		}
		return v
	}
	t.Cleanup(func() { Version = was })
	return root
}

// TestLayouts: in each layout, each hierarchy of a process is found where it is
// mounted, and only there.
func TestLayouts(t *testing.T) {
	v1 := map[string]string{"cpu,cpuacct/cgroup.procs": "", "memory/cgroup.procs": "", "systemd/cgroup.procs": "", "pids/a/pids.max": "5"}
	hybrid := map[string]string{"unified/cgroup.procs": "", "unified/cgroup.controllers": ""}
	maps.Copy(hybrid, v1)
	const table = "4:pids:/a\n3:cpu,cpuacct:/a\n2:memory:/a/b\n1:name=systemd:/a\n0::/c\n"
	for _, c := range []struct {
		name, table string
		files       map[string]string
		want        []string
	}{
		{"version 1", strings.TrimSuffix(table, "0::/c\n"), v1, []string{"cpu,cpuacct/a", "memory/a/b", "systemd/a"}},
		{"hybrid", table, hybrid, []string{"cpu,cpuacct/a", "memory/a/b", "systemd/a", "unified/c"}},
		{"version 2", "0::/c\n", map[string]string{"cgroup.controllers": "cpu memory pids\n", "cgroup.procs": ""}, []string{"c"}},
		{"none", table, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := tree(t, c.files)
			var got []string
			for _, g := range Parse(c.table) {
				for _, dir := range g.Mounts(root) {
					rel, err := filepath.Rel(root, filepath.Join(dir, g.Path))
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, rel)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestParse(t *testing.T) {
	got := Parse("12:cpu,cpuacct:/docker/abc\n3:memory:/a:b\nnonsense\n0::/../../y")
	if want := []Group{{"cpu,cpuacct", "/docker/abc"}, {"memory", "/a:b"}, {"", "/y"}}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if l := got[0].List(); !slices.Equal(l, []string{"cpu", "cpuacct"}) {
		t.Errorf("%q", l)
	}
	if l := got[2].List(); !slices.Equal(l, []string{""}) {
		t.Errorf("version 2: %q", l)
	}
	own, err := Of("self")
	if err != nil {
		t.Error(err)
	}
	for _, g := range own {
		if !filepath.IsAbs(g.Path) {
			t.Errorf("%+v", g)
		}
	}
}

// TestRead: what is read is bounded and followed nowhere.
func TestRead(t *testing.T) {
	root := tree(t, map[string]string{
		"v2/cgroup.controllers": "cpu memory\n", "v2/cgroup.procs": "7\n12\n0\n",
		"large/cgroup.procs": strings.Repeat("1234567\n", maxRead/8) + "9999999\n",
	})
	if got, err := Controllers(root + "/v2"); err != nil || !slices.Equal(got, []string{"cpu", "memory"}) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := Controllers(root + "/large"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of version 1: %v", err)
	}
	if got, err := Procs(root + "/v2"); err != nil || !slices.Equal(got, []int{7, 12}) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := Procs(root + "/large"); err != nil || len(got) != maxRead/8 || got[len(got)-1] != 1234567 {
		t.Errorf("%d processes, %v", len(got), err)
	}
	if _, err := Read(root+"/large", "cgroup.procs"); !errors.Is(err, atomicfile.ErrTooLong) {
		t.Errorf("a long one: %v", err)
	}
	if err := os.Symlink(root+"/v2/cgroup.procs", root+"/link"); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(root, "link"); err == nil {
		t.Error("a link was followed")
	}
}

// TestCanHave: what is left out of a start's and a delete's reading is what the kernel cannot have
// there.
func TestCanHave(t *testing.T) {
	if allV2() {
		for _, file := range []string{"cgroup.freeze", "memory.events"} {
			if !CanHave(Root+"/memory/x", file) {
				t.Errorf("a group of version 2 that is called memory has no %s", file)
			}
		}
		return
	}
	for _, c := range []struct {
		dir, file string
		want      bool
	}{
		{"/memory/x", "memory.failcnt", true},
		{"/memory/x", "cpu.stat", false},
		{"/memory/x", "cgroup.freeze", false},
		{"/cpu,cpuacct/x", "cpuacct.usage", true},
		{"/cpu,cpuacct/x", "cpu.stat", true},
		{"/freezer/x", "freezer.state", true},
		{"/unified/x", "cgroup.freeze", true},
		{"/pids/x", "freezer.state", false},
	} {
		if got := CanHave(Root+c.dir, c.file); got != c.want {
			t.Errorf("%s in %s: %v", c.file, c.dir, got)
		}
	}
	if !CanHave(t.TempDir(), "memory.events") {
		t.Error("a group elsewhere has nothing")
	}
}

// TestReadBounds: files of no size, of more than one read, and of more than is read.
func TestReadBounds(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("12345\n", maxRead/6+10)
	for name, c := range map[string]struct{ text, want string }{
		"empty": {"", ""}, "short": {"max\n", "max\n"}, "whole": {long[:maxRead-4], long[:maxRead-4]}, "exact": {long[:maxRead], long[:maxRead]},
		"longer": {long, long[:strings.LastIndexByte(long[:maxRead], '\n')+1]},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Read(dir, name)
		if got != c.want || errors.Is(err, atomicfile.ErrTooLong) != (name == "longer") || err != nil && name != "longer" {
			t.Errorf("%s: %d bytes of %d, %v", name, len(got), len(c.want), err)
		}
	}
	if _, err := Read(dir, "none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if got, err := Read("/proc", "self/cgroup"); err != nil || got == "" {
		t.Errorf("a file of the kernel's: %q, %v", got, err)
	}
}
