//go:build !withouttest

// Package ringfault lets a test take rings of a jail away, to see what the others
// hold by themselves. Without the build tag withouttest, which no build for use
// has, it does nothing.
package ringfault

import (
	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/jailinit"
	"agentjail.dev/runtime/kernel/idmap"
)

// Ring reports whether a ring is taken away: 2, 1 or 0.
func Ring(int) bool { return false }

// IDs is the mapping to use instead, where the rings that map a jail's own ids are removed.
func IDs() (m idmap.Map, ok bool) { return m, false }

// Spec takes the rings' part out of a hardened spec; in is the incoming one.
func Spec(_, _ *specs.Spec) error { return nil }

// Orders has the init step not miss it, and not put up its own part.
func Orders(*jailinit.Orders) {}

// MountFlags are the flags of the jail's root.
func MountFlags(flags uintptr) uintptr { return flags }
