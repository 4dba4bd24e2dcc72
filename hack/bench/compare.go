package main

import (
	"fmt"
	"slices"
	"strings"
)

// A pair is a comparison to be made, of side a with side b, which were measured in the same rounds.
type pair struct {
	measure, what string
	a, b          side
	target        *target
	// gross is the ratio, of time or of processor time, beyond which something is badly wrong,
	// whatever the machine: about twice the usual one. 0: none.
	gross float64
}

// A side reports which subjects of a measure are meant. Where both sides have the same delegate or
// the variant, each subject is compared with that of the same delegate or variant.
type side struct {
	kind     kind
	delegate string // what its name begins with
	variant  string
}

// A target bounds one quantity of a comparison. It is met when the value is, whatever its interval.
type target struct {
	of   quantity
	most float64
	text string
}

// quantity is what a target bounds.
type quantity string

const (
	ofRatio      quantity = "ratio"
	ofDifference quantity = "difference"
	// ofOwnCPU is what agentjail's create itself takes of a processor, in milliseconds, and no
	// difference at all.
	ofOwnCPU quantity = "own CPU at create"
	// ofFirst is the median of the first side.
	ofFirst quantity = "value"
)

// atMost is a target for the ratio.
func atMost(ratio float64, text string) *target { return &target{ofRatio, ratio, text} }

// pairs are all comparisons, in the order of the table.
var pairs = slices.Concat(startPairs, steadyPairs, memoryPairs, diskPairs, viewPairs, namesPairs)

// startPairs are about starts: what agentjail costs beyond its delegate.
var startPairs = []pair{
	{"cycle", "create to delete", side{jailedDocker, "runc", ""}, side{bareDocker, "runc", ""}, atMost(1.10, "at most 1.10"), 2.2},
	{"cycle", "create to delete", side{jailedDocker, "crun", ""}, side{bareDocker, "crun", ""}, atMost(1.10, "at most 1.10"), 3},
	{"cycle", "create to delete over crun, against runc", side{jailedDocker, "crun", ""}, side{bareDocker, "runc", ""}, atMost(0.6, "at most 0.60"), 1.6},
	{"cycle", "create to delete, bundle without a filter", side{kind: jailed}, side{kind: bare}, nil, 0},
	{"cycle", "the delegate's cost of Docker's filter", side{kind: bareDocker}, side{kind: bare}, nil, 0},
	{"cycle", "the delegate's cost of a jail's filter", side{kind: bareOurs}, side{kind: bare}, nil, 0},
	{"cycle", "a jail's filter against Docker's", side{kind: bareOurs}, side{kind: bareDocker}, atMost(1, "no more"), 0},
	{"cycle", "the delegate's cost of a jail's whole spec", side{kind: bareJail}, side{kind: bare}, nil, 0},
	{"cycle", "agentjail's own cost", side{kind: jailedDocker}, side{kind: bareJail}, &target{ofOwnCPU, 8, "at most 8 ms of processor at create"}, 0},
	{"exec", "exec into a running container", side{jailedDocker, "runc", ""}, side{bareDocker, "runc", ""}, atMost(1.10, "at most 1.10"), 2.2},
	{"exec", "exec into a running container", side{jailedDocker, "crun", ""}, side{bareDocker, "crun", ""}, atMost(1.10, "at most 1.10"), 5},
	{"cycle", "create to delete, against the kernel's share", side{kind: jailedDocker}, side{leastKind, "C program", ""}, nil, 0},
	{"cycle", "the same without agentjail", side{kind: bareDocker}, side{leastKind, "C program", ""}, nil, 0},
	{"unrested", "create to delete, without rest", side{kind: jailedDocker}, side{kind: bareDocker}, atMost(1.10, "at most 1.10"), 3},
	{"cycle", "create to delete, against gVisor", side{kind: jailedDocker}, side{alone, "gVisor", ""}, nil, 0},
	{"layers", "create to delete", side{kind: jailedDocker}, side{kind: bareDocker}, nil, 0},
	{"docker", "docker run, the distribution's Docker", side{kind: wholeDockerJailed}, side{kind: wholeDocker}, atMost(1.03, "at most 1.03"), 1.6},
	{"ctr", "ctr run", side{kind: wholeCtrJailed}, side{kind: wholeCtr}, nil, 0},
	{"engines", dockerRun, side{engineJailed, "", dockerRun}, side{engineAlone, "", dockerRun}, atMost(1, "at most 1.00"), 0},
	{"engines", dockerLone, side{engineJailed, "", dockerLone}, side{engineAlone, "", dockerLone}, atMost(1, "at most 1.00"), 0},
	{"engines", dockerExec, side{engineJailed, "", dockerExec}, side{engineAlone, "", dockerExec}, atMost(1, "at most 1.00"), 0},
	{"engines", podmanRun, side{engineJailed, "", podmanRun}, side{engineAlone, "", podmanRun}, atMost(1, "at most 1.00"), 0},
	{"engines", ctrRun, side{engineJailed, "", ctrRun}, side{engineAlone, "", ctrRun}, atMost(1, "at most 1.00"), 0},
	{"engines", podStart, side{engineJailed, "", podStart}, side{engineAlone, "", podStart}, atMost(1, "at most 1.00"), 0},
	{"parallel", "starts per second", side{kind: jailedDocker}, side{kind: bareDocker}, nil, 0},
	{"parallel", "starts per second without agentjail against with", side{bareDocker, "", "4 at once"}, side{jailedDocker, "", "4 at once"}, atMost(1/0.95, "at most 1.05"), 0},
	{"crowd", "last start in a crowd against the first", side{jailedDocker, "", lastStarts}, side{jailedDocker, "", firstStarts}, atMost(1.2, "at most 1.20"), 0},
	{"crowd", "last start in a crowd against the first, without agentjail", side{bareDocker, "", lastStarts}, side{bareDocker, "", firstStarts}, nil, 0},
}

