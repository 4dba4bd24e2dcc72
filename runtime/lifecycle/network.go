package lifecycle

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/internal/ringfault"
	"agentjail.dev/runtime/kernel/namespace"
	"agentjail.dev/runtime/kernel/pidfd"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/network/modes"
	"agentjail.dev/runtime/observe/account"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/state"
)

// A serving is the helper that begins to serve a jail's network when that is sealed; nil is none.
type serving struct {
	j      *state.Brief
	await  func() error // network.Sealed.Serves
	unlock func()       // of the rules
}

// wait returns when the helper serves. The jail's program may run already: its requests wait. If
// the helper cannot serve, the jail is killed. wait has to be called, whether or not the start
// succeeds.
func (s *serving) wait() error {
	if s == nil {
		return nil
	}
	defer s.unlock() // until it serves, no other process sends the helper other rules
	if err := s.await(); err != nil {
		return errors.Join(err, killInit(s.j))
	}
	return nil
}

// seal has the network mode close what the engine made between create and start, where it closes
// anything, and adds the mode's changes to the jail's report.
func (r *Runtime) seal(j *state.Brief) (*serving, error) {
	defer r.step("seal")()
	if ringfault.Ring(2) {
		return nil, nil
	}
	mode, err := modes.Named(j.Network.Mode)
	if err != nil {
		return nil, err
	}
	unlock, err := r.holdRules(mode, j)
	if err != nil {
		return nil, err
	}
	n := r.networkOf(j)
	n.Rules = sync.OnceValues(n.Rules) // they do not change meanwhile, and are read three times
	sealed, err := mode.Seal(n)
	if len(sealed.Changes) > 0 {
		err = errors.Join(err, r.addToReport(j, sealed.Changes))
	}
	if err != nil || sealed.Serves == nil {
		unlock()
		return nil, err
	}
	return &serving{j, sealed.Serves, unlock}, nil
}

// killWait bounds how long the end of a killed process is waited for.
const killWait = 5 * time.Second

// killInit kills a jail's first process, and with it the jail. It returns when that has ended.
func killInit(j *state.Brief) error {
	fd, err := unix.PidfdOpen(j.InitPid, 0)
	if err != nil || !j.InitAlive() { // the number may be another's by now
		return nil
	}
	defer unix.Close(fd)
	if err := pidfd.Kill(fd, killWait); err != nil {
		return fmt.Errorf("the jail, process %d: %w", j.InitPid, err)
	}
	return nil
}

// networkOf returns a jail as network modes see it.
func (r *Runtime) networkOf(j *state.Brief) network.Jail {
	n := network.Jail{
		Decision: j.Network, FilterRequired: j.PacketFilter == "required",
		Open: func() (*os.File, error) { return os.Open(fmt.Sprintf("/proc/%d/ns/net", j.InitPid)) },
		Dir:  r.Store.Dir(j.Key), Key: j.Key, InitPid: j.InitPid, Started: j.Started,
		Rules:   func() (network.Rules, error) { return r.rulesOf(j) },
		Serving: func() (network.Rules, error) { return r.rulesOfNetworkOwner(j) },
	}
	if os.Geteuid() == 0 && !rootless.Inside() {
		n.HelperID = j.IDs.Spare()
	}
	return n
}

// maxBrief bounds the rules in the part of a jail's record that every verb reads, in bytes.
const maxBrief = 4 << 10

// briefRules returns the rules of a jail's network for the part of its record that start reads:
// reading the policy and parsing it again takes longer. It returns nil for many rules, for
// credentials, and for a network without rules of the jail's own.
func briefRules(mode modes.Mode, j *state.Jail) (*network.Rules, error) {
	if !mode.Terms(j.Network).ByRules || len(j.Policy.Credentials) > 0 {
		return nil, nil
	}
	r, err := j.Policy.Network.Helped()
	if err != nil || r.Size() > maxBrief {
		return nil, err
	}
	return &r, nil
}

// rulesOf returns the rules of a jail's network.
func (r *Runtime) rulesOf(j *state.Brief) (network.Rules, error) {
	if j.Rules != nil && !r.Store.RulesChanged(j.Key) {
		return *j.Rules, nil
	}
	n, err := r.Store.Network(j.Key)
	if err != nil {
		return network.Rules{}, err
	}
	rules, err := n.Policy.Network.Helped()
	rules.Pinned, rules.Credentials = n.Pinned, n.Policy.Credentials
	return rules, err
}

// rulesOfNetworkOwner returns the rules of the jail that a joined network namespace was made for.
func (r *Runtime) rulesOfNetworkOwner(j *state.Brief) (network.Rules, error) {
	ino, err := namespace.Inode(j.InitPid, "net")
	if err != nil {
		return network.Rules{}, err
	}
	jails, err := r.Store.InNamespace(r.Globals.Root, "net", ino)
	if err != nil {
		return network.Rules{}, err
	}
	for _, o := range jails {
		if o.Key != j.Key && o.Network.Mode == j.Network.Mode && o.Network.Namespace == network.Own {
			return r.rulesOf(o)
		}
	}
	return network.Rules{}, errors.New("the jail that the network namespace was made for has ended, and its helper with it")
}

// addToReport adds changes to a jail's report.
func (r *Runtime) addToReport(j *state.Brief, changes []report.Change) error {
	rep, err := r.Store.Report(j)
	if err != nil {
		return err
	}
	for _, c := range changes {
		if !slices.Contains(rep.Changes, c) { // a restarted helper reports the same
			rep.Add(c)
			r.book().Note(j, account.Changed([]report.Change{c})...)
		}
	}
	return r.Store.SaveReport(j, rep)
}

// enterNetwork moves the calling thread, which must be locked and never be unlocked, to a network
// namespace. Processes started from it are in that namespace too.
func enterNetwork(ns *os.File) error {
	if ns == nil {
		return nil
	}
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("joining the engine's network namespace: %w", err)
	}
	return nil
}

// enterEngineNetwork is enterNetwork for a further process of a jail whose delegate does not know
// its network namespace.
func enterEngineNetwork(j *state.Brief) error {
	if j.Network.Namespace != network.Given {
		return nil
	}
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", j.InitPid))
	if err != nil {
		return fmt.Errorf("the jail's network namespace: %w", err)
	}
	defer ns.Close()
	return enterNetwork(ns)
}
