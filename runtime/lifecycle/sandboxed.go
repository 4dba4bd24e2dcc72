package lifecycle

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/delegate"
	"agentjail.dev/runtime/jailinit"
	"agentjail.dev/runtime/jailinit/host"
	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/kernel/namespace"
	"agentjail.dev/runtime/lifecycle/firstproc"
	"agentjail.dev/runtime/observe/lostpaths"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/rootfs"
	"agentjail.dev/runtime/spec/traits"
	"agentjail.dev/runtime/state"
)

// The first process of some jails is a sandbox's (traits.Traits): the jail's own processes are
// behind it, with a kernel of their own. The checks from outside then look at the sandbox. Mounts
// and the init step have to be complete before the delegate is called.

// sandboxOf names a jail's boundary; "" is that of the host's own kernel.
func sandboxOf(j *state.Brief) string { return traits.Of(j.Delegate).Sandbox }

// stepDir is the directory of a sandboxed jail's init step, in the jail's directory.
const stepDir = "enter"

// throughStepFile is throughEnter for a sandbox, which passes no descriptors on: the step and its
// orders are files.
func throughStepFile(s state.Store, j *state.Jail, step initStep, o *jailinit.Orders) (*host.Files, error) {
	// Nothing of the host's is in the orders, which the jail's programs can read. Resource limits
	// are the delegate's to set: a guest kernel may refuse some of them to the step.
	*o = jailinit.Orders{
		UID: o.UID, GID: o.GID, Groups: o.Groups, Capabilities: o.Capabilities,
		Loopback: o.Loopback, Umask: o.Umask, CPUs: o.CPUs, Seed: o.Seed,
		Filter: o.Filter, LeaveFilters: o.LeaveFilters, Init: o.Init, Without: o.Without,
		Guest: true, Places: step.places,
	}
	dir := filepath.Join(s.Dir(j.Key), stepDir)
	name, err := host.Directory(s.Root, dir, o)
	if err != nil {
		return nil, fmt.Errorf("writing the init step's files: %w", err)
	}
	step.process.Args = append([]string{jailinit.StepProgram, name}, step.process.Args...)
	return &host.Files{Orders: filepath.Join(dir, name)}, nil
}

// fitSandbox completes the spec for a sandbox: the init step's directory, a capped /tmp where the
// guest kernel would mount its own, and room for the sandbox's processes. Clocks are the guest's.
func (a *attempt) fitSandbox() error {
	spec, st := a.spec, a.staged
	st.Add(spec, specs.Mount{
		Destination: jailinit.StepDir, Type: "bind", Source: filepath.Join(a.rt.Store.Dir(a.j.Key), stepDir),
		Options: []string{"bind", "ro", "nosuid", "nodev", "rprivate"},
	})
	empty, err := st.EmptyDir("tmp")
	if err != nil {
		return err
	}
	if empty {
		options := []string{"nosuid", "nodev", "mode=1777", "size=" + strconv.FormatInt(int64(a.res.Plan.Tmpfs.Size), 10)}
		if spec.Root.Readonly {
			options = append(options, "ro") // as the directory would be
		}
		st.Add(spec, specs.Mount{Destination: "/tmp", Type: "tmpfs", Source: "tmpfs", Options: options})
	}
	uid, _ := a.j.IDs.HostUID(0)
	gid, _ := a.j.IDs.HostGID(0)
	if err := st.MakeRoom(spec, uid, gid); err != nil {
		return err
	}
	st.Places = append(st.Places, rootfs.OwnPlace)
	spec.Linux.Resources, a.ownPages = withoutPages(a.d.Resources(spec.Linux.Resources), cgroups.Version(cgroups.Root))
	spec.Linux.Namespaces = slices.DeleteFunc(spec.Linux.Namespaces, func(n specs.LinuxNamespace) bool {
		return n.Type == specs.TimeNamespace
	})
	spec.Linux.TimeOffsets = nil
	return nil
}

// withoutPages takes the limits of huge pages out of those that the delegate is to set, where it
// cannot: for control groups of version 2, gVisor writes to files with the names of version 1, or,
// where systemd makes the groups, to none (runsc/cgroup/cgroup_v2.go, hugeTLB2).
func withoutPages(in *specs.LinuxResources, version int) (*specs.LinuxResources, []specs.LinuxHugepageLimit) {
	if in == nil || version != 2 {
		return in, nil
	}
	out := *in
	out.HugepageLimits = nil
	return &out, in.HugepageLimits
}

// setPages limits the huge pages of a process's control group of version 2.
func setPages(pid int, limits []specs.LinuxHugepageLimit) error {
	if len(limits) == 0 {
		return nil
	}
	groups, err := cgroups.Of(strconv.Itoa(pid))
	if err != nil {
		return err
	}
	for _, g := range groups {
		roots := g.Mounts(cgroups.Root)
		if g.Controllers != "" || g.Path == "/" || len(roots) == 0 {
			continue
		}
		for _, l := range limits {
			name := filepath.Join(roots[0], g.Path, "hugetlb."+l.Pagesize)
			most := []byte(strconv.FormatUint(l.Limit, 10))
			if err := os.WriteFile(name+".max", most, 0); err != nil {
				return fmt.Errorf("limiting huge pages: %w", err)
			}
			// The pages that are reserved count by themselves since Linux 5.7.
			if err := os.WriteFile(name+".rsvd.max", most, 0); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("limiting huge pages: %w", err)
			}
		}
		return nil
	}
	return errors.New("limiting huge pages: the sandbox is in no control group of version 2")
}

