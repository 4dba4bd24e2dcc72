package jailnet

import (
	"errors"
	"fmt"

	"agentjail.dev/runtime/network/modes"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/state"
)

// errNoApproval means that names without a rule cannot be decided on in a jail.
var errNoApproval = errors.New("in it no name can be approved (policy: network.approval = \"prompt\", for new jails)")

// A Decider is the person or the command that decides on a name.
type Decider struct {
	// Text names the person or the command, for the journal and the receipt.
	Text string
	// UID is the person's; nil for a command.
	UID *uint32
}

// approving returns a running jail in which names without a rule can be decided on.
func (n Networks) approving(key string) (*state.Brief, modes.Approving, error) {
	j, err := n.Store.Brief(key)
	if err != nil {
		return nil, nil, err
	}
	m, err := modes.Named(j.Network.Mode)
	if err != nil {
		return nil, nil, err
	}
	mode, ok := m.(modes.Approving)
	if !ok || !m.Terms(j.Network).ByRules {
		return nil, nil, errNoApproval
	}
	r, err := n.rulesOf(j)
	switch {
	case err != nil:
		return nil, nil, err
	case !r.Approval:
		return nil, nil, errNoApproval
	case !j.InitAlive():
		return nil, nil, errors.New("it has ended")
	}
	return j, mode, nil
}

// Approve puts a decision on a name in force in a running jail, records it in the jail's journal,
// and returns how many connections that ended.
func (n Networks) Approve(key string, v network.Approval, by Decider) (ended int, err error) {
	j, mode, err := n.approving(key)
	if err != nil {
		return 0, err
	}
	if ended, err = mode.Approve(n.Of(j), v); err != nil {
		return 0, fmt.Errorf("%s: %w", v.Target(), err)
	}
	kind := journal.ApprovalDenied
	if v.Allow {
		kind = journal.ApprovalAllowed
	}
	n.Book.Note(j, journal.Event{Kind: kind, Name: v.Name, Port: v.Port, Value: v.Span(), Target: by.Text, UID: by.UID})
	return ended, nil
}

// Waiting returns what waits for a decision in a running jail.
func (n Networks) Waiting(key string) ([]network.Waiting, error) {
	j, mode, err := n.approving(key)
	if err != nil {
		return nil, err
	}
	return mode.Waiting(n.Of(j))
}

// Attach attaches this process to a running jail as a decider. It fails for a jail that has no
// approval of names.
func (n Networks) Attach(key string) (network.Attached, error) {
	j, mode, err := n.approving(key)
	if err != nil {
		return nil, err
	}
	return mode.Attach(n.Of(j))
}
