package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/kernel/procstatus"
)

// Bounds of what is read from /proc, in bytes.
const (
	maxSmall  = 64 << 10
	maxMounts = 8 << 20 // some 50000 mounts
)

// proc is a process, known by its open directory in /proc: whatever is read
// through it is of that process, also when its number is used again.
type proc struct {
	pid int
	dir *os.File
}

func openProc(pid int) (*proc, error) {
	d, err := os.OpenFile("/proc/"+strconv.Itoa(pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &proc{pid, d}, nil
}

func (p *proc) close() { p.dir.Close() }

// open opens a file of the process's directory. The files in ns are magic links,
// which lead to the namespaces.
func (p *proc) open(name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(p.dir.Fd()), name, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: fmt.Sprintf("/proc/%d/%s", p.pid, name), Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (p *proc) read(name string, max int64) (string, error) {
	f, err := p.open(name, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return readBounded(f, max)
}

func readBounded(f *os.File, max int64) (string, error) {
	b, err := atomicfile.ReadAll(f, max)
	if err != nil {
		return "", fmt.Errorf("%s: %w", f.Name(), err)
	}
	return string(b), nil
}

// inode is the number of a namespace of the process.
func (p *proc) inode(kind string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(p.dir.Fd()), "ns/"+kind, &st, 0); err != nil {
		return 0, fmt.Errorf("/proc/%d/ns/%s: %w", p.pid, kind, err)
	}
	return st.Ino, nil
}

// process is what is read of each process of the jail.
type process struct {
	pid        int
	name       string // chosen by the process
	uids, gids []uint32
	groups     []uint32
	caps       map[string]uint64 // CapInh, CapPrm, CapEff, CapBnd, CapAmb
	noNewPrivs bool
	seccomp    int  // mode: 0 none, 1 strict, 2 filter
	filters    int  // -1 if the kernel does not report it (before Linux 5.9)
	entering   bool // it is still the init step into the jail
	label      string
	oomAdj     int
	limits     map[string]rlimit
	cgroups    map[string]string // path by controller; "" is version 2
	userNS     uint64
	pidNS      uint64
	mntNS      uint64
}

// who names the process in a finding.
func (p *process) who() string { return fmt.Sprintf("process %d (%s)", p.pid, p.name) }

// readProcess reads everything of one process.
func readProcess(p *proc) (*process, error) {
	text, err := p.read("status", maxSmall)
	if err != nil {
		return nil, err
	}
	out, err := parseStatus(text)
	if err != nil {
		return nil, fmt.Errorf("/proc/%d/status: %w", p.pid, err)
	}
	out.pid = p.pid
	for kind, to := range map[string]*uint64{"user": &out.userNS, "pid": &out.pidNS, "mnt": &out.mntNS} {
		if *to, err = p.inode(kind); err != nil {
			return nil, err
		}
	}
	if text, err = p.read("limits", maxSmall); err != nil {
		return nil, err
	}
	out.limits = parseLimits(text)
	if text, err = p.read("cgroup", maxSmall); err != nil {
		return nil, err
	}
	out.cgroups = byController(cgroups.Parse(text))
	if text, err = p.read("oom_score_adj", maxSmall); err != nil {
		return nil, err
	}
	if out.oomAdj, err = strconv.Atoi(strings.TrimSpace(text)); err != nil {
		return nil, err
	}
	out.label = readLabel(p)
	// The init step's program belongs to the host's root, who owns no file of the jail, and no
	// process of the jail may read it.
	var st unix.Stat_t
	if err := unix.Fstatat(int(p.dir.Fd()), "exe", &st, 0); err == nil {
		out.entering = st.Uid == 0 && st.Mode == unix.S_IFREG|0o111
	}
	return out, nil
}

// readLabel is the process's confinement, "" without a module that has labels.
// Where several modules do, AppArmor has a directory of its own
// (Documentation/admin-guide/LSM).
func readLabel(p *proc) string {
	for _, name := range []string{"attr/apparmor/current", "attr/current"} {
		if text, err := p.read(name, maxSmall); err == nil {
			return strings.TrimRight(text, "\n\x00")
		}
	}
	return ""
}

// parseStatus reads /proc/PID/status (proc_pid_status(5)).
func parseStatus(text string) (*process, error) {
	s := procstatus.Status("\n" + text)
	p := &process{name: s.Field("Name"), caps: map[string]uint64{}, noNewPrivs: s.Field("NoNewPrivs") == "1"}
	var err error
	for field, to := range map[string]*[]uint32{"Uid": &p.uids, "Gid": &p.gids, "Groups": &p.groups} {
		if *to, err = parseIDs(s.Field(field)); err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
	}
	for _, set := range capSets {
		if p.caps[set], err = strconv.ParseUint(s.Field(set), 16, 64); err != nil {
			return nil, fmt.Errorf("%s: %w", set, err)
		}
	}
	for field, to := range map[string]*int{"Seccomp": &p.seccomp, "Seccomp_filters": &p.filters} {
		if *to, err = strconv.Atoi(cmp.Or(s.Field(field), "-1")); err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
	}
	if len(p.uids) != 4 || len(p.gids) != 4 {
		return nil, errors.New("not a process's status")
	}
	return p, nil
}

func parseIDs(s string) ([]uint32, error) {
	var out []uint32
	for f := range strings.FieldsSeq(s) {
		n, err := strconv.ParseUint(f, 10, 32)
		if err != nil {
			return nil, err
		}
		out = append(out, uint32(n))
	}
	return out, nil
}

// rlimit is a soft and a hard limit; unlimited is the largest number.
type rlimit struct{ soft, hard uint64 }

// limitNames are the names in /proc/PID/limits of those that jails are bound by
// (fs/proc/base.c).
var limitNames = map[string]string{
	"Max cpu time": "RLIMIT_CPU", "Max file size": "RLIMIT_FSIZE", "Max data size": "RLIMIT_DATA", "Max stack size": "RLIMIT_STACK",
	"Max core file size": "RLIMIT_CORE", "Max resident set": "RLIMIT_RSS", "Max processes": "RLIMIT_NPROC",
	"Max open files":    "RLIMIT_NOFILE",
	"Max locked memory": "RLIMIT_MEMLOCK", "Max address space": "RLIMIT_AS", "Max file locks": "RLIMIT_LOCKS",
	"Max pending signals": "RLIMIT_SIGPENDING", "Max msgqueue size": "RLIMIT_MSGQUEUE", "Max nice priority": "RLIMIT_NICE",
	"Max realtime priority": "RLIMIT_RTPRIO", "Max realtime timeout": "RLIMIT_RTTIME",
}

// parseLimits reads /proc/PID/limits: a name of up to 25 characters, the soft
// and the hard limit, and sometimes a unit.
func parseLimits(text string) map[string]rlimit {
	out := map[string]rlimit{}
	for line := range strings.SplitSeq(text, "\n") {
		if len(line) < 26 {
			continue
		}
		name, ok := limitNames[strings.TrimSpace(line[:26])]
		f := strings.Fields(line[26:])
		if !ok || len(f) < 2 {
			continue
		}
		soft, err1 := parseLimit(f[0])
		hard, err2 := parseLimit(f[1])
		if err1 == nil && err2 == nil {
			out[name] = rlimit{soft, hard}
		}
	}
	return out
}

func parseLimit(s string) (uint64, error) {
	if s == "unlimited" {
		return ^uint64(0), nil
	}
	return strconv.ParseUint(s, 10, 64)
}

// byController returns the paths of control groups by controller; that of version 2 is "".
func byController(all []cgroups.Group) map[string]string {
	out := map[string]string{}
	for _, g := range all {
		for _, c := range g.List() {
			out[c] = g.Path
		}
	}
	return out
}

// parseIDMap reads uid_map or gid_map (user_namespaces(7)).
func parseIDMap(text string) ([]specs.LinuxIDMapping, error) {
	var out []specs.LinuxIDMapping
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		n, err := parseIDs(line)
		if err != nil || len(n) != 3 {
			return nil, fmt.Errorf("%q is not an id mapping", line)
		}
		out = append(out, specs.LinuxIDMapping{ContainerID: n[0], HostID: n[1], Size: n[2]})
	}
	return out, nil
}

// parseOffsets reads /proc/PID/timens_offsets (time_namespaces(7)): the clock,
// seconds, nanoseconds.
func parseOffsets(text string) map[string]int64 {
	out := map[string]int64{}
	for line := range strings.SplitSeq(text, "\n") {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
			out[f[0]] = n
		}
	}
	return out
}
