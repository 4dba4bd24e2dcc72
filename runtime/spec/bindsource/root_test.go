package bindsource

import "testing"

func TestRootRefusal(t *testing.T) {
	for _, c := range []struct {
		path, bundle string
		storage      []string
		refused      bool
	}{
		{"/", "/b", nil, true},
		{"/usr", "/b", nil, true},
		{"/etc", "/", nil, true},
		{"/etc/x", "/etc", nil, true},
		{"/run/agentjail", "/b", nil, true},
		{"/b/rootfs", "/b", nil, false},
		{"/srv/images/x", "/b", nil, false},
		{"/root/b/rootfs", "/root/b", nil, false},
		{"/root/b", "/root/b", nil, true},
		{"/root", "/", nil, true},
		{"/run/containerd/io.containerd.runtime.v2.task/ns/id/rootfs", "/b", []string{"/run/containerd"}, false},
	} {
		if why := text(RootRefusal(c.path, c.bundle, Engine{Storage: c.storage})); (why != "") != c.refused {
			t.Errorf("root %s of bundle %s: %q", c.path, c.bundle, why)
		}
	}
}
