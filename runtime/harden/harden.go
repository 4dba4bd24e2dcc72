// Package harden turns an OCI spec into an agent-hardened one. It is a pure function of the spec,
// the policy and facts gathered beforehand: it opens and changes nothing outside its result. So
// tests over any spec can check its invariants: it only tightens, it is idempotent, and the
// container has no influence on it.
//
// # Reading it
//
// Harden is a list of steps, one for each subject: namespaces.go, mounts.go, limits.go, process.go
// and so on. A step changes the spec, adds to the plan for the later packages, and reports each
// change with its ring. Process and Resources are the same for exec and update.
package harden

import (
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/hostfacts"
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
)

// Facts is the input of hardening about the host and the container's surroundings.
type Facts struct {
	ID   string // the container's
	Host hostfacts.Facts
	// OwnBundle reports that agentjail itself wrote the incoming spec (agentjail sandbox). No
	// caller requested anything that is not in that spec.
	OwnBundle bool
	IDs       idmap.Map
	// Sandbox is the name of the delegate's boundary (traits.Traits); "" for one whose containers
	// are the host's processes.
	Sandbox string
	// Sources has the facts about the source of each bind mount of the incoming spec, by index in
	// Spec.Mounts; nil for other mounts.
	Sources []*bindsource.Fact
	// NoAppArmor is the reason why the kernel's AppArmor cannot be used. It is empty if AppArmor
	// works or the kernel has none.
	NoAppArmor string
	// Nodes are the host's own device nodes at the paths that policy allows.
	Nodes map[string]Node
	// Joins describes the namespaces that the incoming spec joins by path.
	Joins map[specs.LinuxNamespaceType]Join
	// LayerDisk is the disk that layers on disk are on: the root's, and views'.
	LayerDisk Disk
	// Review are the patterns that workspace.review's lead to (bindsource.FollowReview).
	Review []string
	// ParentQuota is the processor time of the parent control groups, where the kernel refuses a
	// larger quota.
	ParentQuota CPUQuota
	// Unknown lists fields of config.json that this version does not know.
	Unknown []string
	// Denied are options of the runtime that the caller requested and no jail gets.
	Denied []string
	// Owner is the user named as the owner of mounted files.
	Owner NamedOwner
	// FromImage are labels by which the image would widen its jail.
	FromImage []policy.Ignored
	// Filter is the system call filter that was made of Effective.Filter; with nil, hardening
	// makes the filter by seccomp.OCI and seccomp.Intersect.
	Filter *Filter
	// Placeholders are the jail's own placeholders for policy's credentials, by name; with nil,
	// their shapes are shown.
	Placeholders map[string]string
	// Authority is the certificate of the jail's own authority, as PEM; "" where policy ends no
	// TLS.
	Authority string
	// HostKey identifies the helper as an ssh server to the jail (known_hosts(5)); "" where
	// policy has no key for ssh.
	HostKey string
}

// A Disk is a block device, by its numbers; 0:0 is none.
type Disk struct{ Major, Minor int64 }

// CPUQuota is processor time in microseconds per period; a quota of 0 is none.
type CPUQuota struct {
	Quota  int64
	Period uint64
}

// of converts the quota to another period.
func (q CPUQuota) of(period uint64) int64 {
	return int64(float64(q.Quota) * float64(period) / float64(q.Period))
}

// Filter is a system call filter that was made before hardening.
type Filter struct {
	// Section is for the delegate. It allows at least the calls that the intersection of policy's
	// profile with the incoming section allows.
	Section *specs.LinuxSeccomp
	Notes   []string // where the incoming section changed it
	Err     error    // why there is none: the bundle is refused
}

// Node is a device node as the host has it.
type Node struct {
	Type         string // "c" or "b"
	Major, Minor int64
}

// Join is a namespace that a spec requests to join.
type Join struct {
	// Jail is the id of the agentjail jail that owns the namespace's user
	// namespace, or "".
	Jail string
	// UserNS is the path of that user namespace.
	UserNS string
	// Mode and Pinned are about a network namespace, as in network.Found.
	Mode   string
	Pinned bool
	// Capabilities are the jail's (state.Brief), and Most those of all jails in the user namespace
	// together.
	Capabilities, Most []string
	// SetGID reports that one of these may set set-group-ID bits (seccomp.SetGID).
	SetGID bool
}

