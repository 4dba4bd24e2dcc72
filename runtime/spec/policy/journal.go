package policy

import (
	"fmt"
	"path/filepath"
)

// Journal configures the journal of events in jails (runtime/observe/journal).
type Journal struct {
	Enabled bool `toml:"enabled" json:"enabled"`
	// Dir is the directory of the journals; "" is /var/log/agentjail, or for users other than
	// root a directory of their own.
	Dir string `toml:"dir" json:"dir,omitempty"`
	// Size bounds one jail's journal.
	Size Size `toml:"size" json:"size"`
	// Keep is how many journals of jails that were deleted are kept.
	Keep int `toml:"keep" json:"keep"`
	// Receipt is ReceiptBrief or ReceiptFull: how much delete looks at of a jail.
	Receipt string `toml:"receipt" json:"receipt"`
	// Inside is whether a jail can read its own refusals: InsideOff, InsideAsk or InsideOn.
	Inside string `toml:"inside" json:"inside"`
}

// How much of a jail is looked at before it is removed.
const (
	ReceiptBrief = "brief" // only facts that cost next to nothing
	ReceiptFull  = "full"  // also thousands of files of the layer, and of mounted directories
)

// Whether a jail can read its own refusals.
const (
	InsideOff = "off"
	InsideAsk = "ask" // if an annotation of its container requests it
	InsideOn  = "on"
)

// applyInside applies a container's annotation: the container gets the file if policy allows the
// choice, and can always decline the file.
func (j *Journal) applyInside(v string) (bool, error) {
	switch {
	case v == "false":
		j.Inside = InsideOff
		return true, nil
	case v != "true":
		return false, fmt.Errorf("%q is neither true nor false", v)
	case j.Inside == InsideOff:
		return false, nil
	}
	j.Inside = InsideOn
	return true, nil
}

// minJournal is the least that holds a jail's beginning and end.
const minJournal = 128 << 10

func (j Journal) checkDir() error {
	if j.Dir != "" && (!filepath.IsAbs(j.Dir) || filepath.Clean(j.Dir) != j.Dir || j.Dir == "/") {
		return fmt.Errorf("journal.dir: %q is not a clean absolute path of a directory", j.Dir)
	}
	return nil
}
