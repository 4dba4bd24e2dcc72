// Package seccomp holds agentjail's syscall filters as data, renders them as
// the seccomp section of an OCI spec, and intersects them with the filter
// that an engine requested.
//
// It is pure Go and part of the hot path. Compiling a filter to BPF and
// proving what the compiled filter lets through needs cgo and lives apart, in
// package agentjail.dev/seccomp/prove.
package seccomp

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

//go:generate go run profiles/generate.go

// Options picks a profile and how violations are answered.
type Options struct {
	// Profile is one of Profiles(); empty means "default".
	Profile string
	// Arch is a GOARCH: amd64 or arm64.
	Arch string
	// Kill makes a call that is not listed end the process (policy's
	// on_violation = "kill") where it otherwise answers ENOSYS.
	Kill bool
	// Only narrows the profile; nil does not.
	Only *List
}

// Entry is one syscall of a profile, with the reason why it is there.
type Entry struct {
	// Name is the syscall's name as libseccomp knows it.
	Name string `json:"name"`
	// Why names the program that needs it, or for a refused call why it is answered as it is.
	Why string `json:"why"`
	// Rule describes which arguments pass; empty when all do.
	Rule string `json:"rule,omitempty"`
	// Against reports what the rest of the arguments is refused for.
	Against string `json:"against,omitempty"`
	// Errno is the errno of a call that is listed only to be refused in its
	// own way, or Done; empty for an allowed call. Where there is a rule, too, it
	// reports which arguments are answered otherwise.
	Errno string `json:"errno,omitempty"`
}

// profile is one file of profiles/, as a table (see profiles_gen.go).
type profile struct {
	name    string
	about   string
	extends string // a profile whose entries this one has too
	budget  int    // the most calls that it may allow
	allow   []group
	refuse  []group
}

// group is a set of syscalls that are there for one reason.
type group struct {
	names []string
	arch  string // GOARCH that has them; empty for both
	rule  string // name of an argument rule
	errno string // of a refused call
	why   string
}

// Profiles lists the embedded profiles by name.
func Profiles() []string {
	out := make([]string, len(profiles))
	for i := range profiles {
		out[i] = profiles[i].name
	}
	return out
}

// Budget is the most system calls that a profile may allow, on any architecture. It is 0 for an
// unknown profile. The number stands in the profile's own file: a call that is added there shows
// beside it.
func Budget(profile string) int {
	p, err := load(profile)
	if err != nil {
		return 0
	}
	return p.budget
}

// LoadsFilters reports whether a profile's programs may load filters of their own.
// Unknown profiles load none.
func LoadsFilters(profile string) bool {
	return allows(profile, "seccomp")
}

// Traces reports whether a profile's programs may trace each other (ptrace(2)).
// Unknown profiles do not.
func Traces(profile string) bool {
	return allows(profile, "ptrace")
}

// Connects reports whether a profile's programs may use sockets to talk to others, over lo at
// least. Unknown profiles may not.
func Connects(profile string) bool {
	return allows(profile, "connect") || allows(profile, "bind")
}

// allows reports whether a profile lists a call, for some arguments at least.
func allows(profile, call string) bool {
	p, err := load(profile)
	return err == nil && slices.ContainsFunc(p.allow, func(g group) bool { return slices.Contains(g.names, call) })
}

// SetGID ends the name of a profile's variant in which set-group-ID bits pass in modes. Policy
// cannot name one: it is for a jail with nothing of the host's behind a mount.
const SetGID = "+set-gid"

