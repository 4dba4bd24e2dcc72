// Package check finds out whether this host can hold the three rings. Where a feature can be tried
// it is tried, since distributions take features back to old kernels and switch them off in new
// ones. Two things are decided by the version alone, as trying does not show them: whether exec
// moves a process into a new time namespace (runtime/kernel/fork), and how tmpfs treats holes in
// huge pages (runtime/rootfs).
//
// A probe makes mounts, namespaces and filters on a thread of its own or in a process that ends
// with it, so that nothing is left when it is killed. Nothing is written to the host's file
// systems, nor to the files that the life cycle of a bundle keeps.
package check

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"agentjail.dev/runtime/delegate"
	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/kernel/hostfacts"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/rings"
	"agentjail.dev/runtime/state"
)

// Status is the answer of a probe.
type Status string

// The answers. Missing stops every jail from starting; with a warning jails
// start, with less than there could be, or with a risk that is named.
const (
	OK      Status = "ok"
	Warning Status = "warning"
	Missing Status = "missing"
)

// allRings is printed for what is of no single ring.
const allRings = "all"

// Result is what one probe found out.
type Result struct {
	Name   string `json:"name"` // stable, for programs
	Status Status `json:"status"`
	Ring   string `json:"ring"`             // "2", "1", "0" or "all"
	What   string `json:"what"`             // the feature
	Detail string `json:"detail"`           // what was found, or why not
	Remedy string `json:"remedy,omitempty"` // what the host's owner can do
}

// Report is the result of all probes, from ring 2 inwards.
type Report struct {
	// CanStart reports that no probe answered Missing.
	CanStart bool     `json:"canStart"`
	Results  []Result `json:"results"`
}

// answer is the result of a probe. The table defines how grave a failure is.
type answer struct {
	ok     bool
	warn   bool // a failure that stops nothing, even where the probe is required
	detail string
	remedy string
}

func ok(format string, args ...any) answer {
	return answer{ok: true, detail: fmt.Sprintf(format, args...)}
}

func fail(remedy, format string, args ...any) answer {
	return answer{remedy: remedy, detail: fmt.Sprintf(format, args...)}
}

func warn(remedy, format string, args ...any) answer {
	return answer{warn: true, remedy: remedy, detail: fmt.Sprintf(format, args...)}
}

// tried is the answer of a probe that tries a feature.
func tried(err error, remedy, done string, args ...any) answer {
	if err != nil {
		return fail(remedy, "%v", err)
	}
	return ok(done, args...)
}

// probe is one line of the table.
type probe struct {
	name     string
	ring     rings.Ring // None: of all rings
	what     string
	required func(policy.Policy) bool // whether no jail starts without it
	run      func(*env) answer
}

func always(policy.Policy) bool { return true }
func never(policy.Policy) bool  { return false }

// namePrivileges is the probe that most others depend on.
const namePrivileges = "privileges"

// namePolicy is the probe of the policy file.
const namePolicy = "policy"

// Options reports which policy and state directory the check is for.
type Options struct {
	PolicyPath string // policy.DefaultPath if empty
	PolicyName string // [policies.NAME] of it, or ""
	StateRoot  string // state.DefaultRoot if empty
	Programs   string // agentjail's directory; where the running program is, if empty
}

// env is what the probes look at. Tests put directories of their own in place.
type env struct {
	opts   Options
	etc    string // /etc
	run    string // /run
	dpkg   string // /var/lib/dpkg
	doc    string // /usr/share/doc
	cgroup string // /sys/fs/cgroup
	usr    string // /usr
	// bins are where engines' programs are looked for.
	bins   []string
	sysctl string // /proc/sys
	// bridges are the host's.
	bridges func() ([]bridge, error)
	store   state.Store
	// user reports that this is for a user's engine: in a user namespace of its own.
	user bool

	policy    policy.Policy // Default when it cannot be read
	policyErr error
	host      hostfacts.Facts

	// delegate is what jails would be run with. It is tried once.
	delegate func() (*delegate.Runtime, error)
}

func newEnv(o Options) *env {
	if o.PolicyPath == "" {
		o.PolicyPath = policy.DefaultPath
	}
	if o.StateRoot == "" {
		s, _ := state.Default()
		o.StateRoot = s.Root
	}
	e := &env{
		opts: o, etc: "/etc", run: "/run", dpkg: "/var/lib/dpkg", doc: "/usr/share/doc", cgroup: cgroups.Root, sysctl: "/proc/sys",
		bridges: bridges,
		usr:     "/usr", bins: []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"},
		store: state.Store{Root: o.StateRoot}, user: rootless.Inside(), host: hostfacts.Read(),
	}
	if e.policy, e.policyErr = policy.Load(o.PolicyPath, o.PolicyName); e.policyErr != nil {
		e.policy = policy.Default()
	}
	e.delegate = sync.OnceValues(func() (*delegate.Runtime, error) { return delegate.Choose(e.policy.Delegate, "") })
	return e
}

// patience bounds one probe. They take milliseconds; a delegate on a dead
// network share would take forever.
const patience = 5 * time.Second

// Run runs all probes. It takes some tenths of a second and needs root: without
// it the probes report it.
func Run(o Options) *Report { return runProbes(newEnv(o), probes, patience) }

func runProbes(e *env, table []probe, patience time.Duration) *Report {
	r := &Report{CanStart: true}
	privileged := true
	for _, p := range table {
		res := p.result(e, patience)
		if res.Status == Missing {
			r.CanStart = false
			privileged = privileged && p.name != namePrivileges
		}
		if !privileged && res.Status != OK && p.name != namePrivileges {
			res.Remedy = "first as for privileges" // the rest follows from that
		}
		r.Results = append(r.Results, res)
	}
	return r
}

func (p probe) result(e *env, patience time.Duration) Result {
	done := make(chan answer, 1)
	run := p.run
	if user := ofUser[p.name]; user != nil && e.user {
		run = user
	}
	go func() { done <- run(e) }()
	var a answer
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case a = <-done:
	case <-timer.C:
		a = fail("look at the kernel's log and at hanging file systems", "no answer within %v", patience)
	}
	r := Result{Name: p.name, Status: OK, Ring: allRings, What: p.what, Detail: a.detail, Remedy: a.remedy}
	if p.ring != rings.None {
		r.Ring = strconv.Itoa(int(p.ring))
	}
	switch {
	case a.ok:
	case !a.warn && p.required(e.policy):
		r.Status = Missing
	default:
		r.Status = Warning
	}
	return r
}