// A comparison holds two subjects of one run against each other.
type comparison struct {
	Measure    string   `json:"measure"`
	Delegate   string   `json:"delegate"` // "crun 1.8 : runc 1.1" where it is not the same on both sides
	What       string   `json:"what"`
	Variant    string   `json:"variant,omitempty"`
	Kind       kind     `json:"kind"` // of the first side
	Unit       string   `json:"unit"`
	Ratio      Interval `json:"ratio"`
	Difference Interval `json:"difference"`
	CPU        float64  `json:"cpuMs,omitempty"`    // difference of the medians
	CPURatio   float64  `json:"cpuRatio,omitempty"` // of the medians
	Of         quantity `json:"of,omitempty"`       // what the target bounds
	Value      float64  `json:"value,omitempty"`    // of that quantity
	Most       float64  `json:"most,omitempty"`
	Target     string   `json:"target,omitempty"`
	Met        *bool    `json:"met,omitempty"`
	Gross      float64  `json:"gross,omitempty"`
}

// name is what is compared.
func (c comparison) name() string {
	if c.Variant != "" {
		return c.What + ", " + c.Variant
	}
	return c.What
}

// verdict reports whether the target is met, "" without one.
func (c comparison) verdict() string {
	if c.Met == nil {
		return ""
	}
	value := ""
	if c.Of != ofRatio {
		value = fmt.Sprintf(" (%.2f)", c.Value)
	}
	return c.Target + map[bool]string{true: ": met", false: ": MISSED"}[*c.Met] + value
}

// find returns the subjects of a measure that a side means.
func (r *results) find(measure string, s side) []*measured {
	var out []*measured
	for _, m := range r.Subjects {
		if m.Measure == measure && m.Kind == s.kind && strings.HasPrefix(m.Delegate, s.delegate) && (s.variant == "" || m.Variant == s.variant) {
			out = append(out, m)
		}
	}
	return out
}

// compare fills Comparisons.
func (r *results) compare() {
	r.Comparisons = nil
	for _, p := range pairs {
		for _, a := range r.find(p.measure, p.a) {
			for _, b := range r.find(p.measure, p.b) {
				if p.a.delegate == p.b.delegate && a.Delegate != b.Delegate || p.a.variant == p.b.variant && a.Variant != b.Variant {
					continue
				}
				r.Comparisons = append(r.Comparisons, p.of(a, b))
			}
		}
	}
}

// of compares two subjects.
func (p pair) of(a, b *measured) comparison {
	c := comparison{
		Measure: p.measure, Delegate: a.Delegate, What: p.what, Kind: a.Kind, Unit: a.Unit,
		Ratio: ratio(a.Samples, b.Samples), Difference: difference(a.Samples, b.Samples), Gross: p.gross,
	}
	if a.Delegate != b.Delegate {
		c.Delegate += " : " + b.Delegate
	}
	if a.Variant == b.Variant && !strings.Contains(p.what, a.Variant) {
		c.Variant = a.Variant
	}
	if a.CPU != 0 && b.CPU != 0 {
		c.CPU, c.CPURatio = a.CPU-b.CPU, a.CPU/b.CPU
	}
	if t := p.target; t != nil {
		c.Of, c.Most, c.Target = t.of, t.most, t.text
		c.Value = map[quantity]float64{ofRatio: c.Ratio.Value, ofDifference: c.Difference.Value, ofOwnCPU: a.OwnCPU["create"], ofFirst: a.Median.Value}[t.of]
		met := c.Value <= t.most
		c.Met = &met
	}
	return c
}