// load finds an embedded profile and adds what it extends, but for the calls
// that it lists itself.
func load(name string) (*profile, error) {
	if base, variant := strings.CutSuffix(name, SetGID); variant {
		p, err := load(base)
		if err != nil {
			return nil, err
		}
		p.name, p.allow = name, slices.Clone(p.allow)
		for i, g := range p.allow {
			if _, ok := ruleOf(g.rule + SetGID); ok {
				p.allow[i].rule += SetGID
			}
		}
		return p, nil
	}
	if name == "" {
		name = "default"
	}
	i := slices.IndexFunc(profiles[:], func(p profile) bool { return p.name == name })
	if i < 0 {
		return nil, fmt.Errorf("seccomp profile %q: not one of %v", name, Profiles())
	}
	p := profiles[i]
	if p.extends != "" {
		base, err := load(p.extends)
		if err != nil {
			return nil, err
		}
		own := slices.Concat(p.allow, p.refuse)
		p.refuse = slices.Concat(others(base.refuse, own), p.refuse)
		p.allow = slices.Concat(others(base.allow, own), p.allow)
	}
	return &p, nil
}

// others is what groups hold beside the calls of own.
func others(groups, own []group) []group {
	out := make([]group, 0, len(groups))
	for _, g := range groups {
		taken := func(name string) bool {
			return slices.ContainsFunc(own, func(o group) bool { return slices.Contains(o.names, name) })
		}
		if slices.ContainsFunc(g.names, taken) {
			g.names = slices.DeleteFunc(slices.Clone(g.names), taken)
		}
		if len(g.names) > 0 {
			out = append(out, g)
		}
	}
	return out
}

// archOf maps a GOARCH to its OCI name.
func archOf(goarch string) (specs.Arch, error) {
	switch goarch {
	case "amd64":
		return specs.ArchX86_64, nil
	case "arm64":
		return specs.ArchAARCH64, nil
	}
	return "", fmt.Errorf("no seccomp profile for architecture %q: only amd64 and arm64", goarch)
}

// Done is what profiles write in the place of an errno for calls that are answered
// with success although nothing was done (seccomp(2), SECCOMP_RET_ERRNO of 0).
const Done = "success, nothing done"

// errnoOf returns the number of an errno that a profile names.
func errnoOf(name string) (uint, error) {
	if name == Done {
		return 0, nil
	}
	if n, ok := errnos()[name]; ok {
		return n, nil
	}
	return 0, fmt.Errorf("%q is no errno (errno(3))", name)
}

// OCI renders an embedded profile as an OCI seccomp section. Everything that
// is not listed answers ENOSYS (libc and language runtimes probe new calls and
// fall back on ENOSYS only), or ends the process with o.Kill. Only the native
// architecture is listed, so that libseccomp kills calls of any other ABI.
//
// The result is freshly allocated. Errors: an unknown profile or architecture.
func OCI(o Options) (*specs.LinuxSeccomp, error) {
	arch, err := archOf(o.Arch)
	if err != nil {
		return nil, err
	}
	p, err := load(o.Profile)
	if err != nil {
		return nil, err
	}
	f := &filter{calls: make([]call, 0, 256), arches: []specs.Arch{arch}, def: answer{specs.ActErrno, eNOSYS}}
	if o.Kill {
		f.def = answer{action: specs.ActKillProcess}
	}
	add := func(g *group, c call, err error) error {
		if err != nil {
			return fmt.Errorf("seccomp profile %q: %w", o.Profile, err)
		}
		for _, c.name = range g.names {
			f.calls = append(f.calls, c)
		}
		return nil
	}
	for g := range on(p.allow, o.Arch) {
		c, err := g.allowed(o.Kill)
		if err := add(g, c, err); err != nil {
			return nil, err
		}
	}
	for g := range on(p.refuse, o.Arch) {
		c, err := g.refused()
		if len(c.refuse) == 1 && c.refuse[0].answer == f.def {
			continue
		}
		if err := add(g, c, err); err != nil {
			return nil, err
		}
	}
	f.sort()
	if o.Only == nil {
		return f.oci(), nil
	}
	only, err := o.Only.section(arch, o.Arch)
	if err != nil {
		return nil, err
	}
	narrowed, _ := Intersect(f.oci(), only)
	return narrowed, nil
}

