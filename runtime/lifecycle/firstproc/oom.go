package firstproc

import (
	"fmt"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/internal/ringfault"
	"agentjail.dev/runtime/kernel/oomscore"
)

// OOMScore returns the score that hardening set for a process.
func OOMScore(p *specs.Process) int {
	if p != nil && p.OOMScoreAdj != nil {
		return max(oomscore.Jail, *p.OOMScoreAdj)
	}
	return oomscore.Jail
}

// SetOOMScore sets the OOM score of the jail's waiting first process from outside, whatever the
// delegate made of the bundle's. Written with CAP_SYS_RESOURCE, the score is also the floor below
// which no process of the jail gets by itself.
func SetOOMScore(pid int, p *specs.Process) error {
	if ringfault.Ring(2) {
		return nil
	}
	if err := oomscore.Raise(pid, OOMScore(p)); err != nil {
		return fmt.Errorf("the jail's first process %d: %w", pid, err)
	}
	return nil
}
