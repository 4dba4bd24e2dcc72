package lifecycle

import (
	"testing"

	"agentjail.dev/runtime/kernel/cgroups"
)

// TestGroupDir: a group is looked for where its delegate makes it, and
// nowhere else, as what is found there is killed.
func TestGroupDir(t *testing.T) {
	for _, c := range []struct{ own, rel, runc, crun string }{
		{"/", "x", "/c/x", "/c/x"},
		{"/a/b", "/x/y", "/c/x/y", "/c/x/y"},
		{"/a/b", "x", "/c/a/b/x", "/c/x"},
		{"/a/b", "../../x", "/c/a/b/x", "/c/x"},
	} {
		if got := groupDir("/c", c.own, c.rel, false); got != c.runc {
			t.Errorf("runc, below %s, %s: %s, want %s", c.own, c.rel, got, c.runc)
		}
		if got := groupDir("/c", c.own, c.rel, true); got != c.crun {
			t.Errorf("crun, below %s, %s: %s, want %s", c.own, c.rel, got, c.crun)
		}
	}
}

func TestBase(t *testing.T) {
	for _, c := range []struct{ root, controllers, want string }{
		{"/sys/fs/cgroup/pids", "pids", "/a/b"},
		{"/sys/fs/cgroup/systemd", "name=systemd", "/a/b"},
		{"/sys/fs/cgroup", "", "/a"},
		{"/sys/fs/cgroup/unified", "", "/"},
	} {
		if got := base(c.root, cgroups.Group{Controllers: c.controllers, Path: "/a/b"}); got != c.want {
			t.Errorf("%s: %s, want %s", c.root, got, c.want)
		}
	}
}
