package jailnet

import (
	"errors"
	"fmt"
	"slices"

	"agentjail.dev/runtime/harden"
	"agentjail.dev/runtime/internal/crash"
	"agentjail.dev/runtime/kernel/namespace"
	"agentjail.dev/runtime/network/modes"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/spec/lists"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/state"
)

// Reloaded is the result of reading a jail's rules again.
type Reloaded struct {
	network.Changed
	// Entries is the number of entries in force.
	Entries int
	// Others are further settings that have changed in the policy. They are for new jails alone.
	Others []string
}

// holdRules locks the rules of a jail whose mode starts by them.
func (n Networks) holdRules(mode modes.Mode, j *state.Brief) (unlock func(), err error) {
	if !mode.Terms(j.Network).ByRules {
		return func() {}, nil
	}
	return n.Store.Lock(j.Key)
}

// changing returns a running jail with rules of its own, locked until unlock is called.
func (n Networks) changing(key string) (j *state.Jail, mode modes.Changing, unlock func(), err error) {
	unlock, err = n.Store.Lock(key)
	if err != nil {
		return nil, nil, nil, err
	}
	defer func() {
		if err != nil {
			unlock()
		}
	}()
	if j, err = n.Store.Load(key); err != nil {
		return nil, nil, nil, err
	}
	n.Store.Complete(&j.Brief)
	m, err := modes.Named(j.Network.Mode)
	if err != nil {
		return nil, nil, nil, err
	}
	mode, ok := m.(modes.Changing)
	if !ok || !m.Terms(j.Network).ByRules {
		return nil, nil, nil, fmt.Errorf("it has no rules of its own for its network (%s)", j.Network.Mode)
	}
	if !j.InitAlive() {
		return nil, nil, nil, errors.New("it has ended")
	}
	return j, mode, unlock, nil
}

// Restart restarts the helper of a running jail if it has ended; with force it ends the
// helper first. After an error the jail reaches nothing, as before.
func (n Networks) Restart(key string, force bool) error {
	j, mode, unlock, err := n.changing(key)
	if err != nil {
		return err
	}
	defer unlock()
	n.Root = j.DelegateRoot // whose other containers are looked for
	changes, err := mode.Restart(n.Of(&j.Brief), force)
	if err != nil {
		return err
	}
	n.Book.Note(&j.Brief, journal.Event{Kind: journal.NetworkRestart})
	if len(changes) == 0 {
		return nil
	}
	return n.addToReport(&j.Brief, changes)
}

// reportRules records other rules in a jail's report.
func (n Networks) reportRules(j *state.Brief, rules policy.Network) error {
	rep, err := n.Store.Report(j)
	if err != nil {
		return err
	}
	rep.Changes = slices.DeleteFunc(rep.Changes, func(c report.Change) bool {
		return c.Field == "network.allow" || c.Field == "network.deny"
	})
	rep.Changes = append(rep.Changes, harden.NetworkRules(rules)...)
	return n.Store.SaveReport(j, rep)
}

// Reload reads the policy of a running jail again, as it was read when the jail was made,
// and puts its rules for the network in force.
//
// Whenever Reload is killed, neither the record nor the helper allows what neither the
// former rules nor the new ones do. While the helper is updated, the record holds the rules that
// both allow: a helper that is restarted from it allows no more than either. After an error the
// helper may still have the former rules, and the record holds no more than those.
func (n Networks) Reload(key string) (Reloaded, error) {
	var out Reloaded
	j, mode, unlock, err := n.changing(key)
	if err != nil {
		return out, err
	}
	defer unlock()
	n.Root = j.DelegateRoot // whose other containers are looked for
	former := j.Policy.Network
	p, err := j.Policy.Origin.Again()
	if err != nil {
		return out, err
	}
	next, err := n.podCommon(j, p.Network)
	if err != nil {
		return out, err
	}
	both, err := former.Common(next)
	if err != nil {
		return out, err
	}
	pinned, err := pinnedSoFar(j, next)
	if err != nil {
		return out, err
	}
	if err := n.Store.SaveRules(key, state.Rules{Allow: both.Allow, Deny: both.Deny, Pinned: pinned}); err != nil {
		return out, err
	}
	crash.Point("reload.narrowed")
	rules := network.Rules{Mode: former.Mode, Allow: next.Allow, Deny: next.Deny, Pinned: pinned}
	// A helper that is restarted meanwhile reads the record.
	out.Changed, err = mode.Change(n.Of(&j.Brief), rules)
	if err != nil && !errors.Is(err, network.ErrNoHelper) {
		return out, err
	}
	crash.Point("reload.sent")
	n.Book.Note(&j.Brief, journal.Event{
		Kind:  journal.NetworkRules,
		Value: fmt.Sprintf("%d allowed, %d denied", len(rules.Allow), len(rules.Deny)),
	})
	out.Entries, out.Others = len(rules.Allow), policy.Differs(j.Policy, p)
	return out, errors.Join(err, n.Store.SaveRules(key, state.Rules{Allow: rules.Allow, Deny: rules.Deny, Pinned: pinned}),
		n.reportRules(&j.Brief, next))
}

// pinnedSoFar returns the exact names of a jail's rules up to the next ones, in the order of their
// first use.
func pinnedSoFar(j *state.Jail, next policy.Network) ([]string, error) {
	pinned := slices.Clone(j.Pinned)
	for _, n := range []policy.Network{j.Policy.Network, next} {
		set, err := n.Rules()
		if err != nil {
			return nil, err
		}
		pinned = lists.Union(pinned, set.Exact()...)
	}
	return pinned, nil
}

// podCommon reduces a pod's rules to those that all its containers' policies allow, which are read
// again too.
func (n Networks) podCommon(first *state.Jail, next policy.Network) (policy.Network, error) {
	ino, err := namespace.Inode(first.InitPid, "net")
	if err != nil {
		return next, err
	}
	jails, err := n.Store.InNamespace(n.Root, "net", ino)
	if err != nil {
		return next, err
	}
	for _, b := range jails {
		if b.Key == first.Key || b.Network.Namespace != network.Joined {
			continue
		}
		j, err := n.Store.Load(b.Key)
		if errors.Is(err, state.ErrNotFound) {
			continue // it has ended meanwhile
		}
		if err != nil {
			return next, err
		}
		if j.Policy.Network.Mode != first.Policy.Network.Mode {
			continue // as at its start
		}
		own, err := j.Policy.Origin.Again()
		if err != nil {
			return next, fmt.Errorf("container %s of the pod: %w", j.ID, err)
		}
		if next, err = next.Common(own.Network); err != nil {
			return next, err
		}
	}
	return next, nil
}
