package inspect

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/procstatus"
	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/network/modes"
	"agentjail.dev/runtime/observe/ebpf/status"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/state"
)

// kinds are the namespaces, by their names in /proc/PID/ns, in the order of the
// output.
var kinds = []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"}

// Namespace is one namespace of the jail's first process, by inode numbers.
type Namespace struct {
	Jail uint64 `json:"jail"`
	Host uint64 `json:"host"` // 0 where the kernel has no such kind
	// Owner is the user namespace that it belongs to; 0 where that is the host's or was not
	// queried.
	Owner uint64 `json:"owner,omitempty"`
}

// seen is all that was seen of a jail. Judging it needs nothing else, so that
// it can be tested without jails.
type seen struct {
	pid        int
	processes  []*process // processes[0] is the first
	more       int        // processes that were not looked at
	strangers  []string   // processes of others with the jail's ids
	uidMap     []specs.LinuxIDMapping
	gidMap     []specs.LinuxIDMapping
	namespaces map[string]Namespace
	hostname   string // "" where it cannot be read
	userNS     userNS
	offsets    map[string]int64 // of the clocks, in seconds
	network    network.Audit
	mounts     []mount
	hostDevs   map[string]bool // file systems that the host has mounted
	ebpf       status.State
	registered bool   // with the eBPF programs, by its user namespace
	rootSize   uint64 // of the file system at the root, in bytes
	rootFiles  uint64
	paths      map[string]pathState // masked and read-only paths
	cgroup     cgroupState
	exposed    []Exposed // what is still the host's
	ways       int       // of how many that could be
}

// maxProcesses bounds how many processes are looked at; policy's limit on them
// is well below.
const maxProcesses = 4096

