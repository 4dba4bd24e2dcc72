package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"agentjail.dev/runtime/bundle"
	"agentjail.dev/runtime/linux/atomicfile"
)

// Rules are those of a network by name that have changed since the jail was made.
type Rules struct {
	Allow []string `json:"allow"`
	Deny  []string `json:"deny,omitempty"`
	// Pinned are the exact names of all rules so far, in the order in which they were first there, which tells their addresses.
	Pinned []string `json:"pinned,omitempty"`
}

// rulesFile holds Rules, once they have changed.
const rulesFile = "rules.json"

// SaveRules records other rules than those of the jail's policy, in one step. Load puts them into the policy's place.
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

// rules puts recorded rules into the policy. Those that cannot be read are an error: the policy's may allow more.
func (s Store) rules(j *Jail, key string) error {
	path := filepath.Join(s.Dir(key), rulesFile)
	data, err := atomicfile.Read(path, bundle.MaxConfig)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var r Rules
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return fmt.Errorf("reading the jail's rules: %w", err)
	}
	j.Policy.Network.Allow, j.Policy.Network.Deny, j.Pinned = r.Allow, r.Deny, r.Pinned
	return nil
}
