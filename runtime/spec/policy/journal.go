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

func (j Journal) validate() error {
	switch {
	case j.Dir != "" && (!filepath.IsAbs(j.Dir) || filepath.Clean(j.Dir) != j.Dir || j.Dir == "/"):
		return fmt.Errorf("journal.dir: %q is not a clean absolute path of a directory", j.Dir)
	case j.Size < minJournal:
		return fmt.Errorf("journal.size: at least 128K")
	case j.Receipt != ReceiptBrief && j.Receipt != ReceiptFull:
		return fmt.Errorf("journal.receipt = %q: must be one of %s, %s", j.Receipt, ReceiptBrief, ReceiptFull)
	case j.Inside != InsideOff && j.Inside != InsideAsk && j.Inside != InsideOn:
		return fmt.Errorf("journal.inside = %q: must be one of %s, %s, %s", j.Inside, InsideOff, InsideAsk, InsideOn)
	case j.Keep < 0:
		return fmt.Errorf("journal.keep: %d is less than 0", j.Keep)
	}
	return nil
}
