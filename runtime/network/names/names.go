// Package names is the network mode in which a jail reaches only the names that policy allows. Its
// network namespace is that of mode "none": only lo, sealed. A helper outside the namespace
// (package egress) answers the jail's DNS queries with addresses of 127.64.0.0/10, accepts the
// connections to them, and connects outside if the rules allow it.
package names

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/procstatus"
	"agentjail.dev/runtime/network/helper"
	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/network/none"
	"agentjail.dev/runtime/network/seal"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/netrules"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/publish"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
)

// Mode implements the mode; see runtime/network/modes for its methods.
type Mode struct{}

// Program is the file name of the helper's program, which lies beside agentjail.
const Program = helperproto.Program

const name = "names"

// logMax bounds the log of decisions, in bytes.
const logMax = 4 << 20

// resolver is the jail's resolv.conf(5): programs query only the helper. A search domain would only
// double the queries.
const resolver = "nameserver 127.0.0.1\n"

// Name returns the mode's name in policy.
func (Mode) Name() string { return name }

// Decide joins the namespace of a jail that reaches nothing, or of a jail with a network by name:
// the containers of a pod share the first container's helper and rules. Seal refuses a jail whose
// own policy allows less than those rules. If the engine has made a namespace (CNI, Podman), the
// helper runs in it, so that the engine's filters and accounting apply to the helper's connections.
func (Mode) Decide(f network.Found) network.Decision {
	if f.Jail && (f.Mode == network.Empty || f.Mode == name) {
		return network.Decision{Mode: f.Mode, Namespace: network.Joined}
	}
	d := network.Decision{Mode: name, Namespace: network.Own}
	if f.Pinned {
		d.Outside = f.Path
	}
	return d
}

// Terms returns the terms of an empty network, with a resolver.
func (Mode) Terms(d network.Decision) network.Terms {
	t := none.Mode{}.Terms(d)
	t.NoMore = "the jail reaches what policy names, and nothing else"
	t.Reach, t.Why = "by name", "a helper outside connects to what policy names (policy: network.mode, network.allow)"
	if d.Outside != "" {
		t.Why = "a helper in " + d.Outside + " connects to what policy names (policy: network.mode, network.allow)"
	}
	t.Resolver, t.SpareID = resolver, d.Namespace == network.Own
	t.ByRules, t.Served = d.Namespace == network.Own, true
	t.HookOutside = d.Namespace == network.Own && d.Outside == ""
	return t
}

// Prepare has nothing to do: the delegate makes the namespace, or joins it.
func (Mode) Prepare(network.Decision, *specs.Spec) (*os.File, error) { return nil, nil }

// Launch starts the helper while the jail is being made, so that start need not wait for it: the
// helper drops its privileges, and waits for its work. It runs in the network namespace that it
// connects from.
func (Mode) Launch(j network.Jail) error {
	if j.Decision.Namespace != network.Own {
		return nil
	}
	_, err := launch(j)
	return byName(err)
}

// byName adds the mode to an error.
func byName(err error) error {
	if err != nil {
		err = fmt.Errorf("the network by name: %w", err)
	}
	return err
}

// Seal closes the namespace as in mode "none" and sends the helper its work, with sockets inside
// the jail. Without a helper the jail is not started: a new helper is started if the launched one
// has exited. In a joined namespace the first jail's helper serves, by the first jail's rules.
func (Mode) Seal(j network.Jail) (out network.Sealed, err error) {
	if j.Decision.Namespace != network.Own {
		out, err = none.Seal(j, seal.SealByName)
		if err == nil {
			err = joins(j)
		}
		return out, err
	}
	r, err := helper.Load(j.Dir)
	if err != nil {
		return out, err
	}
	// A serving helper has its work already: start is called again.
	if serves(r) {
		return none.Seal(j, seal.SealByName)
	}
	s := helperStart{jail: j, helper: r}
	var sealed error
	wait, err := s.serve(func() error {
		out, sealed = none.Seal(j, seal.SealByName)
		return sealed
	})
	switch {
	case sealed != nil:
		return out, err
	case err != nil:
		return out, byName(err)
	case wait != nil:
		out.Serves = func() error { return byName(wait()) }
	}
	out.Changes = append(out.Changes, reportFallback(s.arrival)...)
	out.Changes = append(out.Changes, reportUnreachablePorts(s.jail, out.Changes)...)
	if !s.helper.Bounded() {
		out.Changes = append(out.Changes, report.Change{
			Ring: rings.Resources, Kind: report.Missing, Field: "the network helper's control group",
			Why: "no group can be made beside the jail's: only the helper's own resource limits bound it (remedy: run the engine as root, or on control groups version 2 that are delegated to the user)",
		})
	}
	return out, nil
}

