// Package jailinit is the init step into a jail: a small static program,
// agentjail-enter, that a delegate starts in the place of the jail's own. It
// checks from inside that every ring is in force, adds the protections that can only
// be put up there, and then becomes the real program.
//
// This package has the orders, which both sides read. Package host is the host's side, package
// guest the jail's. Package guest and this package import next to nothing, as every start waits for
// them.
//
// # Orders
//
// The host writes Orders into a file that only the init step sees. Decode reads
// them strictly: what it does not understand, it refuses, and the jail does not
// start. It reads the forms of earlier releases, too: a host's process that began before an upgrade
// may start the step that is there now.
package jailinit

import (
	"bytes"
	"errors"
	"strconv"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/version/form"
)

// Where the delegate leaves the program and its orders in the process that it
// starts (runc(8), --preserve-fds).
const (
	ProgramFD = 3
	OrdersFD  = 4
	// LifeFD, where the step stays as the first process, is its end of a pair of sockets: it writes
	// a byte there once the program runs, and an end of file there is the jail's end. Elsewhere
	// Standard begin there, else behind it.
	LifeFD = 5
)

// Program is what a delegate is to start instead of the first argument, which
// becomes the second.
const Program = "/proc/self/fd/3"

// Where a sandbox, which passes no descriptors on, has the program and its orders: a directory that
// is mounted read-only. The program's first argument is the name of its orders there.
const (
	StepDir     = "/dev/agentjail-step"
	StepProgram = StepDir + "/step"
)

// Report is the argument of StepProgram, as the program to start, that has a guest's step print
// what only the guest's kernel knows, and end. Further arguments are paths that it looks at. Each
// line has a kind and words. A process has its number and ReportedStatus. A mount has "ro" or "rw",
// "private" or "shared", the type, the bytes and files of its file system, and the quoted place. A
// path has what its text is ("hidden": none, or "readable"), whether it is "fixed" or "writable",
// and is quoted. A clock has its name and seconds. A device has "c" or "b", the numbers and the
// quoted path. An rlimit has its number and both limits.
const Report = "report"

// ReportedStatus are the fields of proc_pid_status(5) that are reported of a process.
var ReportedStatus = [...]string{"Seccomp", "NoNewPrivs", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}

// Exit statuses of the step, as shells and engines use them.
const (
	ExitRefused       = 125
	ExitNotExecutable = 126
	ExitNotFound      = 127
)

// Orders is what the step checks and does. A field's zero value requests
// nothing, but for Umask.
type Orders struct {
	// UIDMap and GIDMap are the lines that /proc/self/uid_map and gid_map must
	// hold, numbers separated by single spaces.
	UIDMap, GIDMap string
	// Namespaces must be other ones than these of the host.
	Namespaces []Namespace
	// UID, GID and Groups are the process's, as the jail sees them.
	UID, GID uint32
	Groups   []uint32
	// Capabilities are the permitted, effective and bounding sets, as masks (linux/capability.h).
	// The inheritable and the ambient set are empty.
	Capabilities uint64
	// Label is what LabelFile must hold: the security module's name for the
	// process's domain.
	LabelFile, Label string
	// Loopback requires that no other interface has an address or a route.
	Loopback bool
	// Masked and ReadOnly are paths that must be covered, or be mounted
	// read-only, unless the kernel has them not.
	Masked, ReadOnly []string
	// Limits are control group files and the most that each may hold.
	Limits []Limit
	// OOMScore is the least that the process's must be (proc_pid_oom_score_adj(5)).
	OOMScore uint32
	// Rlimits are set here: a delegate cannot set each of them, and SELinux sets
	// soft ones anew where a program's label changes (setrlimit(2)).
	Rlimits []Rlimit
	// Umask is the process's file mode creation mask, which the step always sets: no delegate sets
	// that of a further process by its description alone (umask(2)).
	Umask uint32
	// CPUs, if not 0, is on how many processors the process may run: programs that count the
	// processors then see the limit. Seed picks the processors.
	CPUs, Seed uint32
	// Landlock requests a Landlock domain.
	Landlock Landlock
	// DenyWriteExecute refuses memory that was writable and becomes executable
	// (PR_SET_MDWE(2const), Linux 6.3).
	DenyWriteExecute bool
	// Filter is a further seccomp filter, an array of struct sock_filter.
	Filter []byte
	// LeaveFilters, if not 0, is about how many instructions the program's own
	// filters may have: padding takes the rest.
	LeaveFilters uint32
	// Init has the step stay as the first process.
	Init Init
	// Standard are numbers of standard descriptors whose files come behind those above, in this
	// order: a delegate may change the owners of what it has as its own.
	Standard []uint32
	// OwnEnv are variables for the step itself, among the program's, in forms before numberedForm.
	OwnEnv []string
	// Form is the form that Decode has read.
	Form int
	// Without names checks that are left out, since a test has removed what they check.
	Without []string
	// Guest reports that a kernel of the jail's own runs the step, behind a sandbox. The
	// protections that the host holds from outside cannot be seen there: control groups, their
	// namespace, the OOM score. The user namespace is the guest's first one, and there is no
	// Landlock.
	Guest bool
	// Places are the mounts that the bundle has. A guest that adds a writable mount of its own is
	// refused.
	Places []string
}

// Init is how the step stays as the first process: it runs the program as a child, passes signals
// on to it, waits for every process that is left behind, and ends as the program does.
type Init struct {
	Stays bool
	// Leads has the program lead a session of its own, with the terminal. Otherwise it is in the
	// step's.
	Leads bool
}