// Result is a hardened spec with its plan.
type Result struct {
	Spec *specs.Spec
	Plan plan.Plan
	// Policy is the one that holds for this bundle: the host's, as its annotations
	// tighten it.
	Policy policy.Policy
}

// Effective is a policy as it holds for one bundle.
type Effective struct {
	policy.Policy
	ignored []policy.Ignored
}

// Tighten applies a bundle's annotations to the host's policy.
func Tighten(in *specs.Spec, pol policy.Policy) Effective {
	e := Effective{}
	e.Policy, e.ignored = pol.Tighten(in.Annotations)
	return e
}

// A step hardens one subject of the spec.
type step struct {
	name string
	run  func(*pass)
}

// steps is the whole of hardening, in order. Steps are independent but for
// namespaces, whose joins decide what the others may assume, and binds, which
// limits reads.
var steps = []step{
	{"shape", shape},
	{"boundary", boundary},
	{"namespaces", namespaces},
	{"hostname", hostname},
	{"ids", ids},
	{"process", process},
	{"capabilities", capabilities},
	{"environment", environment},
	{"credentials", credentials},
	{"lsm", lsm},
	{"landlock", landlock},
	{"seccomp", filter},
	{"root", root},
	{"mounts", mounts},
	{"owner", mountOwner},
	{"devices", devices},
	{"paths", paths},
	{"limits", limits},
	{"sysctl", sysctls},
	{"hooks", hooks},
	{"annotations", annotations},
}

// Harden returns the hardened form of a spec and the report of every change.
// The spec is not changed. An error means that no jail may be started from it;
// it names all the reasons at once.
func Harden(in *specs.Spec, pol policy.Policy, f Facts) (*Result, *report.Report, error) {
	return Tighten(in, pol).Harden(in, f)
}

// Harden is the function of that name for a policy that holds for the spec already.
func (e Effective) Harden(in *specs.Spec, f Facts) (*Result, *report.Report, error) {
	pol := e.Policy
	p := &pass{spec: clone(in), pol: pol, f: f, rep: new(report.Report), plan: plan.Plan{
		IDs: f.IDs, Root: pol.Root, Tmpfs: pol.Tmpfs, AlreadyMapped: f.IDs.Given, Unprotect: pol.Binds.Unprotect, Hide: pol.Binds.Hide,
		Sockets:   pol.Binds.Sockets,
		Workspace: pol.Workspace,
	}}
	for _, i := range slices.Concat(e.ignored, f.FromImage) {
		field := "annotations[" + i.Name + "]"
		if i.Invalid {
			p.addRefusal(refusal.New(refusal.Annotation, "%q: %s", i.Value, i.Why).About("%s",
				field).WithRemedy("correct the annotation, or start the jail without it"))
			continue
		}
		p.deny(rings.Access, field, i.Value, "", i.Why)
	}
	for _, option := range f.Denied {
		p.deny(rings.Access, option, "requested", "", "it would share more of the host with the container")
	}
	for _, s := range steps {
		s.run(p)
		if p.stop {
			break
		}
	}
	if err := refusal.Join(p.refused); err != nil {
		return nil, p.rep, err
	}
	return &Result{Spec: p.spec, Plan: p.plan, Policy: p.pol}, p.rep, nil
}

// pass is one run over a spec.
type pass struct {
	spec    *specs.Spec
	pol     policy.Policy
	f       Facts
	rep     *report.Report
	plan    plan.Plan
	refused []*refusal.Error
	stop    bool
	update  bool // a missing value keeps the running jail's
	// lowPorts reports that the bundle granted CAP_NET_BIND_SERVICE.
	lowPorts bool
	// network are the terms of the plan's Network.
	network network.Terms
}

func (p *pass) change(r rings.Ring, k report.Kind, field, was, now, why string) {
	p.rep.Add(report.Change{Ring: r, Kind: k, Field: field, Was: was, Now: now, Why: why})
}

// deny reports a requested privilege that is not granted. Policy can turn the report into a
// refusal.
func (p *pass) deny(r rings.Ring, field, was, now, why string) {
	p.change(r, report.Denied, field, was, now, why)
	if p.pol.OnLoosen == policy.LoosenRefuse {
		p.addRefusal(refusal.New(refusal.Privilege, "%s is more than policy allows: %s", was, why).About("%s",
			field).WithRemedy("policy: on_loosen = \"strip\" starts it without"))
	}
}

