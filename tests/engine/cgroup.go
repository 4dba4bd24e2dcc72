package engine

import (
	"fmt"
	"math"
	"os"
	"path"
	"strings"
)

// CgroupLimit is what a process of this machine may have of a controller's resource: the least value in the group that it is in, and in
// those above. v1 and v2 name the file in either version of control groups. Without a limit it is the highest number.
func CgroupLimit(pid int, controller, v1, v2 string) uint64 {
	least := uint64(math.MaxUint64)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return least
	}
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		root, file := "/sys/fs/cgroup", v2
		if strings.Contains(","+f[1]+",", ","+controller+",") {
			root, file = "/sys/fs/cgroup/"+controller, v1
		} else if f[1] != "" {
			continue
		}
		for group := f[2]; group != "/" && group != "."; group = path.Dir(group) {
			var n uint64
			text, err := os.ReadFile(path.Join(root, group, file))
			if err != nil {
				continue
			}
			if _, err := fmt.Sscan(string(text), &n); err == nil { // not "max"
				least = min(least, n)
			}
		}
	}
	return least
}
