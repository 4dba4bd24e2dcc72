package fork

import (
	"strings"

	"golang.org/x/sys/unix"
)

// NestedLimits are the files with the limits on namespaces below a user
// namespace that this kernel has (namespaces(7), /proc/sys/user). That on mount
// namespaces is not among them: the kernel counts the copies of mounts that are
// made from outside for `docker cp` and `docker update` as such, too.
func NestedLimits() []string {
	var out []string
	for kind := range strings.FieldsSeq("cgroup ipc net pid time user uts") {
		path := "/proc/sys/user/max_" + kind + "_namespaces"
		if unix.Access(path, unix.F_OK) == nil {
			out = append(out, path)
		}
	}
	return out
}
