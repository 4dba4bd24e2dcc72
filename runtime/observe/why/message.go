package why

import (
	"slices"
	"strconv"
	"strings"

	"agentjail.dev/runtime/spec/lazyregexp"
	"agentjail.dev/seccomp/bpf"
)

// aPath finds a path in a message, and aCall a call as strace prints it.
var (
	aPath = lazyregexp.New(`(?:^|[\s'"` + "`" + `(=])(/[^\s'"` + "`" + `,;:)]+)`)
	aCall = lazyregexp.New(`\b([a-z_0-9]+)\(([^()]*)\)\s*=\s*-1 E`)
)

// find is the entry that a text is of, and the named parts of its pattern; nil where there is none.
func find(text string) (*message, map[string]string) {
	all := messages()
	for i := range all {
		m := &all[i]
		at := m.pattern.FindStringSubmatch(text)
		if at == nil {
			continue
		}
		named := map[string]string{}
		for k, name := range m.pattern.SubexpNames() {
			if name != "" && at[k] != "" {
				named[name] = at[k]
			}
		}
		return m, named
	}
	return nil, nil
}

// about adds to a question about an error the subject of its text: a call, a name of the network, a
// path.
func (q *Question) about(arch string) {
	if q.Kind != OfError {
		return
	}
	m, named := find(q.Text)
	if at := aCall().FindStringSubmatch(q.Text); at != nil && isCall(at[1], arch) {
		q.Inner = fromStrace(at[1], at[2], arch)
	} else if c := named["call"]; c != "" && isCall(strings.ToLower(c), arch) {
		q.Inner, _, _ = parseCall(strings.ToLower(c), arch)
	}
	if h := named["host"]; h != "" {
		q.Name, q.Port, _ = target(h)
	}
	if p := named["path"]; p != "" {
		q.Path = p
	} else if at := aPath().FindStringSubmatch(q.Text); at != nil && m != nil && m.Path {
		q.Path = at[1]
	}
}

// fromStrace reads a call as strace prints it; arguments that are no numbers or constants are not
// known.
func fromStrace(name, args, arch string) Call {
	c, _, _ := parseCall(name, arch)
	for i, word := range strings.Split(args, ",") {
		if i >= len(c.Args) {
			break
		}
		if v, known, err := argument(strings.TrimSpace(word)); err == nil {
			c.Args[i], c.Known[i] = v, known
		}
	}
	return c
}

// ofError answers for the text of an error: the causes that the jail shows come first.
func (f *Facts) ofError(q Question) (*Answer, error) {
	a := &Answer{Question: q.Text, Kind: OfError, Verdict: Unknown}
	if len(a.Question) > 200 {
		a.Question = a.Question[:200] + "..."
	}
	if err := f.answerInner(a, q); err != nil {
		return nil, err
	}
	m, _ := find(q.Text)
	if m == nil {
		if len(a.Causes) == 0 {
			a.Why = "no message of the table is like it"
			a.Instead = "the system call, path or name that it is about: `strace -f PROGRAM` outside of the jail shows it; `agentjail why ID CALL`"
		} else {
			a.Verdict = a.Causes[0].Verdict
		}
		return a, nil
	}
	var shown, rest []Answer
	for _, c := range m.Causes {
		b, sure := f.cause(c)
		if b != nil {
			b.Remedies = f.filled(b.Remedies, q)
		}
		switch {
		case b == nil:
		case sure:
			shown = append(shown, *b)
		default:
			rest = append(rest, *b)
		}
	}
	a.Causes = slices.Concat(shown, a.Causes, rest)
	if a.Verdict = Depends; len(a.Causes) == 1 || len(shown) > 0 {
		a.Verdict = a.Causes[0].Verdict
	}
	return a, nil
}

// answerInner answers for what an error's text is about.
func (f *Facts) answerInner(a *Answer, q Question) error {
	if q.Inner.Name != "" && f.Filters != nil {
		b, err := f.Filters.ofCall(q.Inner.Name, q.Inner)
		if err != nil {
			return err
		}
		if b.Verdict != Passes {
			a.Causes = append(a.Causes, *b)
		}
	}
	if q.Name != "" {
		if b := f.ofName(q.Name+":"+strconv.Itoa(int(q.Port)), q.Name, q.Port); b.Verdict == Refused && f.Network.ByRules {
			a.Causes = append(a.Causes, *b)
		}
	}
	if q.Path != "" && f.Path != nil {
		b := f.ofPath(q.Path)
		if b.Verdict != Passes {
			a.Causes = append(a.Causes, *b)
		}
	}
	return nil
}

// cause is one reason of an entry, compared with the state of the jail. It is nil if the jail rules
// the cause out; sure means that the jail confirms it.
func (f *Facts) cause(c cause) (a *Answer, sure bool) {
	a = &Answer{Question: c.What, Kind: OfError, Verdict: Refused, Ring: c.ring(), Remedies: c.remedies(), Purpose: c.Purpose, Instead: c.Instead}
	if c.By != "" {
		a.By = []string{c.By}
	} else {
		a.Verdict = Unknown
	}
	if c.Sign == "" {
		return a, false
	}
	if name, ok := strings.CutPrefix(c.Sign, "no call "); ok {
		passes, known := f.passes(name)
		if known && passes {
			return nil, false
		}
		return a, known
	}
	if name, ok := strings.CutPrefix(c.Sign, "call "); ok {
		passes, known := f.passes(name)
		if known && !passes {
			return nil, false
		}
		return a, known
	}
	for _, s := range f.Signs {
		switch {
		case s.Sign != c.Sign:
		case s.Shown:
			a.Seen = append(a.Seen, s.Text)
			return a, true
		case s.Rules:
			return nil, false
		default:
			a.Seen = append(a.Seen, s.Text)
			return a, false
		}
	}
	return a, false
}

// filled has what a question is about in the place of the table's words.
func (f *Facts) filled(in []Remedy, q Question) []Remedy {
	out := slices.Clone(in)
	for i := range out {
		r := &out[i]
		if q.Name != "" {
			entry := q.Name + ":" + strconv.Itoa(int(q.Port))
			r.Write = strings.ReplaceAll(strings.ReplaceAll(r.Write, "NAME:PORT", entry), "--allow NAME", "--allow "+entry)
		}
		if r.Where == thePolicy {
			r.Where = f.where()
		}
	}
	return out
}

// passes reports whether a call passes for some arguments at least.
func (f *Facts) passes(call string) (passes, known bool) {
	if f.Filters == nil {
		return false, false
	}
	c, ok, err := parseCall(call, f.Filters.Arch)
	if !ok || err != nil {
		return false, false
	}
	v, err := bpf.Passes(f.Filters.Inner, c.partial(f.Filters.Arch))
	return v, err == nil
}

// A Sign is something that a jail shows of a cause.
type Sign struct {
	// Sign is the cause's: "memory", "pids", "layer", "layer files", "tmpfs", "network none",
	// "network names", "name", "kill", "protected", "other user", "tls end".
	Sign string
	// Shown reports that it is there; Rules, where it is not, that the cause cannot be it.
	Shown, Rules bool
	Text         string
}
