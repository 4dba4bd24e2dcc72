package seccomp

import (
	"cmp"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// args is one rule's condition: every argument must be in its set.
type args [6]set

// always is the allowing rule without conditions. Never written to.
var always = []args{{}}

// unconditional reports whether rules allow every call.
func unconditional(rules []args) bool { return len(rules) == 1 && rules[0] == args{} }

// subsetOf reports whether a's calls are all among b's.
func (a args) subsetOf(b args) bool {
	for i := range a {
		if !a[i].subsetOf(b[i]) {
			return false
		}
	}
	return true
}

// apart reports whether no call matches both.
func (a args) apart(b args) bool {
	for i := range a {
		if a[i].apart(b[i]) {
			return true
		}
	}
	return false
}

// meet is what both match; see set.meet.
func (a args) meet(b args) (m args, empty, exact bool) {
	exact = true
	for i := range a {
		s, none, ok := a[i].meet(b[i])
		if none && ok {
			return args{}, true, true
		}
		exact = exact && ok
		m[i] = s
	}
	return m, !exact, exact
}

// runs reports whether argument i is compared with < or >=.
func (a args) runs(i int) bool { return a[i].kind == below || a[i].kind == atLeast }

// tangles reports whether a comparison other than for equality is followed by a
// condition on a higher argument. libseccomp hangs such a continuation into its
// tree at two places; a second rule for the same call can then make a ring of
// it that libseccomp never leaves (seen with 2.5.4).
func (a args) tangles() bool {
	unequal := false
	for _, s := range a {
		if unequal && s.kind != everything {
			return true
		}
		unequal = unequal || s.kind != everything && s.kind != masked
	}
	return false
}

// oci renders the conditions, lowest argument first.
func (a args) oci() []specs.LinuxSeccompArg {
	var out []specs.LinuxSeccompArg
	for i, s := range a {
		if s.kind != everything {
			out = append(out, s.arg(uint(i)))
		}
	}
	return out
}

func compareArgs(a, b args) int {
	for i := range a {
		if c := cmp.Or(cmp.Compare(a[i].kind, b[i].kind), cmp.Compare(a[i].mask, b[i].mask),
			cmp.Compare(a[i].value, b[i].value)); c != 0 {
			return c
		}
	}
	return 0
}

// answer is a filter's answer to a call that it does not allow.
type answer struct {
	action specs.LinuxSeccompAction
	errno  uint // of ActErrno
}

// rank orders answers by strictness, as the kernel does among several filters
// (seccomp(2), "the highest precedence action").
func (a answer) rank() int {
	switch a.action {
	case specs.ActKillProcess:
		return 5
	case specs.ActKill, specs.ActKillThread:
		return 4
	case specs.ActTrap:
		return 3
	case specs.ActAllow, specs.ActLog:
		return 0
	}
	return 2
}

// kills is true for the answers that a program cannot pass over.
func (a answer) kills() bool { return a.rank() > 2 }

// refusal answers the calls that match its conditions.
type refusal struct {
	args
	answer
	// rest marks the refusal of all that no allowing rule matches. In OCI
	// JSON it is "argument 0 >= 0": libseccomp tests the higher arguments
	// first, and equalities before comparisons, so this one comes last. Were
	// the order different it could only refuse more.
	rest bool
}

// call holds a filter's rules for one syscall, in canonical order.
type call struct {
	name   string
	allow  []args
	refuse []refusal
}

// sort brings the rules into canonical order and drops rules that others
// contain.
func (c *call) sort() {
	c.allow = maximal(c.allow)
	if len(c.refuse) < 2 {
		return
	}
	slices.SortFunc(c.refuse, func(a, b refusal) int {
		return cmp.Or(compareArgs(a.args, b.args), -cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.errno, b.errno),
			cmpBool(a.rest, b.rest))
	})
	c.refuse = slices.CompactFunc(c.refuse, func(a, b refusal) bool { return a.args == b.args && a.rest == b.rest })
}

func cmpBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// maximal drops what another member contains, and sorts. It does not write to
// its argument.
func maximal(in []args) []args {
	if len(in) < 2 {
		return in
	}
	in = slices.Clone(in)
	slices.SortFunc(in, compareArgs)
	in = slices.Compact(in)
	out := make([]args, 0, len(in))
	for i, a := range in {
		if !slices.ContainsFunc(in[:i], a.subsetOf) && !slices.ContainsFunc(in[i+1:], func(b args) bool {
			return a.subsetOf(b) && !b.subsetOf(a)
		}) {
			out = append(out, a)
		}
	}
	return out
}

// plain reports whether the call is allowed whatever its arguments.
func (c *call) plain() bool { return len(c.refuse) == 0 && unconditional(c.allow) }

// filter is a whole seccomp section in canonical form.
type filter struct {
	def    answer
	arches []specs.Arch
	flags  []specs.LinuxSeccompFlag
	calls  []call // sorted by name
}

func (f *filter) sort() {
	slices.SortFunc(f.calls, func(a, b call) int { return strings.Compare(a.name, b.name) })
}

// oci renders the filter: the calls that are allowed with any arguments in
// one rule, then those that are refused with any, then those with argument
// rules, calls of the same rules together.
func (f *filter) oci() *specs.LinuxSeccomp {
	out := &specs.LinuxSeccomp{DefaultAction: f.def.action, Architectures: f.arches, Flags: f.flags}
	if f.def.action == specs.ActErrno {
		out.DefaultErrnoRet = &f.def.errno
	}
	var plain []string
	var groups [][]*call
	for i := range f.calls {
		c := &f.calls[i]
		if c.plain() {
			plain = append(plain, c.name)
			continue
		}
		same := slices.IndexFunc(groups, func(g []*call) bool {
			return slices.Equal(g[0].allow, c.allow) && slices.Equal(g[0].refuse, c.refuse)
		})
		if same < 0 {
			groups = append(groups, []*call{c})
			continue
		}
		groups[same] = append(groups[same], c)
	}
	if len(plain) > 0 {
		out.Syscalls = append(out.Syscalls, specs.LinuxSyscall{Names: plain, Action: specs.ActAllow})
	}
	for _, g := range groups {
		names := make([]string, len(g))
		for i, c := range g {
			names[i] = c.name
		}
		for _, a := range g[0].allow {
			out.Syscalls = append(out.Syscalls, specs.LinuxSyscall{Names: names, Action: specs.ActAllow, Args: a.oci()})
		}
		for _, r := range g[0].refuse {
			s := specs.LinuxSyscall{Names: names, Action: r.action, Args: r.args.oci()}
			if r.rest {
				s.Args = []specs.LinuxSeccompArg{{Index: 0, Value: 0, Op: specs.OpGreaterEqual}}
			}
			if r.action == specs.ActErrno {
				errno := r.errno
				s.ErrnoRet = &errno
			}
			out.Syscalls = append(out.Syscalls, s)
		}
	}
	return out
}
