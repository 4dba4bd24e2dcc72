package lifecycle

import (
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/internal/ringfault"
	"agentjail.dev/runtime/jailinit"
	"agentjail.dev/runtime/jailinit/host"
	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/kernel/hostfacts"
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/kernel/namespace"
	"agentjail.dev/runtime/lifecycle/firstproc"
	"agentjail.dev/runtime/rootfs/procfiles"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/traits"
	"agentjail.dev/runtime/state"
	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/bpf"
)

// An initStep describes the init step of one process.
type initStep struct {
	// process is changed: its program becomes the step's first argument.
	process *specs.Process
	host    hostfacts.Facts
	filter  []byte // the inner filter
	// linux is nil for a further process of a running jail, whose mounts were checked at its start.
	linux     *specs.Linux
	synthetic []string // the paths of the jail's synthetic files
	places    []string // where the jail's mounts are
	loopback  bool     // no other interface may have an address or a route
	stays     bool     // this process waits for the end of the step's
}

// throughEnter has the delegate start the init step in place of a process's program, and returns
// the files that are passed on for it.
func (r *Runtime) throughEnter(j *state.Jail, step initStep) (*host.Files, error) {
	p, f, linux := step.process, step.host, step.linux
	o := &jailinit.Orders{
		UIDMap: idmap.Text(j.IDs.UIDs), GIDMap: idmap.Text(j.IDs.GIDs),
		UID: p.User.UID, GID: p.User.GID, Groups: p.User.AdditionalGids,
		Capabilities: policy.CapabilityMask(p.Capabilities.Permitted),
		Namespaces:   hostNamespaces(f),
		Loopback:     step.loopback,
		Limits:       groupLimits(j, f),
		OOMScore:     uint32(firstproc.OOMScore(p)),
		Umask:        umaskOf(p, j.Process),
		Landlock: jailinit.Landlock{
			Want: true, Required: j.Policy.NeedsLandlock(), Scoped: linux != nil,
			NoTCP: !seccomp.Connects(j.Policy.Seccomp.Profile),
			// In a sandbox's own kernel and in layers the host's sockets are none.
			NoSockets: len(j.Policy.Binds.Sockets) == 0,
			Devices:   slices.Concat(ownDevices, j.Policy.Devices.Allow),
		},
		DenyWriteExecute: j.Policy.Process.DenyWriteExecute,
		CPUs:             uint32(procfiles.CPUs(j.Limits, f.CPUs)), Seed: seed(j.Key),
		Filter: step.filter,
	}
	if seccomp.LoadsFilters(j.Policy.Seccomp.Profile) {
		o.LeaveFilters = jailinit.OwnFilters
	}
	if linux != nil {
		o.Masked, o.ReadOnly = slices.Concat(linux.MaskedPaths, step.synthetic), linux.ReadonlyPaths
	}
	o.LabelFile, o.Label = label(p)
	for _, limit := range p.Rlimits {
		o.Rlimits = append(o.Rlimits, jailinit.Rlimit{
			Resource: uint32(hostfacts.Rlimits[limit.Type]), Soft: limit.Soft,
			Hard: limit.Hard,
		})
	}
	// With one processor, Go starts fewer threads for the step: a tenth of its time.
	own := []string{"GOMAXPROCS=1"}
	if linux != nil && j.Stays {
		var err error
		if o.Init, err = initOf(step.filter, f.Arch, p.Terminal); err != nil {
			return nil, err
		}
		own = append(own, "GOGC=off") // its heap does not grow
	}
	p.Env = slices.Concat(own, jailinit.Numbered(p.Env))
	ringfault.Orders(o)
	if sandboxOf(&j.Brief) != "" {
		return throughStepFile(r.Store, j, step, o)
	}
	o.Standard = r.listBeside(traits.Of(j.Delegate), p, j.IDs, step.stays)
	files, err := host.Prepare(r.Store.Root, programLabel(j.MountLabel), o)
	if err != nil {
		return nil, err
	}
	for _, n := range o.Standard {
		f, err := duplicate(r.stdio()[n])
		if err != nil {
			files.Close()
			return nil, fmt.Errorf("passing on standard file %d: %w", n, err)
		}
		files.Passed = append(files.Passed, f)
	}
	p.Rlimits = nil
	p.Args = append([]string{jailinit.Program}, p.Args...)
	return files, nil
}

