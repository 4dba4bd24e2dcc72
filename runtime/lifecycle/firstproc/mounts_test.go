package firstproc

import (
	"slices"
	"testing"

	"agentjail.dev/runtime/kernel/mountinfo"
)

func TestLoose(t *testing.T) {
	const runc = `1 0 0:46 / / ro,nosuid,nodev - overlay agentjail rw
2 1 0:79 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs rw,mode=755
3 2 0:29 /j /sys/fs/cgroup/cpu ro,nosuid - cgroup cgroup rw,cpu
4 1 0:80 / /proc/acpi ro,relatime - tmpfs tmpfs ro
5 1 0:81 / /tmp rw,nosuid - tmpfs tmpfs rw,size=10k,nr_inodes=5
6 1 0:82 / /dev/mqueue rw,nosuid,nodev,noexec - mqueue mqueue rw
`
	const crun = `1 0 0:40 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup2 rw
131 75 0:46 / /proc/sys/dev ro,relatime - tmpfs tmpfs rw,size=0k
140 75 0:34 / /proc rw,nosuid,nodev,noexec - proc proc rw
144 75 0:34 /bus /proc/bus ro,nosuid,nodev,noexec - proc proc rw
145 75 0:34 /sys /proc/sys ro,relatime - proc proc rw
146 145 0:46 / /proc/sys/dev rw,relatime - tmpfs tmpfs rw,size=0k
147 145 0:6 /null /proc/sys/fs/aio-nr rw,nosuid - devtmpfs devtmpfs rw
148 75 0:90 / /dev/mqueue rw,relatime - mqueue mqueue rw
`
	for name, c := range map[string]struct {
		text string
		late []string
		want []looseMount
	}{
		"runc, version 1": {runc, nil, []looseMount{{at: "/sys/fs/cgroup"}}},
		"crun, version 2": {crun, nil, []looseMount{{at: "/proc/sys"}, {at: "/proc/sys/dev"}, {at: "/dev/mqueue", writable: true}}},
		"nothing":         {"", nil, nil},
		"a late one":      {runc, []string{"/tmp"}, []looseMount{{at: "/sys/fs/cgroup"}, {at: "/tmp"}}},
	} {
		if got := looseMounts(parsed(t, c.text), c.late); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// parsed reads a table of mounts.
func parsed(t *testing.T, text string) []mountinfo.Mount {
	t.Helper()
	ms, err := mountinfo.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return ms
}
