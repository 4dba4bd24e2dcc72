// Package names is the network mode in which a jail reaches what policy names, and nothing else. Its network namespace is that of mode
// "none": lo alone, sealed. A helper outside it (package egress) answers the jail's questions for names with addresses of 127.64.0.0/10,
// takes the connections to them, and connects outside where the rules allow it.
package names

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/credential"
	"agentjail.dev/runtime/helper"
	"agentjail.dev/runtime/internal/crash"
	"agentjail.dev/runtime/linux/thread"
	"agentjail.dev/runtime/netseal"
	"agentjail.dev/runtime/network"
	"agentjail.dev/runtime/network/names/journal"
	"agentjail.dev/runtime/network/names/pool"
	"agentjail.dev/runtime/network/names/publish"
	"agentjail.dev/runtime/network/names/rules"
	"agentjail.dev/runtime/network/names/work"
	"agentjail.dev/runtime/network/none"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/report"
)

// Mode is the mode; see runtime/network/modes for what its methods are for.
type Mode struct{}

const name = "names"

// logMax bounds the log of decisions, in bytes.
const logMax = 4 << 20

// resolver has programs ask the helper alone. A search domain would only double the questions.
const resolver = "nameserver 127.0.0.1\n"

// Name is the mode's name in policy.
func (Mode) Name() string { return name }

// Decide joins the namespace of a jail that reaches nothing, or of one with a network by name: the containers of a pod share the first
// one's helper, by that one's rules. Seal refuses a jail whose own policy gives less than those. In a namespace that the engine has made
// (CNI's, Podman's) the helper is, so that the engine's filters and accounts hold for what it connects to.
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

// Terms are those of an empty network, with a resolver.
func (Mode) Terms(d network.Decision) network.Terms {
	t := none.Mode{}.Terms(d)
	t.NoMore = "the jail reaches what policy names, and nothing else"
	t.Gives, t.Why = "by name", "a helper outside connects to what policy names (policy: network.mode, network.allow)"
	if d.Outside != "" {
		t.Why = "a helper in " + d.Outside + " connects to what policy names (policy: network.mode, network.allow)"
	}
	t.Resolver, t.SpareID = resolver, d.Namespace == network.Own
	t.ByRules = d.Namespace == network.Own
	return t
}

// Prepare has nothing to do: the delegate makes the namespace, or joins it.
func (Mode) Prepare(network.Decision, *specs.Spec) (*os.File, error) { return nil, nil }

// Seal closes the namespace as in mode "none" and starts the helper. Without a helper the jail is not started. In a joined namespace
// the first jail's serves, by that one's rules.
//
// The helper's program is loaded while the namespace is closed. It gets its work, and with it sockets inside, when that is done.
func (Mode) Seal(j network.Jail) ([]report.Change, error) {
	if j.Decision.Namespace != network.Own {
		changes, err := none.Mode{}.Seal(j)
		if err == nil {
			err = joins(j)
		}
		return changes, err
	}
	r, err := helper.Load(j.Dir)
	if err != nil {
		return nil, err
	}
	// A confined one that answered has had its work: start is called again. Any other was left by a start that was killed.
	if r != nil && r.Answer != "" && r.Alive() && confined(r.Pid) == "" {
		return none.Mode{}.Seal(j)
	}
	if err := helper.End(j.Dir); err != nil {
		return nil, err
	}
	s := starting{jail: j}
	begun := make(chan error, 1)
	go func() { begun <- thread.Caught(s.begin) }()
	changes, sealed := none.Mode{}.Seal(j)
	err = <-begun
	crash.Point("start.helping")
	switch {
	case sealed != nil && err == nil:
		return changes, errors.Join(sealed, s.helper.Abandon())
	case sealed != nil:
		return changes, sealed
	case err == nil:
		err = s.helper.Serve(s.task)
	}
	clear(s.task) // credentials are in it
	if err != nil {
		return changes, fmt.Errorf("the network by name: %w", err)
	}
	got, err := answer(s.helper.Answer())
	changes = append(changes, lesser(got)...)
	if !s.helper.Bounded() {
		changes = append(changes, report.Change{
			Ring: report.Resources, Kind: report.Missing, Field: "the network helper's control group",
			Why: "none can be made beside the jail's: resource limits of its own alone bound the helper (remedy: run the engine as root, or on control groups version 2 that are delegated to the user)",
		})
	}
	return changes, err
}

