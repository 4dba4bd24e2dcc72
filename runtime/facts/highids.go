package facts

import (
	"os"
	"slices"
	"strings"

	"agentjail.dev/runtime/harden"
	"agentjail.dev/runtime/kernel/accountfile"
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/spec/policy"
)

// Map is the mapping of a jail with a block of the pool: with the ids from idmap.RangeSize on that
// its bundle, policy and image's account files name.
func (g Gatherer) Map(p *Gathered, block idmap.Map) idmap.Map {
	high, used := g.namedIDs(p)
	return block.WithHigh(high, used)
}

// namedIDs returns the high ids, the most important first, and the lower ones of the process.
func (g Gatherer) namedIDs(p *Gathered) (high, used []uint32) {
	s := p.Bundle.Spec
	add := func(ids ...uint32) {
		for _, id := range ids {
			if id >= idmap.RangeSize {
				high = append(high, id)
			} else {
				used = append(used, id)
			}
		}
	}
	if s.Process != nil {
		add(s.Process.User.UID, s.Process.User.GID)
		add(s.Process.User.AdditionalGids...)
	}
	for _, text := range harden.Tighten(s, g.Policy).Userns.IDs {
		if id, ok := policy.AccountID(text); ok {
			add(id)
		}
	}
	for _, c := range g.ownerClaims(s.Annotations, p.labels) {
		for part := range strings.SplitSeq(c.text, ":") {
			if id, ok := policy.AccountID(part); ok {
				add(id)
			}
		}
	}
	if p.Root != nil {
		high = append(high, accountIDs(p.Root, "etc/passwd", 2, 3)...)
		high = append(high, accountIDs(p.Root, "etc/group", 2)...)
	}
	return high, used
}

// accountIDs are the high ids in these fields of an image's account file, at most as many as a jail
// can have.
func accountIDs(root *os.File, path string, fields ...int) (out []uint32) {
	text, err := accountFile(root, path)
	if err != nil {
		return nil
	}
	for entry := range accountfile.Entries(text, slices.Min(fields)+1) {
		for _, i := range fields {
			if i >= len(entry) || len(out) >= idmap.MaxHigh {
				continue
			}
			if id, ok := policy.AccountID(entry[i]); ok && id >= idmap.RangeSize {
				out = append(out, id)
			}
		}
	}
	return out
}
