// Package traits describes, as data, the differences between the low-level runtimes beyond their
// own features output (delegate.Caps). Only the packages below runtime/delegate compare a
// delegate's name: all others use its traits.
package traits

import (
	"path/filepath"
	"strings"
)

// Traits describe one low-level runtime. The zero value is for an unknown runtime: it works
// as runc does, and is trusted with less.
type Traits struct {
	// GroupsBelowRoot reports that a control group whose path is not absolute is made
	// below the hierarchy's root (crun), and not below the caller's own group (runc,
	// libcontainer/cgroups/fs).
	GroupsBelowRoot bool
	// IDBelowRoot reports the same of the group of a bundle that names none (gVisor,
	// runsc/container/container.go, New).
	IDBelowRoot bool
	// KeepsStdio reports that it leaves the owners of its standard files as they are, but for those
	// of the jail's own ids (runc). crun makes the jail's root their owner, where it can.
	KeepsStdio bool
	// WithoutChown reports that it runs jails without CAP_CHOWN on the host, so that it gets none:
	// gVisor makes the sandbox's user the owner of its standard files, terminals and devices too
	// (runsc/sandbox/sandbox.go, configureStdios).
	WithoutChown bool
	// PsNeedsGroup reports that its ps fails for a container whose control group is gone.
	PsNeedsGroup bool
	// ExecNeedsPtrace reports that its exec enters the jail's user namespace first, for which it
	// needs ptrace access to the jail's first process (crun, src/libcrun/linux.c). No process has
	// that access to the init step.
	ExecNeedsPtrace bool
	// MountsNamedCgroupV1 reports that it can mount a control group hierarchy of version 1 that has
	// a name in the place of controllers. runc (tried with 1.1 and 1.5) takes the name for a
	// controller and fails.
	MountsNamedCgroupV1 bool
	// ReadsMaps reports that its releases that report mount extensions read the maps of a user
	// namespace that they join from there (runc 1.2).
	ReadsMaps bool
	// Release is how a created container is started without the delegate.
	Release Release
	// State is what the delegate keeps of a container below its root, with * for the id; "" is the
	// directory with that name.
	State string
	// Leaves are names of what it leaves beside that, with * for the id, in the order of removal.
	Leaves []string
	// FastSince is the first release that keeps compiled filters and reports all of its features;
	// the zero value means that none is faster than others.
	FastSince Version
	// EveryReleaseWorks reports that each release runs jails, and the newest best; it is taken
	// where no delegate runs a trial.
	EveryReleaseWorks bool
	// Boundary reports where each protection is held.
	Boundary Boundary
	// Sandbox names the boundary of a delegate whose first process is a sandbox's: a sentry, or the
	// monitor of a virtual machine. The jail's own processes are behind that process, with a kernel
	// of their own. "" is for a delegate whose first process is the jail's. A sandbox is never a
	// choice of "auto": policy names it.
	Sandbox string
	// Pinned is the release of a sandbox that the tests run, the oldest that jails are promised
	// for; "" for a delegate whose flaws are known (runtime/delegate/flaws).
	Pinned string
}

// BoundaryName names the kernel that answers the system calls of the delegate's jails.
func (t Traits) BoundaryName() string {
	if t.Sandbox == "" {
		return Host.String()
	}
	return t.Sandbox + " sandbox"
}

// StateOf is what the delegate with this name or path keeps of a container below its root; "" is
// the delegate's own.
func (t Traits) StateOf(delegate, root, id string) string {
	if root == "" {
		root = filepath.Join("/run", filepath.Base(delegate))
	}
	if t.State == "" {
		return filepath.Join(root, id)
	}
	return filepath.Join(root, strings.ReplaceAll(t.State, "*", id))
}

// LeavesOf returns the names of the files that a delegate leaves of a container.
func (t Traits) LeavesOf(id string) (out []string) {
	for _, name := range t.Leaves {
		out = append(out, strings.ReplaceAll(name, "*", id))
	}
	return out
}

// Release is how the process of a created container is made to continue. With both kinds it waits
// at a named pipe, exec.fifo.
type Release struct {
	// Record is the file by which the delegate's directory of a container is distinguished from
	// another's; "" means that only the delegate can start it.
	Record string
	// Writes reports that start writes to the pipe and the process reads, and not the
	// other way around.
	Writes bool
}

// known is the table, in the order in which "auto" looks for them. A new delegate
// is a row here.
var known = []struct {
	name string
	Traits
}{
	{"runc", Traits{
		KeepsStdio: true, ReadsMaps: true, EveryReleaseWorks: true,
		Release: Release{Record: "state.json"}, // libcontainer/container_linux.go, exec
	}},
	{"crun", Traits{
		GroupsBelowRoot: true, PsNeedsGroup: true, ExecNeedsPtrace: true, MountsNamedCgroupV1: true,
		Release: Release{Record: "status", Writes: true}, // src/libcrun/status.c, libcrun_status_write_exec_fifo
		// From 1.9 on `crun features` is whole.
		FastSince: Version{1, 9},
	}},
	{"runsc", Traits{
		// It takes an id for any container of its root whose id begins so, also to delete one
		// (runsc/container/state_file.go, findContainerID): each has a root of its own.
		WithoutChown: true, IDBelowRoot: true, Sandbox: "gvisor", State: "*/*_sandbox:*.state",
		Leaves: []string{"*_sandbox:*.lock", "runsc-*.sock", "."},
		Pinned: "20260905", Boundary: gvisor,
	}},
}

// Names returns the names of the known delegates, by which policy names them.
func Names() []string { return names(func(Traits) bool { return true }) }

// Auto returns the delegates that "auto" may choose, in the order in which it looks for them.
func Auto() []string { return names(func(t Traits) bool { return t.Sandbox == "" }) }

// Sandboxes returns the delegates with a boundary of their own.
func Sandboxes() []string { return names(func(t Traits) bool { return t.Sandbox != "" }) }

// BoundaryNames returns the names of the sandboxes' boundaries.
func BoundaryNames() (out []string) {
	for _, name := range Sandboxes() {
		out = append(out, Of(name).Sandbox)
	}
	return out
}

// Bounded is the delegate with the boundary of this name, or "".
func Bounded(sandbox string) string {
	for _, n := range names(func(t Traits) bool { return sandbox != "" && t.Sandbox == sandbox }) {
		return n
	}
	return ""
}

func names(with func(Traits) bool) []string {
	var out []string
	for _, k := range known {
		if with(k.Traits) {
			out = append(out, k.name)
		}
	}
	return out
}

// Of returns the traits of the delegate with this name or path: its file's name
// decides. Of one that is not known they are the zero value.
func Of(name string) Traits {
	for _, k := range known {
		if k.name == filepath.Base(name) {
			return k.Traits
		}
	}
	return Traits{}
}

// Releases are the ways in which known delegates start a created container.
func Releases() []Release {
	var out []Release
	for _, k := range known {
		if k.Release.Record != "" {
			out = append(out, k.Release)
		}
	}
	return out
}
