package firstproc

import (
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
)

func TestCheckPlaces(t *testing.T) {
	spec := &specs.Spec{Linux: &specs.Linux{MaskedPaths: []string{"/proc/keys"}, ReadonlyPaths: []string{"/proc/sys"}}}
	places := []string{"/proc", "/dev", "/dev/pts", "/sys/fs/cgroup", "/work/a b"}
	const usual = `1 0 0:1 / / rw - overlay o rw
2 1 0:2 / /proc rw - proc proc rw
3 1 0:3 / /dev rw - tmpfs tmpfs rw
4 3 0:4 / /dev/pts rw - devpts devpts rw
5 3 0:5 /null /dev/null rw - devtmpfs devtmpfs rw
6 1 0:6 / /sys/fs/cgroup ro - tmpfs tmpfs rw
7 6 0:7 / /sys/fs/cgroup/pids ro - cgroup cgroup rw
8 1 0:8 / /work/a\040b rw - ext4 /dev/vda rw
9 2 0:5 /null /proc/keys rw - devtmpfs devtmpfs rw
10 2 0:2 /sys /proc/sys ro - proc proc rw
11 8 0:9 / /work/a\040b/below rw - ext4 /dev/vdb rw
`
	for _, c := range []struct{ name, text, want string }{
		{"as it was to be", usual, ""},
		{"a mount in /proc", usual + "12 2 0:9 / /proc/1/attr rw - tmpfs tmpfs rw\n", "/proc/1/attr"},
		{"a mount over a setting", usual + "12 2 0:9 / /proc/sys/kernel rw - tmpfs tmpfs rw\n", "/proc/sys/kernel"},
		{"a mount in /sys", usual + "12 2 0:9 / /sys/class rw - tmpfs tmpfs rw\n", "/sys/class"},
		{"a mount that is not there", strings.Replace(usual, `/work/a\040b rw`, `/etc rw`, 1), "/work/a b"},
		{"no mounts", "", "/proc"},
	} {
		err := checkPlaces(spec, places, parsed(t, c.text))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want+" ") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