// look gathers everything.
func look(j *state.Jail, d *demands) (*seen, error) {
	p, err := openProc(j.InitPid)
	if err != nil {
		return nil, err
	}
	defer p.close()
	// The directory is open: if it is the right process now, it stays the right one.
	if !j.InitAlive() {
		return nil, ErrNotRunning
	}
	s := &seen{pid: j.InitPid, hostDevs: map[string]bool{}, ebpf: status.Look()}
	first, err := readProcess(p)
	if err != nil {
		return nil, err
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"id maps", func() error { return s.lookIDs(p) }},
		{"namespaces", func() error { return s.lookNamespaces(p) }},
		{"host name", func() error { return s.lookName(p, d) }},
		{"user namespace", func() error { return s.lookUserNS(p) }},
		{"network", func() error { return s.lookNetwork(p, j, d) }},
		{"mounts", func() error { return s.lookMounts(p) }},
		{"paths", func() error { return s.lookPaths(p, d) }},
		{"control groups", func() error { return s.lookGroups(first, d.host.Rootless) }},
		{"processes", func() error { return s.lookProcesses(first) }},
		{"what is the host's", func() error { return s.lookHost(p, first, d) }},
	} {
		if err := step.do(); err != nil {
			return nil, fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return s, nil
}

// lookGroups reads the jail's control groups. A rootless engine makes none that it
// may not, and leaves the jail in its own.
func (s *seen) lookGroups(first *process, rootless bool) error {
	groups := first.cgroups
	if rootless {
		all, err := cgroups.Of("self")
		if err != nil {
			return err
		}
		own := byController(all)
		groups = maps.Clone(groups)
		maps.DeleteFunc(groups, func(controller, path string) bool { return path == "/" || path == own[controller] })
	}
	return s.cgroup.look(groups)
}

func (s *seen) lookIDs(p *proc) error {
	for name, to := range map[string]*[]specs.LinuxIDMapping{"uid_map": &s.uidMap, "gid_map": &s.gidMap} {
		text, err := p.read(name, maxSmall)
		if err != nil {
			return err
		}
		if *to, err = parseIDMap(text); err != nil {
			return err
		}
	}
	return nil
}

func (s *seen) lookNamespaces(p *proc) error {
	s.namespaces = map[string]Namespace{}
	for _, k := range kinds {
		var n Namespace
		var st unix.Stat_t
		if err := unix.Stat("/proc/self/ns/"+k, &st); errors.Is(err, unix.ENOENT) {
			continue // the kernel has no such kind
		} else if err != nil {
			return err
		}
		n.Host = st.Ino
		var err error
		if n.Jail, err = p.inode(k); err != nil {
			return err
		}
		if k != "user" {
			if n.Owner, err = s.ownerOf(p, k); err != nil {
				return err
			}
		}
		s.namespaces[k] = n
	}
	text, err := p.read("timens_offsets", maxSmall)
	if err == nil {
		s.offsets = parseOffsets(text)
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// lookName reads the jail's name in its UTS namespace (uname(2)). A user's engine may have no right
// to enter that.
func (s *seen) lookName(p *proc, d *demands) error {
	if d.sandbox != "" { // the guest kernel has it
		if d.spec != nil {
			s.hostname = d.spec.Hostname
		}
		return nil
	}
	f, err := p.open("ns/uts", unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	err = thread.Own(func() error {
		if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWUTS); err != nil {
			return err
		}
		var u unix.Utsname
		if err := unix.Uname(&u); err != nil {
			return err
		}
		s.hostname = unix.ByteSliceToString(u.Nodename[:])
		return nil
	})
	if errors.Is(err, unix.EPERM) {
		return nil
	}
	return err
}

// ownerOf requests the user namespace that a namespace belongs to
// (ioctl_nsfs(2), NS_GET_USERNS). 0 is the host's own.
func (s *seen) ownerOf(p *proc, kind string) (uint64, error) {
	f, err := p.open("ns/"+kind, unix.O_RDONLY)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	const nsGetUserns = 0xb701
	fd, err := unix.IoctlRetInt(int(f.Fd()), nsGetUserns)
	if errors.Is(err, unix.EPERM) {
		return 0, nil // out of our sight: an ancestor's
	}
	if err != nil {
		return 0, fmt.Errorf("owner of the %s namespace: %w", kind, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Ino == s.namespaces["user"].Host {
		return 0, err
	}
	return st.Ino, nil
}

// lookNetwork has the network's mode look at the namespace. One that is the host's
// has no protections, and is not entered.
func (s *seen) lookNetwork(p *proc, j *state.Jail, d *demands) error {
	if n := s.namespaces["net"]; n.Jail == n.Host {
		s.network = network.Audit{
			Want:        "nothing but lo",
			Protections: []network.Finding{{Name: "links", Detail: "the network is the host's"}},
		}
		return nil
	}
	mode, err := modes.Named(j.Network.Mode)
	if err != nil {
		return err
	}
	s.network, err = mode.Audit(network.Jail{
		Decision: j.Network, FilterRequired: j.PacketFilter == "required",
		Open: func() (*os.File, error) { return p.open("ns/net", unix.O_RDONLY) },
		Dir:  d.dir, Key: j.Key, InitPid: j.InitPid,
		Rules: func() (network.Rules, error) {
			now, err := d.store.Load(j.Key) // they may have been read again since
			if err != nil {
				return network.Rules{}, err
			}
			r, err := now.Policy.Network.Helped()
			r.Credentials = now.Policy.Credentials
			return r, err
		},
	})
	return err
}

func (s *seen) lookMounts(p *proc) error {
	text, err := p.read("mountinfo", maxMounts)
	if err != nil {
		return err
	}
	if s.mounts, err = parseMounts(text); err != nil {
		return err
	}
	own, err := mountinfo.Read(mountinfo.Own)
	if err != nil {
		return err
	}
	for _, m := range own {
		s.hostDevs[m.Dev] = true
	}
	root, err := p.open("root", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer root.Close()
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(root.Fd()), &fs); err != nil {
		return err
	}
	s.rootSize, s.rootFiles = fs.Blocks*uint64(fs.Bsize), fs.Files
	for i := range s.mounts {
		s.mounts[i].device, s.mounts[i].owner = lookAt(root, s.mounts[i].Point)
		if s.mounts[i].isView() {
			s.mounts[i].size = sizeAt(root, s.mounts[i].Point)
		}
	}
	return nil
}

// openIn opens a path of the jail, without following a link or leaving its
// root.
func openIn(root *os.File, name string, flags int) (*os.File, error) {
	return openat.File(int(root.Fd()), name, openat.InRootNoLinks, flags)
}

// lookAt is the device node at a path, or "", and its owner in the host's ids; nil
// where it cannot be looked at.
func lookAt(root *os.File, name string) (device string, owner *plan.User) {
	f, err := openIn(root, name, unix.O_PATH)
	if err != nil {
		return "", nil
	}
	defer f.Close()
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return "", nil
	}
	return nodeOf(st), &plan.User{UID: st.Uid, GID: st.Gid}
}

// nodeOf is the device node that a file is, or "".
func nodeOf(st unix.Stat_t) string {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFCHR:
		return fmt.Sprintf("c %d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	case unix.S_IFBLK:
		return fmt.Sprintf("b %d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	}
	return ""
}

// pathState is what is at a path that should be masked or read-only.
type pathState struct {
	exists   bool
	readOnly bool
	// empty: nothing can be learnt there, as it is the null device or a tmpfs
	// without entries.
	empty bool
}

func (s *seen) lookPaths(p *proc, d *demands) error {
	root, err := p.open("root", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer root.Close()
	s.paths = map[string]pathState{}
	for _, name := range append(d.masked(), d.readOnly()...) {
		if s.paths[name], err = stateOf(root, name); err != nil {
			return err
		}
	}
	return nil
}

func stateOf(root *os.File, name string) (pathState, error) {
	f, err := openIn(root, path.Clean("/"+name), unix.O_PATH)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return pathState{}, nil
	case errors.Is(err, unix.ELOOP):
		// A link: what it leads to has a path of its own.
		return pathState{exists: true}, nil
	case err != nil:
		return pathState{}, fmt.Errorf("%s: %w", name, err)
	}
	defer f.Close()
	out := pathState{exists: true}
	var fs unix.Statfs_t
	var st unix.Stat_t
	if err := errors.Join(unix.Fstatfs(int(f.Fd()), &fs), unix.Fstat(int(f.Fd()), &st)); err != nil {
		return out, fmt.Errorf("%s: %w", name, err)
	}
	out.readOnly = fs.Flags&unix.ST_RDONLY != 0
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFCHR:
		out.empty = st.Rdev == unix.Mkdev(1, 3)
	case unix.S_IFDIR:
		if int64(fs.Type) == unix.TMPFS_MAGIC {
			entries, err := entriesOf(root, name)
			out.empty = err == nil && entries == 0
		}
	case unix.S_IFREG:
		out.empty = int64(fs.Type) == unix.TMPFS_MAGIC && st.Size == 0
	}
	return out, nil
}

// entriesOf counts a directory's entries, up to one.
func entriesOf(root *os.File, name string) (int, error) {
	f, err := openIn(root, path.Clean("/"+name), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	names, _ := f.Readdirnames(1)
	return len(names), nil
}

// lookProcesses finds the jail's processes: those in its mount namespace, which
// no process in the jail can leave, and those in its control groups.
func (s *seen) lookProcesses(first *process) error {
	s.processes = []*process{first}
	grouped := map[int]bool{}
	for _, pid := range s.cgroup.members {
		grouped[pid] = true
	}
	pids, err := procstatus.Pids()
	for _, pid := range pids {
		if pid != first.pid {
			s.lookProcess(pid, first, grouped[pid])
		}
	}
	return err
}

// lookProcess adds one process if it is the jail's, or notes that it has the
// jail's ids without being in its user namespace. A process that ends meanwhile
// is none.
func (s *seen) lookProcess(pid int, first *process, grouped bool) {
	p, err := openProc(pid)
	if err != nil {
		return
	}
	defer p.close()
	mnt, err := p.inode("mnt")
	if err != nil {
		return
	}
	if !grouped && mnt != first.mntNS {
		s.lookStranger(p, first)
		return
	}
	if len(s.processes) == maxProcesses {
		s.more++
		return
	}
	if x, err := readProcess(p); err == nil {
		s.processes = append(s.processes, x)
	}
}

// lookStranger notes a process outside the jail that has one of its ids. A jail
// that shares the user namespace shares the ids.
func (s *seen) lookStranger(p *proc, first *process) {
	user, err := p.inode("user")
	if err != nil || user == first.userNS {
		return
	}
	text, err := p.read("status", maxSmall)
	if err != nil {
		return
	}
	x, err := parseStatus(text)
	if err != nil {
		return
	}
	x.pid = p.pid
	for _, id := range x.uids {
		// The overflow user is mapped if policy maps it, and is shared.
		if id != idmap.Overflow && mapped(s.uidMap, id) {
			s.strangers = append(s.strangers, x.who())
			return
		}
	}
}

// mapped reports whether a host id belongs to the mapping.
func mapped(ms []specs.LinuxIDMapping, id uint32) bool {
	return slices.ContainsFunc(ms, func(m specs.LinuxIDMapping) bool { return id >= m.HostID && id-m.HostID < m.Size })
}