// on iterates over the groups of calls that an architecture has.
func on(groups []group, arch string) iter.Seq[*group] {
	return func(yield func(*group) bool) {
		for i := range groups {
			if g := &groups[i]; (g.arch == "" || g.arch == arch) && !yield(g) {
				return
			}
		}
	}
}

// argRule returns the group's argument rule; the zero value if it has none.
func (g *group) argRule() (argRule, error) {
	r, ok := ruleOf(g.rule)
	if !ok && g.rule != "" {
		return r, fmt.Errorf("no argument rule %q", g.rule)
	}
	return r, nil
}

// allowed is what passes of a group's calls: by its rule, or all of them without a rule.
func (g *group) allowed(kill bool) (call, error) {
	r, err := g.argRule()
	if err != nil || g.rule == "" {
		return call{allow: always}, err
	}
	return r.call(kill), nil
}

// refused is the answer to a group's calls, which let nothing pass: its errno, but
// for the arguments that its rule answers otherwise.
func (g *group) refused() (call, error) {
	errno, err := errnoOf(g.errno)
	if err != nil {
		return call{}, err
	}
	rest := refusal{answer: answer{specs.ActErrno, errno}}
	if g.rule == "" {
		return call{refuse: []refusal{rest}}, nil
	}
	r, err := g.argRule()
	if err == nil && len(r.allow) > 0 {
		err = fmt.Errorf("argument rule %q lets calls pass that are refused", g.rule)
	}
	if err != nil {
		return call{}, err
	}
	c := r.call(false)
	rest.rest = true
	c.refuse = append(c.refuse, rest)
	c.sort()
	return c, nil
}

// call brings an argument rule into canonical form. With kill, the default
// action ends the process on what the rule refuses, except softly.
func (r argRule) call(kill bool) call {
	var c call
	for _, conds := range r.allow {
		c.allow = append(c.allow, argsOf(conds))
	}
	for _, v := range r.refuse {
		if v.soft || !kill {
			c.refuse = append(c.refuse, refusal{args: argsOf(v.conds), answer: answer{specs.ActErrno, v.errno}, rest: len(v.conds) == 0})
		}
	}
	c.sort()
	return c
}

func argsOf(conds []cond) args {
	var a args
	for _, c := range conds {
		a[c.arg] = set{masked, uint64(c.mask), uint64(c.value)}
	}
	return a
}

// Entries lists a profile with reasons, sorted by name: allowed calls, and
// calls refused in their own way. Errors: an unknown profile or architecture.
func Entries(name, arch string) ([]Entry, error) {
	if _, err := archOf(arch); err != nil {
		return nil, err
	}
	p, err := load(name)
	if err != nil {
		return nil, err
	}
	return entriesOf(name, slices.Concat(p.allow, p.refuse), arch)
}

// entriesOf lists groups of calls, sorted.
func entriesOf(profile string, groups []group, arch string) ([]Entry, error) {
	var out []Entry
	for g := range on(groups, arch) {
		r, err := g.argRule()
		if err != nil {
			return nil, fmt.Errorf("seccomp profile %q: %w", profile, err)
		}
		e := Entry{Why: g.why, Errno: g.errno, Rule: r.text, Against: r.why}
		for _, e.Name = range g.names {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// DenySpecAllow keeps delegates from loading the filter with
// SECCOMP_FILTER_FLAG_SPEC_ALLOW, which switches the kernel's speculative store
// bypass mitigation for filtered processes off (seccomp(2)): runc from 1.2 and
// crun set it when a section lists no flags at all. TSYNC, which both know and
// imply anyway, is listed so that there is a flag. runc before 1.2 refuses any
// flag (and never sets SPEC_ALLOW), so this is for delegates whose
// `features` names known seccomp flags. Since Linux 5.16 the flag matters only
// with spec_store_bypass_disable=seccomp on the kernel's command line.
func DenySpecAllow(s *specs.LinuxSeccomp) {
	s.Flags = []specs.LinuxSeccompFlag{"SECCOMP_FILTER_FLAG_TSYNC"}
}
