package policy

import (
	"errors"
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
	// Required has no jail started whose journal cannot be written.
	Required bool `toml:"required" json:"required,omitempty"`
	// Keep, KeepSize and KeepFor bound the journals of jails that were deleted: their number,
	// their size together, and the time since the last line of each. 0 sets no bound on size and
	// time.
	Keep     int  `toml:"keep" json:"keep"`
	KeepSize Size `toml:"keep_size" json:"keepSize,omitempty"`
	KeepFor  Span `toml:"keep_for" json:"keepFor,omitempty"`
	// Receipt is ReceiptBrief or ReceiptFull: how much delete looks at of a jail.
	Receipt string `toml:"receipt" json:"receipt"`
	// Inside is whether a jail can read its own refusals: InsideOff, InsideAsk or InsideOn.
	Inside string `toml:"inside" json:"inside"`
}

// Values of Receipt: the extent of the accounting before a jail is removed.
const (
	ReceiptBrief = "brief" // only facts that cost next to nothing
	ReceiptFull  = "full"  // also thousands of files of the layer, and of mounted directories
)

// Values of Inside: the jail's access to its own refusals.
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

func (j Journal) checkRequired() error {
	if j.Required && !j.Enabled {
		return errors.New("journal.required = true: no jail would start with journal.enabled = false (remedy: change one)")
	}
	return nil
}

func (j Journal) checkDir() error {
	if j.Dir != "" && (!filepath.IsAbs(j.Dir) || filepath.Clean(j.Dir) != j.Dir || j.Dir == "/") {
		return fmt.Errorf("journal.dir: %q is not a clean absolute path of a directory", j.Dir)
	}
	return nil
}
