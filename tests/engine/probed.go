package engine

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Outcome is the probe's word on one attempt: the error's name, "" when it went through.
type Outcome struct {
	Errno string `json:"errno"`
	Note  string `json:"note"`
	Text  string `json:"text"`
}

// refusals are the answers that show that the kernel's code behind a system call was not reached.
var refusals = []string{"EPERM", "EACCES", "ENOSYS", "EAFNOSUPPORT", "ESOCKTNOSUPPORT", "EPROTONOSUPPORT", "SIGSYS"}

// otherRefusals are answers that are right for one attempt only.
var otherRefusals = map[string][]string{
	"tiocsti":              {"ENOTTY"}, // no terminal at hand: nothing to push into
	"tioclinux":            {"ENOTTY"},
	"setxattr_caps":        {"ENOTSUP"},
	"abstract_shim_socket": {"ENOENT", "ECONNREFUSED"}, // ENOENT: the test offers none
	"unix_msg_oob":         {"ENOTSUP", "EINVAL"},
	"tcp_ulp_tls":          {"ENOPROTOOPT", "EINVAL"},
	"setuid_other":         {"EINVAL"}, // no such id in the user namespace
	"chown_other":          {"EINVAL", "EOVERFLOW"},
	"prctl_set_mm":         {"EINVAL"},
	"personality":          {"EINVAL"},
	"hugetlb_mmap":         {"ENOMEM"}, // not reserved, so that a kernel would allow it that has none
	"hugetlb_memfd":        {"EINVAL"},
	"timer_thread_cpu":     {"ENOTSUP"},
	"timer_process_cpu":    {"ENOTSUP"},
	"timer_other_cpu":      {"ENOTSUP"},
	"sleep_process_cpu":    {"ENOTSUP"},
	"fsetxattr_user":       {"ENOTSUP"},
	"filter_prctl":         {"EINVAL"},
	"socket_filter":        {"ENOPROTOOPT"},
}

// Refused tells whether an attempt of the probe failed as it must in a jail.
func Refused(name string, o Outcome) bool {
	return slices.Contains(refusals, o.Errno) || slices.Contains(otherRefusals[name], o.Errno)
}

// Who is the probe's word on what a process is for the kernel.
type Who struct {
	UID        int               `json:"uid"`
	EUID       int               `json:"euid"`
	Groups     []int             `json:"groups"`
	UIDMap     string            `json:"uid_map"`
	GIDMap     string            `json:"gid_map"`
	Caps       map[string]string `json:"caps"`
	NoNewPrivs string            `json:"no_new_privs"`
	Seccomp    string            `json:"seccomp"`
	Namespaces map[string]string `json:"namespaces"`
	Hostname   string            `json:"hostname"`
	Exe        string            `json:"exe"`
	OOMAdj     string            `json:"oom_adj"`
}

// Namespaces are those of a process of this machine, by kind.
func Namespaces(t testing.TB, process string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, ns := range []string{"pid", "net", "mnt", "user", "uts", "ipc", "cgroup", "time"} {
		id, err := os.Readlink("/proc/" + process + "/ns/" + ns)
		if err != nil {
			t.Logf("this kernel has no %s namespace: %v", ns, err)
			continue
		}
		all[ns] = id
	}
	return all
}

// firstRangeID is the lowest host id that a jail may have.
const firstRangeID = 0x78000000

// Jailed tests everything that makes a process jailed whatever it was started with. ("exec" processes are no exception.)
func Jailed(t testing.TB, what string, w Who) {
	t.Helper()
	Held(t, what, w)
	for _, m := range []string{w.UIDMap, w.GIDMap} {
		var inside, outside, count uint64
		if _, err := fmt.Sscan(m, &inside, &outside, &count); err != nil || inside != 0 || outside < firstRangeID || outside%65536 != 0 || count != 65536 || len(strings.Fields(m)) != 3 {
			t.Errorf("%s: id map %q", what, m)
		}
	}
}

// Held is Jailed for a jail whose host ids are the engine's to choose.
func Held(t testing.TB, what string, w Who) {
	t.Helper()
	for set, caps := range w.Caps {
		if strings.Trim(caps, "0") != "" {
			t.Errorf("%s: %s capabilities %s", what, set, caps)
		}
	}
	if w.NoNewPrivs != "1" {
		t.Errorf("%s: no_new_privs is %s", what, w.NoNewPrivs)
	}
	if w.Seccomp != "2" {
		t.Errorf("%s: seccomp mode is %s, not 2 (filter)", what, w.Seccomp)
	}
	for ns, host := range Namespaces(t, "self") {
		if w.Namespaces[ns] == host {
			t.Errorf("%s: the host's %s namespace", what, ns)
		}
	}
}