// answer decodes a helper's answer from the record.
func answer(text string) (got helperproto.Arrival, err error) {
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		return got, fmt.Errorf("the helper's answer: %w", err)
	}
	return got, nil
}

// reportFallback reports that connections arrive by another way than the best, and the cost of that
// way.
func reportFallback(got helperproto.Arrival) []report.Change {
	if got.Way == helperproto.SkLookup {
		return nil
	}
	why := fmt.Sprintf("connections come to the helper by %s: %s", got.Way, helperproto.FallbackCost[got.Way])
	if got.Why != "" {
		why += " (" + got.Why + ")"
	}
	return []report.Change{{Ring: rings.Resources, Kind: report.Missing, Field: "network by " + helperproto.SkLookup, Why: why}}
}

// reportUnreachablePorts reports that the engine's ports are to be published although no network of
// the engine leads to the helper.
func reportUnreachablePorts(j network.Jail, changes []report.Change) []report.Change {
	r, err := j.Rules()
	if err != nil || j.Decision.Outside != "" || !slices.ContainsFunc(r.Publish, publish.IsEngine) {
		return nil // the rules were read a moment ago
	}
	why := "the engine has made no network for the container"
	for _, c := range changes {
		if strings.HasPrefix(c.Field, none.LinkField) {
			why = "the engine has put its network into the jail's own namespace, which is sealed, without announcing it before (Docker 28 and later)"
		}
	}
	return []report.Change{{
		Ring: rings.Resources, Kind: report.Missing, Field: "network.publish " + publish.Engine,
		Why: why + ": ports that it publishes do not answer (remedy: the annotation dev.agentjail.network.publish, for ports of the host)",
	}}
}

// joins refuses a jail in another jail's network if that jail's rules allow more than its own.
func joins(j network.Jail) error {
	own, err := j.Rules()
	if err != nil {
		return fmt.Errorf("the jail's rules: %w", err)
	}
	if own.Mode != name {
		return nil // policy allows its engine's whole network, which is more
	}
	first, err := j.Serving()
	if err != nil {
		return fmt.Errorf("the rules of the network that is joined: %w", err)
	}
	return checkCovered(first, own)
}

// checkCovered returns an error that names what the first rules allow and the others do not.
func checkCovered(first, own network.Rules) error {
	less, err := netrules.Parse(first.Allow, first.Deny, nil)
	if err != nil {
		return err
	}
	more, err := netrules.Parse(own.Allow, own.Deny, nil)
	if err != nil {
		return err
	}
	const remedy = "the same network.allow for all containers of a pod"
	for _, r := range less.Rules() {
		if err := more.Covers(*r); err != nil {
			return refusal.New(refusal.Network, "the network of another jail is joined, whose rules allow more: %v", err).WithRemedy(remedy)
		}
	}
	if first.Approval && !own.Approval {
		return refusal.New(refusal.Network, "the network of another jail is joined, in which names without a rule can be approved").
			WithRemedy("the same network.approval for all containers of a pod")
	}
	for _, name := range first.Credentials.Names() {
		if c, has := own.Credentials[name]; !has || !c.Same(first.Credentials[name]) {
			return refusal.New(refusal.Network, "the network of another jail is joined, which can use credentials.%s",
				name).WithRemedy("the same credentials for all containers of a pod")
		}
	}
	for _, d := range more.Denied() {
		if !slices.Contains(less.Denied(), d) {
			return refusal.New(refusal.Network, "the network of another jail is joined, whose rules do not deny %q", d).WithRemedy(remedy)
		}
	}
	for _, e := range own.Publish {
		if !slices.Contains(first.Publish, e) {
			return refusal.New(refusal.Network, "the network of another jail is joined, which does not publish %s", e).
				WithRemedy("dev.agentjail.network.publish for the pod, or for its first container")
		}
	}
	return nil
}

