package harden

import (
	"slices"

	"agentjail.dev/runtime/policy"
)

// What hardening demands of every jail, for those who look at running ones.

// MaskedPaths are hidden in every jail.
func MaskedPaths() []string { return slices.Clone(maskedPaths) }

// ReadonlyPaths can be read but not written in every jail.
func ReadonlyPaths() []string { return slices.Clone(readonlyPaths) }

// RlimitBounds are the highest hard limits of a jail's processes, by the spec's
// names (RLIMIT_NOFILE).
func RlimitBounds(l policy.Limits) map[string]uint64 {
	out := map[string]uint64{}
	for _, b := range rlimitBounds {
		if v, ok := b.value(l); ok {
			out[b.name] = v
		}
	}
	return out
}

// CoreOff is the limit on core files of a jail's processes, soft and hard.
const CoreOff = coreOff

// StandardDevice says whether every jail may have the character device; a minor
// number of -1 means all of the major's.
func StandardDevice(major, minor int64) bool {
	for _, d := range standardDevices {
		if d.major == major && (d.minor == minor || d.minor < 0) {
			return true
		}
	}
	return false
}
