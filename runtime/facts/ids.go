package facts

import (
	"fmt"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/harden"
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/state"
)

// PresetIDs returns the host ids that a jail gets without a choice: those of the other jail whose
// namespaces it joins, or else those of the engine's mapping. preset is false if there are neither.
func (g Gatherer) PresetIDs(p *Gathered) (m idmap.Map, other *state.Brief, preset bool, err error) {
	l := p.Bundle.Spec.Linux
	if join, _ := harden.Shared(l, p.Facts.Joins, g.Policy.Network); join.Jail != "" {
		if other, err = g.Store.Brief(state.Key(g.Root, join.Jail)); err != nil {
			return m, nil, true, fmt.Errorf("joining jail %s: %w", join.Jail, err)
		}
		return other.IDs, other, true, nil
	}
	m, preset, err = g.engineIDs(l)
	return m, nil, preset, err
}

// engineIDs returns the ids that the engine has chosen. Those of a rootless engine are
// its user's: without a mapping for the container, all that the user has, in a
// user namespace inside the engine's. A mapping of all of the host's ids to
// themselves is as good as none (Podman 5: keep-id for root).
func (g Gatherer) engineIDs(l *specs.Linux) (m idmap.Map, ok bool, err error) {
	mapped := l != nil && len(l.UIDMappings) > 0 && len(l.GIDMappings) > 0 &&
		!(idmap.Host(l.UIDMappings) && idmap.Host(l.GIDMappings))
	switch {
	case rootless.Inside() && mapped:
		m, err = idmap.ForUser(l.UIDMappings, l.GIDMappings)
	case rootless.Inside():
		uids, gids, merr := rootless.Maps()
		if merr != nil {
			return m, true, fmt.Errorf("the ids of the user who runs the engine: %w", merr)
		}
		m, err = idmap.ForUser(uids, gids)
	case mapped:
		m, err = idmap.ForEngine(g.Policy.Userns.Pool, l.UIDMappings, l.GIDMappings)
	default:
		return m, false, nil
	}
	return m, true, err
}
