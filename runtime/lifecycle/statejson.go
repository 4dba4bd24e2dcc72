package lifecycle

import (
	"encoding/json"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/printable"
)

// State prints the delegate's answer with the engine's own bundle and root: an engine compares them
// with its records.
func (r *Runtime) State(id string) error {
	j, err := r.find(id)
	if err != nil {
		return err
	}
	if j == nil {
		return r.Pass(id, []string{"state", id})
	}
	d, err := r.delegateFor(j)
	if err != nil {
		return err
	}
	s, err := r.Globals.queryState(d, j)
	if err != nil {
		return err
	}
	s.set("bundle", j.Bundle)
	if sandboxOf(j) != "" && !j.InitAlive() {
		s.set("status", string(specs.StateStopped)) // its own record shows that only later
	}
	if _, has := s.values["rootfs"]; has && j.EngineRoot != "" {
		s.set("rootfs", j.EngineRoot)
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	_, err = r.out().Write(append(printable.JSON(text), '\n'))
	return err
}
