package why

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/spec/rings"
	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/abi"
	"agentjail.dev/seccomp/bpf"
	"agentjail.dev/seccomp/compare"
	"agentjail.dev/seccomp/compiler"
)

// Filters are the two filters of a jail, and what they were made of.
type Filters struct {
	Profile string
	Arch    string // a GOARCH
	Kill    bool
	// List narrows the profile, and File is where it came from; nil and "" where it is not
	// narrowed.
	List *seccomp.List
	File string
	// Outer is the delegate's, with what the init step needs, and Inner the exact one.
	Outer, Inner []bpf.Insn
	// Where is where the policy is written.
	Where string
}

// options are those of the profile alone.
func (f *Filters) options() seccomp.Options {
	return seccomp.Options{Profile: f.Profile, Arch: f.Arch, Kill: f.Kill, Only: f.List}
}

// Alone are the filters that a jail has whose engine brings none: for a profile without a jail.
func Alone(o seccomp.Options) (*Filters, error) {
	section, err := seccomp.OCI(o)
	if err != nil {
		return nil, err
	}
	f := &Filters{Profile: o.Profile, Arch: o.Arch, Kill: o.Kill, List: o.Only}
	if f.Inner, err = compiler.Compile(section); err != nil {
		return nil, err
	}
	outer, _ := seccomp.WithEntry(section)
	f.Outer, err = compiler.Compile(outer)
	return f, err
}

// A verdict is one filter's answer to all the calls that a question covers.
type verdict struct {
	pass, refuse bool
	worst        uint32 // the strictest refusal
}

func (c *Call) partial(arch string) bpf.Partial {
	p := bpf.Call(bpf.AuditArch(arch), c.Number)
	for i := range c.Args {
		if c.Known[i] {
			p = p.With(i, ^uint64(0), c.Args[i])
		}
	}
	return p
}

// judge evaluates one filter.
func judge(prog []bpf.Insn, p bpf.Partial) (v verdict, err error) {
	answers, err := bpf.Verdicts(prog, p)
	if err != nil {
		return v, err
	}
	for _, a := range answers {
		switch act := a & bpf.RetActionFull; {
		case act == bpf.RetAllow || act == bpf.RetLog:
			v.pass = true
		case !v.refuse || int32(act) < int32(v.worst&bpf.RetActionFull):
			v.refuse, v.worst = true, a
		}
	}
	return v, nil
}

// errnoOf names a filter's refusal as a program sees it.
func errnoOf(v uint32) string {
	switch v & bpf.RetActionFull {
	case bpf.RetErrno:
		if v&bpf.RetData == 0 {
			return seccomp.Done
		}
		return seccomp.ErrnoName(v & bpf.RetData)
	case bpf.RetTrap:
		return "SIGSYS"
	}
	return "ends the process"
}

// ofCall answers for a system call.
func (f *Filters) ofCall(text string, c Call) (*Answer, error) {
	a := &Answer{Question: text, Kind: OfCall, Ring: new(rings.Kernel)}
	p := c.partial(f.Arch)
	inner, err := judge(f.Inner, p)
	if err != nil {
		return nil, err
	}
	outer, err := judge(f.Outer, p)
	if err != nil {
		return nil, err
	}
	switch {
	case inner.pass && outer.pass && !inner.refuse && !outer.refuse:
		a.Verdict = Passes
	case !inner.pass || !outer.pass:
		a.Verdict = Refused
	default:
		a.Verdict = Depends
	}
	a.By = f.by(inner, outer)
	if a.Verdict != Passes {
		worst := inner.worst
		if !inner.refuse || outer.refuse && int32(outer.worst&bpf.RetActionFull) < int32(inner.worst&bpf.RetActionFull) {
			worst = outer.worst
		}
		a.Errno = errnoOf(worst)
	}
	return a, f.explain(a, &c, p)
}

// by names the filters that refuse.
func (f *Filters) by(inner, outer verdict) []string {
	name := "profile " + f.Profile
	switch {
	case inner.refuse && outer.refuse && !outer.pass:
		return []string{"both system call filters, " + name}
	case inner.refuse && outer.refuse:
		return []string{"both system call filters, for some arguments, " + name}
	case inner.refuse:
		return []string{"the inner system call filter (the outer one lets the init step use it), " + name}
	case outer.refuse:
		return []string{"the outer system call filter, " + name}
	}
	return nil
}

