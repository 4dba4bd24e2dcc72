// Package rings names the three rings of protection.
package rings

// Ring is one of the three protections. The numbers count inwards: ring 0 is the
// kernel's own surface.
type Ring int

// The three rings, and what belongs to none of them.
const (
	Kernel    Ring = 0  // which kernel code can be reached: seccomp, eBPF programs
	Access    Ring = 1  // allowed actions on visible objects: ids, capabilities, LSM
	Resources Ring = 2  // visible objects and use of resources: namespaces, mounts, limits
	None      Ring = -1 // the jail itself, the host
)

var names = [...]struct{ word, text string }{
	Kernel: {"kernel", "ring 0, kernel surface"}, Access: {"access", "ring 1, access"},
	Resources: {"resources", "ring 2, resources"},
}

// All lists the rings in the order of reports: from the outermost inwards.
func All() []Ring { return []Ring{Resources, Access, Kernel} }

// Named returns the ring of a word: kernel, access or resources.
func Named(word string) (Ring, bool) {
	for _, r := range All() {
		if names[r].word == word {
			return r, true
		}
	}
	return None, false
}

// String returns the ring's number and name as the documentation writes them. It allocates no
// memory.
func (r Ring) String() string {
	if r < 0 || int(r) >= len(names) {
		return "no ring"
	}
	return names[r].text
}
