package why

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"agentjail.dev/runtime/spec/netrules"
	"agentjail.dev/runtime/spec/netrules/publicsuffix"
	"agentjail.dev/runtime/spec/rings"
)

// Facts are what is known of a jail, or of a policy without one.
type Facts struct {
	ID string // "" is a policy
	// Ended reports that the jail has ended: the policy is that of its name now.
	Ended   bool
	Filters *Filters
	Network Network
	// Path is what was found at the question's path; nil if it was not examined.
	Path *Path
	// Signs are what the jail shows of causes.
	Signs []Sign
	// Where is where the policy is written.
	Where string
}

// Network is what of a jail's network answers depend on.
type Network struct {
	// Mode is policy.
	Mode string
	// ByRules reports that Rules are what is reached; Joined that they are those of another jail;
	// Nothing that it is lo alone.
	ByRules, Joined, Nothing bool
	// OfCall reports that Rules are those of the call's --allow, in place of policy's.
	OfCall bool
	// Approval reports that a name without a rule can be decided on while the jail runs.
	Approval bool
	Rules    *netrules.Set
	// Exact are the exact names of all rules so far, in the order of their addresses.
	Exact []string
}

// Answer answers a question.
func (f *Facts) Answer(q Question) (*Answer, error) {
	a, err := f.answer(q)
	if err == nil && f.Ended {
		a.Seen = append(a.Seen, "the jail has ended: its journal, and its policy as it is now, answer")
	}
	return a, err
}

func (f *Facts) answer(q Question) (*Answer, error) {
	switch q.Kind {
	case OfCall:
		return f.Filters.ofCall(q.Text, q.Call)
	case OfName:
		if f.resolve(&q); q.unresolved() {
			return &Answer{
				Question: q.Text, Kind: OfName, Verdict: Unknown, Rule: "an address that stands for a name of a wildcard, or for none",
				Instead: "`agentjail network log ID` shows the names and ports that were refused; and the name is a question, too",
			}, nil
		}
		a := f.ofName(q.Text, q.Name, q.Port)
		if a.name = q.Name; q.Addr.IsValid() {
			a.Seen = append(a.Seen, q.Addr.String()+" stands for "+q.Name)
		}
		return a, nil
	case OfPath:
		return f.ofPath(q.Text), nil
	}
	return f.ofError(q)
}

// resolve turns an address that stands for a name back into the name.
func (f *Facts) resolve(q *Question) {
	if name := netrules.NameAt(f.Network.Exact, q.Addr); q.Addr.IsValid() && name != "" {
		q.Name = name
	}
}

// unresolved reports whether a question is about an address that stands for an unknown name.
func (q *Question) unresolved() bool { return q.Addr.IsValid() && q.Name == q.Addr.String() }

// ofName answers for a name of the network: the answer of `agentjail network check`, and for a jail
// without a network what to set.
func (f *Facts) ofName(text, name string, port uint16) *Answer {
	a := &Answer{Question: text, Kind: OfName, Verdict: Refused, Ring: new(rings.Resources)}
	entry := fmt.Sprintf("%s:%d", name, port)
	switch {
	case f.Network.Joined:
		a.Verdict, a.By, a.Rule = Depends, []string{"network by name"}, "the network is another jail's, whose rules hold: use that jail's ID"
	case f.Network.ByRules:
		v := f.Network.Rules.Match(name, port)
		a.By = []string{"network by name, policy's network.allow and network.deny"}
		if v.OK {
			a.entry = v.Rule
			a.Verdict, a.By, a.Rule = Passes, nil, v.Rule.Source()
			a.Why, a.Then = publicsuffix.Warning(v.Rule), "where the name leads is judged when it is connected to; 443 has to be TLS for that name, 80 HTTP"
			return a
		}
		a.Rule = v.Reason
		if v.Remedy == "" && v.Rule != nil {
			a.Remedies = []Remedy{{
				Write: fmt.Sprintf("network.deny without %q", v.Rule.Source()), Where: f.where(),
				Opens: "what else that entry covers, as far as network.allow has it",
			}}
		} else if v.Remedy != "" {
			a.Remedies = []Remedy{{Write: "network.allow: add \"" + entry + "\", then `agentjail network reload ID`", Where: f.where()}}
			if f.Network.OfCall {
				a.Remedies = []Remedy{{Write: "--allow " + entry, Where: TheCall}}
			}
			if v.Rule == nil && f.approvable(name) {
				a.Remedies = slices.Insert(a.Remedies, 0, Remedy{
					Write: fmt.Sprintf("agentjail network allow %s %s", f.ID, entry), Where: "this jail, until its end (--once, --for TIME)",
				})
			}
			if v.Rule == nil {
				a.Then = fmt.Sprintf("where the name leads to a private address, the entry is %q", entry+" private")
			}
		}
	case f.Network.Nothing:
		a.By, a.Rule = []string{"network"}, fmt.Sprintf("network.mode = %q: nothing but lo", f.Network.Mode)
		a.Remedies = []Remedy{{Write: fmt.Sprintf(`network.mode = "names", network.allow = [%q] (agentjail sandbox --allow %s)`, entry, entry), Where: f.where()}}
	default:
		a.Verdict, a.Ring = Passes, nil
		a.Rule = fmt.Sprintf("network.mode = %q: the network is the engine's work, and nothing in it is filtered", f.Network.Mode)
	}
	return a
}

// approvable reports whether `agentjail network allow` can decide on a name that no rule has.
func (f *Facts) approvable(name string) bool {
	_, err := netip.ParseAddr(name)
	return f.Network.Approval && f.ID != "" && !f.Ended && err != nil && netrules.Local(name) == ""
}

func (f *Facts) where() string { return cmp.Or(f.Where, ThePolicy) }