// notListed is the reason of calls for which there is no other.
const notListed = "what is not listed does not exist in a jail"

// explain adds the rule, the reason and the remedies.
func (f *Filters) explain(a *Answer, c *Call, p bpf.Partial) error {
	if c.Name == "" {
		a.Rule, a.Why = fmt.Sprintf("number %d is no system call of this version's table", c.Number), notListed
		a.Purpose = true
		return nil
	}
	alone, err := profileOf(f.Profile, f.Arch)
	if err != nil {
		return err
	}
	own, err := judge(alone.prog, p)
	if err != nil {
		return err
	}
	a.Then = otherLayers(c)
	f.rule(a, c)
	switch {
	case a.Verdict == Passes:
		return nil
	case !own.refuse || a.Verdict == Refused && own.pass:
		return f.narrowed(a, c, p, own)
	}
	a.Instead = refused().Instead[c.Name]
	if g := groupOf(c.Name); g != nil {
		a.Instead = g.Instead
		if a.Why == notListed {
			a.Why = g.Why
		}
	}
	if a.Remedies, err = f.widening(c, p); err != nil {
		return err
	}
	a.Purpose = len(a.Remedies) == 0
	return nil
}

// rule reports what the profile has of a call.
func (f *Filters) rule(a *Answer, c *Call) {
	entries, err := seccomp.Entries(f.Profile, f.Arch)
	if err != nil {
		return
	}
	i := slices.IndexFunc(entries, func(e seccomp.Entry) bool { return e.Name == c.Name })
	if i < 0 {
		a.Rule, a.Why = fmt.Sprintf("%s is not listed in profile %s", c.Name, f.Profile), notListed
		return
	}
	e := entries[i]
	switch {
	case e.Errno != "":
		a.Rule = fmt.Sprintf("profile %s lists %s to be answered %s", f.Profile, c.Name, e.Errno)
		if e.Rule != "" {
			a.Rule += "; " + e.Rule
		}
		a.Why = e.Why
	case e.Rule != "":
		a.Rule = fmt.Sprintf("profile %s lets %s pass for: %s", f.Profile, c.Name, e.Rule)
		if a.Why = e.Why; a.Verdict != Passes {
			a.Why = "the rest is refused: " + e.Against
		}
	default:
		a.Rule, a.Why = fmt.Sprintf("profile %s lists %s", f.Profile, c.Name), e.Why
	}
}

// narrowed answers where the profile lets pass what the jail's filter does not: a list, or the
// engine's own filter.
func (f *Filters) narrowed(a *Answer, c *Call, p bpf.Partial, own verdict) error {
	if f.List != nil {
		listed, err := Alone(f.options())
		if err != nil {
			return err
		}
		if v, err := judge(listed.Inner, p); err != nil {
			return err
		} else if !v.pass || v.refuse && !own.refuse {
			a.Rule = fmt.Sprintf("%s, but the list of %s does not have it", a.Rule, f.listFile())
			a.Why = "the work that the list was made for did not use it"
			a.Remedies = []Remedy{{Write: fmt.Sprintf(`{"names": [%q], "why": "REASON"}`, c.Name), Where: `"allow" of ` + f.listFile()}}
			return nil
		}
	}
	a.Rule += ", but the filter that the engine brings refuses it"
	a.Why = "a jail has what both the profile and the engine's own filter let pass"
	a.Remedies = []Remedy{{
		Write: "docker run --security-opt seccomp=unconfined",
		Where: "the container's command line: the jail's profile stays as it is", Opens: "what profile " + f.Profile + " lets pass and the engine's filter refuses",
	}}
	return nil
}

func (f *Filters) listFile() string { return cmp.Or(f.File, "seccomp.only") }