// missing reports a protection that the host does not support.
func (p *pass) missing(r rings.Ring, field, why string) {
	p.change(r, report.Missing, field, "", "", why)
}

// refuse records a refusal, which stops the start after all steps have run.
func (p *pass) refuse(code refusal.Code, format string, args ...any) {
	p.addRefusal(refusal.New(code, format, args...))
}

// addRefusal records an existing refusal.
func (p *pass) addRefusal(e *refusal.Error) {
	p.refused = append(p.refused, e)
}

// fatal is refuse for a spec without which later steps could not run.
func (p *pass) fatal(text string) {
	p.refuse(refusal.Spec, "%s", text)
	p.stop = true
}

// CheckRoot refuses a spec without a root file system. The caller also checks this before
// hardening, since there is nothing to examine then. nil means no refusal.
func CheckRoot(s *specs.Spec) *refusal.Error {
	if s.Root == nil || s.Root.Path == "" {
		return refusal.New(refusal.Spec, "config.json has no root")
	}
	return nil
}

// shape refuses specs that are not a Linux container, and makes the objects
// that the other steps write into.
func shape(p *pass) {
	s := p.spec
	if err := CheckRoot(s); err != nil {
		p.addRefusal(err)
		p.stop = true
		return
	}
	switch {
	case s.Process == nil:
		p.fatal("config.json has no process")
	case len(s.Process.Args) == 0:
		p.fatal("config.json has no process.args")
	case s.Windows != nil || s.Solaris != nil || s.VM != nil || s.ZOS != nil || s.FreeBSD != nil:
		p.fatal("config.json is not for a Linux container")
	}
	if p.stop {
		return
	}
	if c := s.Process.Capabilities; c != nil {
		p.lowPorts = slices.Contains(c.Bounding, "CAP_NET_BIND_SERVICE")
	}
	if s.Linux == nil {
		s.Linux = &specs.Linux{}
	}
	if s.Linux.Resources == nil {
		s.Linux.Resources = &specs.LinuxResources{}
	}
	if s.Domainname != "" && len(s.Domainname) > maxHostname || len(s.Hostname) > maxHostname {
		p.refuse(refusal.Hostname, "hostname and domainname have at most 64 characters (sethostname(2))")
	}
	checkCgroupsPath(p, s.Linux.CgroupsPath)
	if len(p.f.Unknown) > 0 {
		p.change(rings.Access, report.Dropped, "config.json", list(p.f.Unknown), "",
			"this version does not know these fields, and the delegate could take them for grants")
	}
}

// hostname names a jail that has a UTS namespace of its own and no name: the kernel gives a new
// namespace the name of the one that it is made in, which is the host's (uts_namespaces(7)).
func hostname(p *pass) {
	s := p.spec
	joins := slices.ContainsFunc(s.Linux.Namespaces, func(n specs.LinuxNamespace) bool {
		return n.Type == specs.UTSNamespace && n.Path != ""
	})
	if s.Hostname != "" || joins {
		return
	}
	s.Hostname = nameOf(p.f.ID)
	p.change(rings.Resources, report.Set, "hostname", "", s.Hostname, "the bundle has none, and the host's is not for a jail")
}

// unnamed is the name of a jail whose id has no letter or digit.
const unnamed = "agentjail"

// maxHostname is the longest name that the kernel takes, in bytes (sethostname(2)).
const maxHostname = 64

// nameOf makes a host name of a container's id: letters, digits, hyphens and dots (hostname(7)).
func nameOf(id string) string {
	name := strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '-'
	}, id)
	name = strings.TrimLeft(name, "-.")
	if len(name) > maxHostname {
		name = name[:maxHostname]
	}
	if name = strings.TrimRight(name, "-."); name == "" {
		return unnamed
	}
	return name
}

// checkCgroupsPath refuses a path that leaves the place it is relative to, or
// that is the root group, which cannot be limited.
func checkCgroupsPath(p *pass, s string) {
	if s == "" {
		return
	}
	// The systemd driver's form is slice:prefix:name.
	for part := range strings.SplitSeq(s, ":") {
		if slices.Contains(strings.Split(part, "/"), "..") {
			p.refuse(refusal.CgroupPath, "linux.cgroupsPath %q leaves its place", s)
			return
		}
	}
	if !strings.Contains(s, ":") && path.Clean("/"+s) == "/" {
		p.refuse(refusal.CgroupPath, "linux.cgroupsPath %q is the root group, which has no limits", s)
	}
}