// PassedOn are the signals that a program receives through the processes before it: all that can be
// sent to them, except what Go's runtime and C libraries take for themselves, and what reports
// children and closed pipes. A fault of a process's own is not sent, and is never passed on
// (os/signal).
func PassedOn() (out []unix.Signal) {
	const last, cancel, setID = 64, 32, 33 // SIGRTMAX (signal(7)), and glibc's (nptl(7))
	for s := unix.Signal(1); s <= last; s++ {
		switch s {
		case unix.SIGKILL, unix.SIGSTOP, unix.SIGCHLD, unix.SIGPIPE, unix.SIGURG, unix.SIGPROF, cancel, setID:
		default:
			out = append(out, s)
		}
	}
	return out
}

// Namespace is a kind, by its name in /proc/PID/ns, and the inode that the
// host's has.
type Namespace struct {
	Name string
	Host uint64
}

// A Limit is a bound on what a control group file holds. Of Files the first
// that exists counts; where none does, the jail shows no control groups.
type Limit struct {
	Files []string
	Max   uint64
}

// Rlimit is a resource limit (getrlimit(2)).
type Rlimit struct {
	Resource   uint32
	Soft, Hard uint64
}

// Landlock is a domain (landlock(7)).
type Landlock struct {
	// Want requests one, Required refuses to start on a kernel without.
	Want, Required bool
	// Scoped keeps signals and abstract sockets within the domain where the step has not seen that
	// a namespace does. A further process of a jail is in a domain of its own and must reach the
	// first's.
	Scoped bool
	// NoTCP denies TCP altogether.
	NoTCP bool
	// NoSockets denies connecting to Unix sockets at paths where the jail does not write.
	NoSockets bool
	// Devices are paths whose device files keep their ioctls.
	Devices []string
}

// OwnFilters is about how many instructions the kernel still takes of filters of
// a program's own, where it may load any. One sandbox has some hundreds.
const OwnFilters = 4096

// NoFilterSpace explains the kernel's error 524 (ENOTSUPP) for a filter.
const NoFilterSpace = "errno 524: the host has no space left for compiled filters " +
	"(remedy: `sysctl -w net.core.bpf_jit_limit=BYTES`, more than now; end the jails of profile server that took it)"

// magic begins every set of orders. The number of their form follows, and a newline.
const magic = "agentjail-enter "

// ErrForm means that orders were written by a release whose form this one does not read.
var ErrForm = errors.New("agentjail and agentjail-enter are of different versions (remedy: install both from one build)")

// Encode writes orders for Decode.
func (o *Orders) Encode() []byte { return o.encode(form.Number) }

func (o *Orders) encode(n int) []byte {
	e := &encoder{buf: append(strconv.AppendInt([]byte(magic), int64(n), 10), '\n')}
	o.fields(e, n)
	return e.buf
}

// Decode reads orders.
func Decode(data []byte) (*Orders, error) {
	data, ours := bytes.CutPrefix(data, []byte(magic))
	number, rest, whole := bytes.Cut(data, []byte{'\n'})
	n, err := strconv.Atoi(string(number[:min(len(number), 9)]))
	if !ours || !whole || err != nil || n == 0 || !form.Reads(n) {
		return nil, ErrForm
	}
	d := &decoder{buf: rest}
	o := &Orders{Form: n}
	o.fields(d, n)
	if d.bad || len(d.buf) != 0 {
		return nil, ErrForm
	}
	return o, nil
}

// fields visits every field of form n in the order in which it is written. A further field is
// visited only where n has it.
func (o *Orders) fields(c codec, n int) {
	c.text(&o.UIDMap)
	c.text(&o.GIDMap)
	list(c, &o.Namespaces, func(n *Namespace) { c.text(&n.Name); c.u64(&n.Host) })
	c.u32(&o.UID)
	c.u32(&o.GID)
	list(c, &o.Groups, c.u32)
	if n >= 10 {
		c.u64(&o.Capabilities)
	}
	c.text(&o.LabelFile)
	c.text(&o.Label)
	c.flag(&o.Loopback)
	list(c, &o.Masked, c.text)
	list(c, &o.ReadOnly, c.text)
	list(c, &o.Limits, func(l *Limit) { list(c, &l.Files, c.text); c.u64(&l.Max) })
	c.u32(&o.OOMScore)
	list(c, &o.Rlimits, func(r *Rlimit) { c.u32(&r.Resource); c.u64(&r.Soft); c.u64(&r.Hard) })
	c.u32(&o.Umask)
	c.u32(&o.CPUs)
	c.u32(&o.Seed)
	l := &o.Landlock
	for _, f := range []*bool{&l.Want, &l.Required, &l.Scoped, &l.NoTCP, &o.DenyWriteExecute} {
		c.flag(f)
	}
	if n >= 9 {
		c.flag(&l.NoSockets)
	}
	list(c, &l.Devices, c.text)
	filter := string(o.Filter)
	c.text(&filter)
	o.Filter = []byte(filter)
	c.u32(&o.LeaveFilters)
	c.flag(&o.Init.Stays)
	c.flag(&o.Init.Leads)
	if n >= 10 {
		list(c, &o.Standard, c.u32)
	}
	if n < numberedForm {
		list(c, &o.OwnEnv, c.text)
	}
	list(c, &o.Without, c.text)
	c.flag(&o.Guest)
	list(c, &o.Places, c.text)
}
