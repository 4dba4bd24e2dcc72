package lifecycle

import (
	"fmt"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/internal/ringfault"
	"agentjail.dev/runtime/kernel/oomscore"
)

// oomScore is the score that hardening gave a process.
func oomScore(p *specs.Process) int {
	if p != nil && p.OOMScoreAdj != nil {
		return max(oomscore.Jail, *p.OOMScoreAdj)
	}
	return oomscore.Jail
}

// diesFirst gives the jail's waiting first process its OOM score from outside,
// whatever the delegate made of the bundle's. Written with CAP_SYS_RESOURCE, it
// is also the floor below which no process of the jail gets by itself.
func diesFirst(pid int, p *specs.Process) error {
	if ringfault.Ring(2) {
		return nil
	}
	if err := oomscore.Raise(pid, oomScore(p)); err != nil {
		return fmt.Errorf("the jail's first process %d: %w", pid, err)
	}
	return nil
}