// answer is what a helper has said of itself.
func answer(text string) (got work.Arrival, err error) {
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		return got, fmt.Errorf("the helper's answer: %w", err)
	}
	return got, nil
}

// lesser reports a way for connections that is not the best, and what is lost by it.
func lesser(got work.Arrival) []report.Change {
	if got.Way == work.SkLookup {
		return nil
	}
	why := fmt.Sprintf("connections come to the helper by %s: %s", got.Way, work.Lost[got.Way])
	if got.Why != "" {
		why += " (" + got.Why + ")"
	}
	return []report.Change{{Ring: report.Resources, Kind: report.Missing, Field: "network by " + work.SkLookup, Why: why}}
}

// joins refuses a jail in another's network whose rules allow what its own do not.
func joins(j network.Jail) error {
	own, err := j.Rules()
	if err != nil {
		return fmt.Errorf("the jail's rules: %w", err)
	}
	if own.Mode != name {
		return nil // policy gives it its engine's whole network, which is more
	}
	first, err := j.Serving()
	if err != nil {
		return fmt.Errorf("the rules of the network that is joined: %w", err)
	}
	return within(first, own)
}

// within says by an error what the first rules allow and the others do not.
func within(first, own network.Rules) error {
	less, err := rules.Parse(first.Allow, first.Deny, nil)
	if err != nil {
		return err
	}
	more, err := rules.Parse(own.Allow, own.Deny, nil)
	if err != nil {
		return err
	}
	const remedy = "the same network.allow for all containers of a pod"
	for _, r := range less.Rules() {
		if err := more.Covers(*r); err != nil {
			return refusal.New(refusal.Network, "the network of another jail is joined, whose rules allow more: %v", err).WithRemedy(remedy)
		}
	}
	for _, name := range first.Credentials.Names() {
		if c, has := own.Credentials[name]; !has || !c.Same(first.Credentials[name]) {
			return refusal.New(refusal.Network, "the network of another jail is joined, which can use credentials.%s", name).WithRemedy("the same credentials for all containers of a pod")
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

// starting is a jail's helper while the network is sealed.
type starting struct {
	jail   network.Jail
	helper *helper.Pending
	task   []byte
}

// begin starts the helper, in the network namespace that it connects from, and finds out what to tell it.
func (s *starting) begin() error {
	j := s.jail
	from, err := outside(j.Decision)
	if err != nil {
		return err
	}
	if from != nil {
		defer from.Close()
	}
	var files [work.LastFD - firstFD + 1]*os.File
	defer func() {
		for _, f := range files {
			if f != nil {
				f.Close()
			}
		}
	}()
	if files[work.NetnsFD-firstFD], err = j.Open(); err != nil {
		return err
	}
	pidfd, err := unix.PidfdOpen(j.InitPid, 0)
	if err != nil {
		return fmt.Errorf("opening process %d: %w", j.InitPid, err)
	}
	files[work.InitFD-firstFD] = os.NewFile(uintptr(pidfd), "init")
	log, err := journal.Open(j.Dir)
	if err != nil {
		return err
	}
	files[work.LogFD-firstFD], files[work.OtherLogFD-firstFD] = log[0], log[1]
	if files[work.GivenFD-firstFD], err = openGiven(j.Dir); err != nil {
		return err
	}
	if files[work.RootFD-firstFD], err = emptyRoot(j.Dir); err != nil {
		return err
	}
	if files[work.ControlFD-firstFD], err = listenControl(j.Dir); err != nil {
		return err
	}
	s.helper, err = helper.Begin(helper.Options{
		Dir: j.Dir, Name: program(j.Dir), Beside: j.InitPid, Group: "agentjail-egress-" + j.Key, Files: files[:], Netns: from,
	})
	if err != nil {
		return err
	}
	if s.task, err = taskOf(j); err != nil {
		return errors.Join(err, s.helper.Abandon())
	}
	return nil
}

// program is the helper's that can do all that a jail may need of it.
func program(dir string) string {
	for _, name := range []string{credential.AuthorityFile, credential.HostKeyFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return work.KeysProgram
		}
	}
	return work.Program
}

// serve starts a helper in a network namespace that is sealed.
func serve(j network.Jail) ([]report.Change, error) {
	s := starting{jail: j}
	if err := s.begin(); err != nil {
		return nil, err
	}
	if err := s.helper.Serve(s.task); err != nil {
		return nil, err
	}
	got, err := answer(s.helper.Answer())
	return lesser(got), err
}

const firstFD = work.NetnsFD

// taskOf is what the helper is told.
func taskOf(j network.Jail) ([]byte, error) {
	r, err := j.Rules()
	if err != nil {
		return nil, fmt.Errorf("the jail's rules: %w", err)
	}
	w := work.Work{Allow: r.Allow, Deny: r.Deny, Pinned: r.Pinned, UID: j.HelperID, GID: j.HelperID, LogMax: logMax}
	if err := goOn(&w, j.Dir); err != nil {
		return nil, err
	}
	if w.Servers, err = asked(j.Decision, r); err != nil {
		return nil, err
	}
	if w.Publish, err = publish.List(r.Publish); err != nil {
		return nil, err
	}
	if w.Host, err = hosts(j.Decision); err != nil {
		return nil, err
	}
	if w.Credentials, err = fetch(r); err != nil {
		return nil, err
	}
	if err := own(j.Dir, &w); err != nil {
		return nil, err
	}
	defer w.Wipe()
	return w.Encode()
}

// emptyRoot opens a directory that has been removed, in which nothing can be made.
func emptyRoot(dir string) (*os.File, error) {
	at, err := os.MkdirTemp(dir, "empty-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(at)
	return os.OpenFile(at, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}

// Audit holds the namespace to mode "none"'s protections, and looks at the helper.
func (Mode) Audit(j network.Jail) (network.Audit, error) {
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
		f.Detail = fmt.Sprintf("process %d has ended: the jail reaches nothing (remedy: agentjail network restart)", r.Pid)
		if r.Alive() {
			if f.Detail = confined(r.Pid); f.Detail == "" {
				f.Detail = isOutside(r.Pid, j.Decision)
			}
			if f.OK = f.Detail == ""; f.OK {
				a.Protections = append(a.Protections, goesBy(j, r.Pid))
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
		a.Detail += usable(j)
	}
	a.Protections = append(a.Protections, f)
	return a, nil
}

// goesBy holds a helper to the rules on record. They differ for a moment while they are read again, and stay different where that was
// killed between its steps.
func goesBy(j network.Jail, pid int) network.Finding {
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

// redirected holds the namespace to the redirect that the helper made, or to none.
func redirected(j network.Jail, got work.Arrival) network.Finding {
	f := network.Finding{Name: "redirect"}
	ns, err := j.Open()
	if err == nil {
		defer ns.Close()
		t := netseal.Target{Range: pool.Range, Port: got.Port}
		for _, m := range got.Moved {
			t.Services = append(t.Services, netseal.Service{Protocol: m.Protocol, Port: m.Port, At: m.At})
		}
		err = netseal.VerifyRedirect(ns, t)
	}
	if f.OK = err == nil; err != nil {
		f.Detail = err.Error()
	}
	return f
}

// confined says what is wrong with a helper's confinement, as the kernel tells it; "" is nothing.
func confined(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return err.Error()
	}
	have := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if k, v, ok := strings.Cut(line, ":"); ok {
			have[k] = strings.TrimSpace(v)
		}
	}
	for _, want := range [][2]string{{"CapEff", "0000000000000000"}, {"CapPrm", "0000000000000000"}, {"NoNewPrivs", "1"}, {"Seccomp", "2"}} {
		if have[want[0]] != want[1] {
			return fmt.Sprintf("process %d has %s %s, not %s", pid, want[0], have[want[0]], want[1])
		}
	}
	return ""
}
