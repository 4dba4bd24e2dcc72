package cri

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

// containersGroup are the names of containers' control groups: an id for containerd, for CRI-O with a prefix. Those that CRI-O has made for its
// monitors are its own: it forgets them when it is started again.
var containersGroup = regexp.MustCompile(`^(crio-)?[0-9a-f]{64}(\.scope)?$`)

// nothingLeft waits until nothing of this node's jails is left, nor a network namespace but those before. The daemon's last call for a pod can
// return before its shim has ended.
func (n *node) nothingLeft(t *testing.T, before []string) {
	t.Helper()
	var left []string
	gone := env.Poll(env.Patience, func() bool {
		left = n.jailsLeft()
		for _, ns := range cniNamespaces() {
			if !slices.Contains(before, ns) {
				left = append(left, "the network namespace "+ns)
			}
		}
		return len(left) == 0
	})
	if !gone {
		t.Errorf("left:\n%s", strings.Join(left, "\n"))
	}
}

// cniNamespaces lists the network namespaces that containerd keeps.
func cniNamespaces() []string {
	found, _ := filepath.Glob("/run/netns/cni-*")
	return found
}

// jailsLeft lists records, control groups and mounts of this node's jails.
func (n *node) jailsLeft() (left []string) {
	records, _ := filepath.Glob("/run/agentjail/jails/*/state.json")
	for _, r := range records {
		if text, err := os.ReadFile(r); err == nil && bytes.Contains(text, []byte(n.Dir+"/")) {
			left = append(left, "the record "+r)
		}
	}
	groups, _ := filepath.Glob("/sys/fs/cgroup/*" + n.cgroups + "/*/*/*")
	unified, _ := filepath.Glob("/sys/fs/cgroup" + n.cgroups + "/*/*/*")
	for _, g := range append(groups, unified...) {
		if st, err := os.Stat(g); err == nil && st.IsDir() && containersGroup.MatchString(filepath.Base(g)) {
			left = append(left, "the control group "+g)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		left = append(left, err.Error())
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, n.Dir+"/") && strings.Contains(line, "agentjail") && !strings.Contains(line, " nsfs ") {
			if f := strings.Fields(line); len(f) > 4 && strings.HasSuffix(f[4], "rootfs") {
				left = append(left, "the mount "+f[4])
			}
		}
	}
	return left
}
