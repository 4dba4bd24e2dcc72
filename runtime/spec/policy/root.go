package policy

import "fmt"

// The values of Root.Backing. A layer in memory counts towards the jail's own memory limit. One on
// disk takes blocks and a loop device of the host's, which no other jail then has: it is the looser
// one, and no annotation or project chooses it.
const (
	RootMemory = "memory"
	RootDisk   = "disk"
)

// Disk bounds all layers on disk of the machine together: of views, agents' homes and roots.
type Disk struct {
	// Layers is how many of them jails can have at once, each with a loop device; 0 sets no bound.
	Layers int `toml:"layers" json:"layers"`
	// Free is what a new layer leaves free of its disk.
	Free Size `toml:"free" json:"free"`
}

// OnDisk reports whether the ephemeral layer is on disk.
func (r Root) OnDisk() bool { return r.Backing == RootDisk }

// Layer returns the size of the ephemeral layer, and the key that sets it.
func (r Root) Layer() (key string, size Size) {
	if r.OnDisk() {
		return "root.disk", r.Disk
	}
	return "root.size", r.Size
}

// Where names the place of the ephemeral layer, to follow its size.
func (r Root) Where() string {
	if r.OnDisk() {
		return "on disk"
	}
	return "in memory"
}

// DiskFiles returns the number of files in a layer on disk: Inodes, if it is large enough for them.
func (r Root) DiskFiles() int64 { return min(r.Inodes, int64(r.Disk)/blockOfInode) }

// tightenBacking applies the annotation.
func (r *Root) tightenBacking(v string) (bool, error) {
	switch v {
	case RootMemory:
		r.Backing = RootMemory
		return true, nil
	case RootDisk:
		return r.OnDisk(), nil
	}
	return false, fmt.Errorf("%q is neither %q nor %q", v, RootMemory, RootDisk)
}
