package engine

import "slices"

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
	"merge_madvise":        {"EINVAL", "ENOSYS"}, // ENOSYS: profile strict
	"merge_prctl":          {"EINVAL"},
	"timer_thread_cpu":     {"ENOTSUP"},
	"timer_process_cpu":    {"ENOTSUP"},
	"timer_other_cpu":      {"ENOTSUP"},
	"sleep_process_cpu":    {"ENOTSUP"},
	"fsetxattr_user":       {"ENOTSUP"},
	"filter_prctl":         {"EINVAL"},
	"socket_filter":        {"ENOPROTOOPT"},
}

// Refused reports whether an attempt of the probe failed as it must in a jail.
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
	Filters    string            `json:"seccomp_filters"` // how many; "" before Linux 5.9
	Label      string            `json:"lsm"`             // AppArmor's or SELinux's
	Links      []string          `json:"links"`           // the network interfaces
	Up         []string          `json:"up"`              // those that are up
	Namespaces map[string]string `json:"namespaces"`
	Hostname   string            `json:"hostname"`
	Exe        string            `json:"exe"`
	OOMAdj     string            `json:"oom_adj"`
}
