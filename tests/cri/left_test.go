package cri

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

// containersGroup are the names of containers' control groups: an id for containerd, for CRI-O with a prefix. Those that CRI-O has made for its
// monitors are its own: it forgets them when it is started again.
var containersGroup = regexp.MustCompile(`^(crio-)?[0-9a-f]{64}(\.scope)?$`)

// jailsLeft looks for records, ids and control groups of this node's jails.
func (n *node) jailsLeft(t *testing.T) {
	t.Helper()
	records, _ := filepath.Glob("/run/agentjail/jails/*/state.json")
	for _, r := range records {
		if text, err := os.ReadFile(r); err == nil && bytes.Contains(text, []byte(n.Dir+"/")) {
			t.Errorf("the record %s is left", r)
		}
	}
	groups, _ := filepath.Glob("/sys/fs/cgroup/*" + n.cgroups + "/*/*/*")
	unified, _ := filepath.Glob("/sys/fs/cgroup" + n.cgroups + "/*/*/*")
	for _, g := range append(groups, unified...) {
		if st, err := os.Stat(g); err == nil && st.IsDir() && containersGroup.MatchString(filepath.Base(g)) {
			t.Errorf("the control group %s is left", g)
		}
	}
	mounts := env.Read(t, "/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, n.Dir+"/") && strings.Contains(line, "agentjail") && !strings.Contains(line, " nsfs ") {
			if f := strings.Fields(line); len(f) > 4 && strings.HasSuffix(f[4], "rootfs") {
				t.Errorf("the mount %s is left", f[4])
			}
		}
	}
}
