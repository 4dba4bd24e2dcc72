package hostfacts

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestHugePages(t *testing.T) {
	sizes := t.TempDir()
	for _, n := range []string{"hugepages-1048576kB", "hugepages-2048kB", "hugepages-64kB", "hugepages-xkB", "other"} {
		if err := os.Mkdir(filepath.Join(sizes, n), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	all := []string{"1GB", "2MB", "64KB"}
	for _, c := range []struct {
		name, file, text string
		want             []string
	}{
		{"version 2", "cgroup.controllers", "cpuset cpu io memory hugetlb pids\n", all},
		{"version 2 without the controller", "cgroup.controllers", "cpu io memory pids\n", nil},
		{"version 1", "hugetlb/cgroup.procs", "", all},
		{"version 1 without the controller", "memory/cgroup.procs", "", nil},
	} {
		groups := t.TempDir()
		file := filepath.Join(groups, c.file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := hugePages(groups, sizes); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