// emptyRoot opens a removed directory, in which no file can be made.
func emptyRoot(dir string) (*os.File, error) {
	at, err := os.MkdirTemp(dir, "empty-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(at)
	return os.OpenFile(at, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}

// Audit checks mode "none"'s protections of the namespace, and the helper.
func (Mode) Audit(j network.Jail) (network.Audit, error) {
	found, err := located(j)
	if err != nil {
		return network.Audit{}, err
	}
	j = found
	a, err := none.Mode{}.Audit(j)
	a.Want = "nothing but lo, and a helper that connects by name"
	if err != nil || j.Decision.Namespace != network.Own {
		a.Detail += "; names by the first jail's helper"
		return a, err
	}
	r, err := helper.Load(j.Dir)
	if err != nil {
		return a, err
	}
	f := network.Finding{Name: "helper", Detail: "there is none: the jail reaches nothing"}
	if r != nil {
		f.Detail = fmt.Sprintf("process %d has ended%s: the jail reaches nothing (remedy: agentjail network restart)", r.Pid, stderrSuffix(j.Dir))
		if r.Alive() {
			if f.Detail = confined(r.Pid); f.Detail == "" {
				f.Detail = isOutside(r.Pid, j.Decision)
			}
			if f.OK = f.Detail == ""; f.OK {
				a.Protections = append(a.Protections, rulesApplied(j, r.Pid))
			}
		}
		got, err := answer(r.Answer)
		if err != nil {
			f.OK, f.Detail = false, err.Error()
		}
		a.Detail = fmt.Sprintf("only lo; names by helper %d", r.Pid)
		if j.Decision.Outside != "" {
			a.Detail += " in " + j.Decision.Outside
		}
		if got.Way != "" {
			a.Detail += " (" + got.Way + ")"
		}
		a.Protections = append(a.Protections, redirected(j, got))
		if rules, err := j.Rules(); err == nil && len(rules.Publish) > 0 {
			a.Detail += ", which publishes " + strings.Join(rules.Publish, ", ")
		}
		a.Detail += usableCredentials(j)
	}
	a.Protections = append(a.Protections, f)
	return a, nil
}

// rulesApplied checks that a helper applies the rules on record. They differ for a moment during a
// reload, and stay different if the reload was killed between its steps.
func rulesApplied(j network.Jail, pid int) network.Finding {
	f := network.Finding{Name: "rules"}
	r, err := j.Rules()
	if err != nil {
		f.Detail = err.Error()
		return f
	}
	f.Detail = applied(pid, j.Dir, r)
	f.OK = f.Detail == ""
	return f
}

// redirected checks that the namespace has the redirect of the helper's record, or no redirect.
func redirected(j network.Jail, got helperproto.Arrival) network.Finding {
	f := network.Finding{Name: "redirect"}
	ns, err := j.Open()
	if err == nil {
		defer ns.Close()
		err = seal.VerifyRedirect(ns, seal.Target{Range: netrules.Pool, Port: got.Port, Services: got.Moved})
	}
	if f.OK = err == nil; err != nil {
		f.Detail = err.Error()
	}
	return f
}

// serves reports whether a helper has its work, lives, and is confined.
func serves(r *helper.Record) bool {
	return r != nil && r.Answer != "" && r.Alive() && confined(r.Pid) == ""
}

// confined returns the fault in a helper's confinement, as read from the kernel, or "".
func confined(pid int) string {
	s, err := procstatus.Read(pid)
	if err != nil {
		return err.Error()
	}
	for _, want := range [...][2]string{
		{"CapEff", "0000000000000000"},
		{"CapPrm", "0000000000000000"},
		{"NoNewPrivs", "1"},
		{"Seccomp", "2"},
	} {
		if have := s.Field(want[0]); have != want[1] {
			return fmt.Sprintf("process %d has %s %s, not %s", pid, want[0], have, want[1])
		}
	}
	return ""
}
