package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/spec/bundle"
	"agentjail.dev/runtime/spec/credential"
	"agentjail.dev/runtime/spec/policy"
)

// Rules are those of a network by name that have changed since the jail was made.
type Rules struct {
	Allow []string `json:"allow"`
	Deny  []string `json:"deny,omitempty"`
	// Pinned are the exact names of all rules so far, in the order in which they were first there.
	// The order determines their addresses.
	Pinned []string `json:"pinned,omitempty"`
}

// rulesFile holds Rules, once they have changed.
const rulesFile = "rules.json"

// SaveRules records other rules than those of the jail's policy, in one step. Load then returns
// them instead of the policy's.
func (s Store) SaveRules(key string, r Rules) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding the rules: %w", err)
	}
	if len(data) > bundle.MaxConfig {
		return fmt.Errorf("the jail's rules so far have more than %d bytes", bundle.MaxConfig)
	}
	return atomicfile.Write(filepath.Join(s.Dir(key), rulesFile), data, 0o600)
}

// Network is the part of a jail's record that its network needs.
type Network struct {
	Policy struct {
		Network     policy.Network `json:"network"`
		Credentials credential.Set `json:"credentials,omitempty"`
	} `json:"policy"`
	// Pinned is of Rules.
	Pinned []string `json:"-"`
}

// Network reads that part, with Rules instead of the policy's. Reading the whole record costs start
// some milliseconds: encoding/json inspects the fields of all its types first, each time that the
// program is run.
func (s Store) Network(key string) (*Network, error) {
	n := new(Network)
	if err := s.decode(key, func(record []byte) error { return json.Unmarshal(record, n) }); err != nil {
		return nil, err
	}
	var err error
	n.Pinned, err = s.rules(&n.Policy.Network, key)
	return n, err
}

// RulesChanged reports whether SaveRules was called for a jail; true also if that is unknown.
func (s Store) RulesChanged(key string) bool {
	return !errors.Is(unix.Access(filepath.Join(s.Dir(key), rulesFile), unix.F_OK), os.ErrNotExist)
}

// rules puts recorded rules into the policy, and returns the pinned names. Unreadable rules are an
// error: the policy's may allow more.
func (s Store) rules(n *policy.Network, key string) (pinned []string, err error) {
	path := filepath.Join(s.Dir(key), rulesFile)
	data, err := atomicfile.Read(path, bundle.MaxConfig)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var r Rules
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the jail's rules: %w", err)
	}
	n.Allow, n.Deny = r.Allow, r.Deny
	return r.Pinned, nil
}