// sandboxOptions are those for the delegate's create.
func (a *attempt) sandboxOptions() (o delegate.SandboxOptions) {
	terms := a.mode.Terms(a.j.Network)
	switch {
	case terms.Served:
		o.Network = delegate.HostSockets
	case terms.Reach == "":
		o.Network = delegate.NoSockets
	}
	o.ByGofer = a.staged.Attaches()
	return o
}

// checkSandbox looks at a sandbox's first process. Its system call filter and no_new_privs are
// there only when it has started the jail's program: inspect checks them.
func (a *attempt) checkSandbox(pid int) error {
	if err := setPages(pid, a.ownPages); err != nil {
		return err
	}
	if why := a.sandboxFault(pid); why != "" {
		return refusal.New(refusal.Delegate, "the sandbox's process: %s", why)
	}
	if len(a.j.Protected) == 0 {
		return nil
	}
	holder, err := findHolder(pid, "every protected path", func(mounts []mountinfo.Mount) bool {
		return len(lostpaths.In(a.j.Protected, mounts)) == 0
	})
	if err != nil {
		return err
	}
	return a.rt.Store.Holder(&a.j.Brief, holder)
}

// holderPatience bounds the wait for the sandbox's process that has the jail's mounts.
const holderPatience = 10 * time.Second

// findHolder returns the process of the sandbox that has the jail's mounts, what among them by has,
// and refuses a sandbox without such a process. gVisor's create can return before its gofer has
// entered the jail's root: until then the mounts are below another path. No event reports a
// chroot(2).
func findHolder(pid int, what string, has func([]mountinfo.Mount) bool) (int, error) {
	for deadline := time.Now().Add(holderPatience); ; time.Sleep(5 * time.Millisecond) {
		holder, err := holderOf(pid, has)
		if err != nil || holder != 0 {
			return holder, err
		}
		if ended, _ := firstproc.State(pid); ended || time.Now().After(deadline) {
			return 0, refusal.New(refusal.Delegate, "no process of the sandbox has %s", what)
		}
	}
}

// holderOf is the process of the sandbox's control groups that has certain mounts, or 0.
func holderOf(pid int, has func([]mountinfo.Mount) bool) (int, error) {
	groups, err := cgroups.Of(strconv.Itoa(pid))
	if err != nil {
		return 0, err
	}
	for _, g := range groups {
		if g.Path == "/" {
			continue
		}
		for _, root := range g.Mounts(cgroups.Root) {
			members, _ := cgroups.Procs(filepath.Join(root, g.Path))
			for _, member := range members {
				if mounts, err := firstproc.Mounts(member); err == nil && has(mounts) {
					return member, nil
				}
			}
		}
	}
	return 0, nil
}

// sandboxKinds are the namespaces that a sandbox's process has of its own, by their names in
// /proc/PID/ns. It sees no control groups, and its clocks are the guest kernel's.
var sandboxKinds = []string{"user", "mnt", "pid", "net", "ipc", "uts"}

// sandboxFault reports how the sandbox's process differs from the jail's record; "" if it does not.
func (a *attempt) sandboxFault(pid int) string {
	dir := "/proc/" + strconv.Itoa(pid)
	for file, want := range map[string]string{"uid_map": idmap.Text(a.j.IDs.UIDs), "gid_map": idmap.Text(a.j.IDs.GIDs)} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return err.Error()
		}
		if a.sandboxOptions().ByGofer && sameMap(string(text), traits.NobodyMap) {
			continue
		}
		if !sameMap(string(text), want) {
			return fmt.Sprintf("%s is %q and must be %q", file, strings.Join(strings.Fields(string(text)), " "),
				strings.Join(strings.Fields(want), " "))
		}
	}
	for _, n := range hostNamespaces(a.in.Facts.Host) {
		if !slices.Contains(sandboxKinds, n.Name) {
			continue
		}
		inode, err := namespace.Inode(pid, n.Name)
		if err != nil {
			return err.Error()
		}
		if inode == n.Host {
			return "its " + n.Name + " namespace is the host's"
		}
	}
	return groupFault(pid)
}

// sameMap compares the kernel's text of a map, with aligned columns, with ours.
func sameMap(kernel, ours string) bool {
	return slices.Equal(strings.Fields(kernel), strings.Fields(ours))
}

// groupFault reports that a process is in this process's own control group, or the root's, of
// those that limit.
func groupFault(pid int) string {
	own, err := cgroups.Of("self")
	if err != nil {
		return err.Error()
	}
	groups, err := cgroups.Of(strconv.Itoa(pid))
	if err != nil {
		return err.Error()
	}
	for _, g := range groups {
		limits := slices.Contains(g.List(), "pids") || slices.Contains(g.List(), "memory") ||
			g.Controllers == "" && cgroups.Version(cgroups.Root) == 2
		if limits && (g.Path == "/" || slices.Contains(own, g)) {
			return "it is in no control group of its own (" + strings.TrimSuffix(g.Controllers+" "+g.Path, " ") + ")"
		}
	}
	return ""
}

// tornRecord reports that the delegate cannot read its own record of a sandbox: a verb that was
// killed while it wrote the record has left the beginning (gVisor, runsc/container/state_file.go,
// SaveLocked). Every verb of the delegate then fails, delete too.
func tornRecord(j *state.Brief) bool {
	if sandboxOf(j) == "" {
		return false
	}
	text, err := os.ReadFile(j.DelegateState())
	return err == nil && !json.Valid(text)
}

// removeLeavings removes files that a delegate has left beside its records.
func removeLeavings(j *state.Brief) error {
	for _, name := range traits.Of(j.Delegate).LeavesOf(j.ID) {
		err := os.Remove(filepath.Join(filepath.Dir(j.DelegateState()), name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("removing what the delegate left: %w", err)
		}
	}
	return nil
}
