// Package none is the network mode in which a jail reaches nothing. Its network namespace has only
// lo, and is sealed (runtime/network/seal) against interfaces that engines add without the runtime.
package none

import (
	"fmt"
	"os"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/network/seal"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
)

// Mode implements the mode; see runtime/network/modes for its methods.
type Mode struct{}

// LinkField begins the field of the report's change for an interface that was taken down.
const LinkField = "network interface "

const empty = "the jail's network is empty"

// Name returns the mode's name in policy.
func (Mode) Name() string { return network.Empty }

// Decide joins the namespace of a jail that reaches nothing either. No other namespace is joined: a
// jail without network must not get one through another jail.
func (Mode) Decide(f network.Found) network.Decision {
	d := network.Decision{Mode: network.Empty, Namespace: network.Own}
	if f.Jail && f.Mode == network.Empty {
		d.Namespace = network.Joined
	}
	return d
}

// Terms disable all that an empty network does not need. A joined namespace is checked for its
// first jail.
func (Mode) Terms(d network.Decision) network.Terms {
	own := d.Namespace == network.Own
	return network.Terms{NoMore: empty, CopyNames: true, OnlyLoopback: own}
}

// Prepare has nothing to do: the delegate makes the namespace, or joins it.
func (Mode) Prepare(network.Decision, *specs.Spec) (*os.File, error) { return nil, nil }

// Launch has nothing to do: there is no helper.
func (Mode) Launch(network.Jail) error { return nil }

// Seal closes the namespace. It reports the interfaces that it took down, and the protections that
// this kernel lacks. The report is returned with an error, too. A missing packet filter is an error
// if policy requires the filter. The error reports a namespace that stays open.
func (Mode) Seal(j network.Jail) (out network.Sealed, err error) { return Seal(j, seal.Seal) }

// Seal is Mode.Seal by a given function of package seal.
func Seal(j network.Jail, by func(*os.File) (seal.Report, error)) (out network.Sealed, err error) {
	ns, err := j.Open()
	if err != nil {
		return out, err
	}
	defer ns.Close()
	sealed, err := by(ns)
	if err != nil {
		return out, err
	}
	for _, l := range sealed.Links {
		out.Changes = append(out.Changes, report.Change{
			Ring: rings.Resources, Kind: report.Denied, Field: LinkField + l.Name,
			Was: "up", Now: "down", Why: empty,
		})
	}
	for _, m := range sealed.Missing() {
		out.Changes = append(out.Changes, report.Change{
			Ring: rings.Resources, Kind: report.Missing,
			Field: network.MissingField(m.Name), Why: m.Detail,
		})
		if m.Name == seal.SealFilter && j.FilterRequired {
			err = fmt.Errorf("the kernel's packet filter is needed and missing: %s (remedy: modprobe nf_tables, or network.filter = \"optional\", which leaves a later interface to routing rules that a program can go around)", m.Detail)
		}
	}
	return out, err
}

// Audit reads the seal's protections.
func (Mode) Audit(j network.Jail) (network.Audit, error) {
	a := network.Audit{Want: "nothing but lo", Detail: "nothing but lo"}
	ns, err := j.Open()
	if err != nil {
		return a, err
	}
	defer ns.Close()
	found, err := seal.Verify(ns)
	a.Protections = found
	for _, f := range found {
		if f.Name == seal.SealLinks && f.OK && f.Detail != "" {
			a.Detail = f.Detail
		}
	}
	return a, err
}

// Probes returns a probe that seals a fresh network namespace, as `start` seals a jail's. The probe
// is required for every mode of policy: a jail of any mode can join a sealed jail's namespace,
// which is then sealed again.
func (Mode) Probes() []network.Probe {
	return []network.Probe{{Name: "network-seal", What: "network seal", Required: func(string) bool { return true }, Run: sealFresh}}
}

func sealFresh() network.Answer {
	rep, err := seal.SealFresh()
	if err != nil {
		return network.Answer{Detail: err.Error(), Remedy: "load nf_tables (`modprobe nf_tables`), and boot a kernel with CONFIG_IP_MULTIPLE_TABLES"}
	}
	if m := rep.Missing(); len(m) > 0 {
		var names []string
		for _, f := range m {
			names = append(names, f.Name+": "+f.Detail)
		}
		return network.Answer{
			Warn: true, Detail: "a fresh namespace is sealed, without " + strings.Join(names, "; "),
			Remedy: "load nf_tables (`modprobe nf_tables`)",
		}
	}
	return network.Answer{OK: true, Detail: fmt.Sprintf("a fresh network namespace is sealed: %d protections hold, nf_tables among them", len(rep.Protections))}
}