// widening lists the profiles that let a call through, each with what it opens, the narrowest
// first.
func (f *Filters) widening(c *Call, p bpf.Partial) ([]Remedy, error) {
	now, err := f.section()
	if err != nil {
		return nil, err
	}
	type wider struct {
		name  string
		opens []string
		score int
	}
	var found []wider
	for _, name := range seccomp.Profiles() {
		other, err := profileOf(name, f.Arch)
		if err != nil {
			return nil, err
		}
		v, err := judge(other.prog, p)
		if err != nil {
			return nil, err
		}
		if !v.pass || v.refuse && !f.more(other.prog, c) {
			continue
		}
		d, err := f.against(now, name, other.section)
		if err != nil {
			return nil, err
		}
		opens := slices.DeleteFunc(slices.Concat(d.OnlyB, d.CheckedA), func(n string) bool { return n == c.Name })
		found = append(found, wider{name, opens, d.B.KernelCTF})
	}
	slices.SortStableFunc(found, func(a, b wider) int { return len(a.opens) - len(b.opens) })
	var out []Remedy
	for _, w := range found[:min(len(found), 1)] { // the others open more
		opens := strings.Join(w.opens, ", ")
		if len(w.opens) > 8 {
			opens = fmt.Sprintf("%s and %d more", strings.Join(w.opens[:8], ", "), len(w.opens)-8)
		}
		if len(w.opens) > 0 {
			opens = fmt.Sprintf("%s (%d of 100 public kernelCTF exploits find their entry in profile %s)", opens, w.score, w.name)
		}
		if len(w.opens) > 0 && f.List == nil {
			out = append(out, f.single(c.Name, w.name))
		}
		out = append(out, Remedy{Write: fmt.Sprintf("seccomp.profile = %q", w.name), Where: f.where(), Opens: opens})
	}
	return out, nil
}

// A compiled is a profile as section and as program.
type compiled struct {
	section *specs.LinuxSeccomp
	prog    []bpf.Insn
}

// known are the profiles of earlier questions, by name and architecture.
var known sync.Map

// profileOf compiles a profile once.
func profileOf(name, arch string) (*compiled, error) {
	key := name + " " + arch
	if c, ok := known.Load(key); ok {
		return c.(*compiled), nil
	}
	section, err := seccomp.OCI(seccomp.Options{Profile: name, Arch: arch})
	if err != nil {
		return nil, err
	}
	prog, err := compiler.Compile(section)
	if err != nil {
		return nil, err
	}
	c := &compiled{section, prog}
	known.Store(key, c)
	return c, nil
}

// section is what the jail has by policy.
func (f *Filters) section() (*specs.LinuxSeccomp, error) {
	return seccomp.OCI(f.options())
}

// against compares what the jail has with a profile. Of two profiles the answer is kept.
func (f *Filters) against(now *specs.LinuxSeccomp, name string, other *specs.LinuxSeccomp) (*compare.Diff, error) {
	key := [3]string{f.Profile, name, f.Arch}
	if d, ok := differences.Load(key); ok && f.List == nil {
		return d.(*compare.Diff), nil
	}
	d, err := compare.Sections(f.Profile, now, name, other, f.Arch)
	if err == nil && f.List == nil {
		differences.Store(key, d)
	}
	return d, err
}

// differences are those between profiles that were compared.
var differences sync.Map

// more reports whether another profile's rule for a call lets more through than this jail's:
// without arguments a question is about all.
func (f *Filters) more(prog []bpf.Insn, c *Call) bool {
	v, err := judge(f.Inner, bpf.Call(bpf.AuditArch(f.Arch), c.Number))
	if err != nil || v.pass {
		return false // for some arguments it passes already: the question reports which
	}
	w, err := judge(prog, bpf.Call(bpf.AuditArch(f.Arch), c.Number))
	return err == nil && w.pass
}

// single is the change that lets one call through and no other: the wider profile, narrowed by a
// list to what there is now and this call.
func (f *Filters) single(call, profile string) Remedy {
	file := path.Join(listDir, f.Profile+"-"+call+".json")
	list := fmt.Sprintf(`{"extends": %q, "allow": [{"names": [%q], "why": "REASON"}]}`, f.Profile, call)
	return Remedy{Write: fmt.Sprintf("seccomp.profile = %q, seccomp.only = %q, and in that file: %s", profile, file, list), Where: f.where()}
}

// listDir is where lists of calls are kept by convention.
const listDir = "/etc/agentjail/seccomp"

func (f *Filters) where() string { return cmp.Or(f.Where, ThePolicy) }

// isCall reports whether a word is a system call's name of an architecture.
func isCall(word, arch string) bool {
	_, ok := abi.Number(word, arch)
	return ok
}
