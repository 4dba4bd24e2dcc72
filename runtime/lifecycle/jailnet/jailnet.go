// Package jailnet seals, restarts and reloads the networks of recorded jails, by the mode that each
// record names.
package jailnet

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"agentjail.dev/runtime/internal/ringfault"
	"agentjail.dev/runtime/kernel/namespace"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/network/modes"
	"agentjail.dev/runtime/observe/account"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/state"
)

// Networks are those of the jails of one delegate's root.
type Networks struct {
	Store state.Store
	Root  string // the delegate's
	Book  account.Book
}

// killPatience is how long the end of a killed jail is waited for.
const killPatience = 5 * time.Second

// A Serving is the helper that begins to serve a jail's network when that is sealed; nil is none.
type Serving struct {
	j      *state.Brief
	await  func() error // network.Sealed.Serves
	unlock func()       // of the rules
}

// Wait returns when the helper serves. The jail's program may run already: its requests wait. If
// the helper cannot serve, the jail is killed. Wait has to be called, whether or not the start
// succeeds.
func (s *Serving) Wait() error {
	if s == nil {
		return nil
	}
	defer s.unlock() // until it serves, no other process sends the helper other rules
	if err := s.await(); err != nil {
		return errors.Join(err, s.j.EndInit(killPatience))
	}
	return nil
}

// Seal has the network mode close what the engine made between create and start, where it closes
// anything, and adds the mode's changes to the jail's report.
func (n Networks) Seal(j *state.Brief) (*Serving, error) {
	defer n.Book.Step("seal")()
	if ringfault.Ring(2) {
		return nil, nil
	}
	mode, err := modes.Named(j.Network.Mode)
	if err != nil {
		return nil, err
	}
	unlock, err := n.holdRules(mode, j)
	if err != nil {
		return nil, err
	}
	jail := n.Of(j)
	jail.Rules = sync.OnceValues(jail.Rules) // they do not change meanwhile, and are read three times
	sealed, err := mode.Seal(jail)
	if len(sealed.Changes) > 0 {
		err = errors.Join(err, n.addToReport(j, sealed.Changes))
	}
	if err != nil || sealed.Serves == nil {
		unlock()
		return nil, err
	}
	return &Serving{j, sealed.Serves, unlock}, nil
}

// Of returns a jail as network modes see it.
func (n Networks) Of(j *state.Brief) network.Jail {
	jail := network.Jail{
		Decision: j.Network, FilterRequired: j.PacketFilter == "required",
		Open: func() (*os.File, error) { return os.Open(fmt.Sprintf("/proc/%d/ns/net", j.InitPid)) },
		Dir:  n.Store.Dir(j.Key), Key: j.Key, InitPid: j.InitPid, Started: j.Started,
		Rules:   func() (network.Rules, error) { return n.rulesOf(j) },
		Serving: func() (network.Rules, error) { return n.rulesOfNetworkOwner(j) },

		Attended: n.Store.Attended,
	}
	if os.Geteuid() == 0 && !rootless.Inside() {
		jail.HelperID = j.IDs.Spare()
	}
	return jail
}

// maxBrief bounds the rules in the part of a jail's record that every verb reads, in bytes.
const maxBrief = 4 << 10

// BriefRules returns the rules of a jail's network for the part of its record that start reads:
// reading the policy and parsing it again takes longer. It returns nil for many rules, for
// credentials, and for a network without rules of the jail's own.
func BriefRules(mode modes.Mode, j *state.Jail) (*network.Rules, error) {
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
func (n Networks) rulesOf(j *state.Brief) (network.Rules, error) {
	if j.Rules != nil && !n.Store.RulesChanged(j.Key) {
		return *j.Rules, nil
	}
	own, err := n.Store.Network(j.Key)
	if err != nil {
		return network.Rules{}, err
	}
	rules, err := own.Policy.Network.Helped()
	rules.Pinned, rules.Credentials = own.Pinned, own.Policy.Credentials
	return rules, err
}

// rulesOfNetworkOwner returns the rules of the jail that a joined network namespace was made for.
func (n Networks) rulesOfNetworkOwner(j *state.Brief) (network.Rules, error) {
	ino, err := namespace.Inode(j.InitPid, "net")
	if err != nil {
		return network.Rules{}, err
	}
	jails, err := n.Store.InNamespace(n.Root, "net", ino)
	if err != nil {
		return network.Rules{}, err
	}
	for _, o := range jails {
		if o.Key != j.Key && o.Network.Mode == j.Network.Mode && o.Network.Namespace == network.Own {
			return n.rulesOf(o)
		}
	}
	return network.Rules{}, errors.New("the jail that the network namespace was made for has ended, and its helper with it")
}

// addToReport adds changes to a jail's report.
func (n Networks) addToReport(j *state.Brief, changes []report.Change) error {
	rep, err := n.Store.Report(j)
	if err != nil {
		return err
	}
	for _, c := range changes {
		if !slices.Contains(rep.Changes, c) { // a restarted helper reports the same
			rep.Add(c)
			n.Book.Note(j, account.Changed([]report.Change{c})...)
		}
	}
	return n.Store.SaveReport(j, rep)
}