// umaskOf is a process's file mode creation mask: its own, or that of the jail's first process, or
// what runc and crun set where a bundle names none.
func umaskOf(p, first *specs.Process) uint32 {
	for _, q := range []*specs.Process{p, first} {
		if q != nil && q.User.Umask != nil {
			return *q.User.Umask & 0o777
		}
	}
	return 0o022
}

// maxFilter is the size of the longest program that the kernel takes.
const maxFilter = 8 * bpf.MaxInsns

// ownDevices are the device files that every jail has.
var ownDevices = []string{
	"/dev/console", "/dev/full", "/dev/null", "/dev/ptmx", "/dev/pts", "/dev/random", "/dev/tty", "/dev/urandom", "/dev/zero",
}

// hostNamespaces returns this process's own namespaces, by the kinds that jails have.
func hostNamespaces(f hostfacts.Facts) []jailinit.Namespace {
	var out []jailinit.Namespace
	for _, kind := range []string{"cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"} {
		if kind == "time" && !f.TimeNS || kind == "cgroup" && !f.CgroupNS {
			continue
		}
		if inode, err := namespace.Inode(os.Getpid(), kind); err == nil {
			out = append(out, jailinit.Namespace{Name: kind, Host: inode})
		}
	}
	// An engine may itself be in another network than the host.
	if inode, err := namespace.Inode(1, "net"); err == nil {
		out = append(out, jailinit.Namespace{Name: "net", Host: inode})
	}
	return out
}

// groupLimits returns policy's bounds where the jail sees its control groups, of version 2 or 1.
// Groups that were not delegated to a user's engine have none.
func groupLimits(j *state.Jail, f hostfacts.Facts) []jailinit.Limit {
	var out []jailinit.Limit
	if n := j.Policy.Limits.Pids; n > 0 && (f.Cgroup.Pids || !f.Rootless) {
		out = append(out, jailinit.Limit{Files: []string{cgroups.Root + "/pids.max", cgroups.Root + "/pids/pids.max"}, Max: uint64(n)})
	}
	if n := j.Policy.Limits.Memory; n > 0 && (f.Cgroup.Memory || !f.Rootless) {
		out = append(out, jailinit.Limit{
			Files: []string{cgroups.Root + "/memory.max", cgroups.Root + "/memory/memory.limit_in_bytes"},
			Max:   uint64(n),
		})
	}
	if m := memoryOf(j); m != nil && m.KernelTCP != nil {
		out = append(out, jailinit.Limit{Files: []string{cgroups.Root + "/memory/" + socketsFile}, Max: uint64(*m.KernelTCP)})
	}
	return out
}

// memoryOf returns the jail's limits on memory, or nil.
func memoryOf(j *state.Jail) *specs.LinuxMemory {
	if j.Limits == nil {
		return nil
	}
	return j.Limits.Memory
}

// programLabel returns the SELinux label of the step's program: that of the jail's files, but
// without categories, as all jails share it.
func programLabel(mount string) string {
	// user:role:type:level, where the level may hold further colons.
	f := strings.SplitN(mount, ":", 4)
	if len(f) != 4 {
		return mount
	}
	f[3], _, _ = strings.Cut(f[3], ":")
	return strings.Join(f, ":")
}

// label returns the label that the kernel will report for a process that the delegate labels, and
// the file to read it from.
func label(p *specs.Process) (file, want string) {
	switch {
	case p.ApparmorProfile != "":
		// Since Linux 5.8 each module has its own directory.
		file = "/proc/self/attr/apparmor/current"
		if _, err := os.Stat(file); err != nil {
			file = "/proc/self/attr/current"
		}
		return file, p.ApparmorProfile + " (enforce)"
	case p.SelinuxLabel != "":
		return "/proc/self/attr/current", p.SelinuxLabel
	}
	return "", ""
}

// seed returns a number that spreads jails over the processors.
func seed(key string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	return h.Sum32()
}
