package traits

import (
	"fmt"
	"maps"
	"slices"
)

// Place is where a protection is held.
type Place int

// The places. The host cannot check protections inside a guest.
const (
	Host  Place = iota // by the kernel of the host, on the jail's own processes
	Guest              // by a kernel of the jail's own: a sentry's, or a virtual machine's
	Void               // nowhere: the delegate has no such thing, or ignores the bundle's
)

var places = [...]string{Host: "host kernel", Guest: "guest kernel", Void: "void"}

// String names the place as it is printed.
func (p Place) String() string {
	if p < 0 || int(p) >= len(places) {
		return fmt.Sprintf("place %d", int(p))
	}
	return places[p]
}

// MarshalText is String, for JSON.
func (p Place) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// A Boundary reports where a delegate's protections are held. The zero value is the
// host's kernel for all of them.
type Boundary struct {
	Place Place `json:"place"` // of those that are not named
	// Other are those held elsewhere, by the names that inspect has for them.
	Other map[string]Place `json:"other,omitempty"`
	// Instead reports what stands in the place of those that are void, and what else there is to
	// know of one.
	Instead map[string]string `json:"instead,omitempty"`
}

// Of reports where the protection with this name is held.
func (b Boundary) Of(protection string) Place {
	if p, ok := b.Other[protection]; ok {
		return p
	}
	return b.Place
}

// Lines describes the boundary for the terminal: one line for all, or one more for each
// protection that is held elsewhere, by name.
func (b Boundary) Lines() []string {
	out := []string{"held by: " + b.Place.String()}
	for _, name := range slices.Sorted(maps.Keys(b.Other)) {
		if b.Other[name] != b.Place {
			line := fmt.Sprintf("held by: %s: %s", b.Other[name], name)
			if why := b.Instead[name]; why != "" {
				line += " (" + why + ")"
			}
			out = append(out, line)
		}
	}
	return out
}

// Boundaries returns the boundaries of the delegates with these names or paths.
func Boundaries(names ...string) map[string]Boundary {
	out := map[string]Boundary{}
	for _, n := range names {
		out[n] = Of(n).Boundary
	}
	return out
}

// HeldBy is Lines of several boundaries, for a delegate that is still to be chosen: once if all
// are equal, and else with the delegates' names.
func HeldBy(all map[string]Boundary) []string {
	var out, same []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		lines := all[name].Lines()
		if same == nil {
			same = lines
		}
		if !slices.Equal(same, lines) {
			same = []string{}
		}
		for _, l := range lines {
			out = append(out, name+": "+l)
		}
	}
	if len(same) > 0 {
		return same
	}
	return out
}
