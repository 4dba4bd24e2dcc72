package policy

import (
	"fmt"
	"path/filepath"
)

// Journal decides what is kept of what happens in jails (runtime/journal).
type Journal struct {
	Enabled bool `toml:"enabled" json:"enabled"`
	// Dir is where journals live; "" is /var/log/agentjail, for others than root a directory of their own.
	Dir string `toml:"dir" json:"dir,omitempty"`
	// Size bounds one jail's journal.
	Size Size `toml:"size" json:"size"`
	// Keep is how many journals of jails that were deleted are kept.
	Keep int `toml:"keep" json:"keep"`
}

// minJournal is the least that holds a jail's beginning and end.
const minJournal = 128 << 10

func (j Journal) validate() error {
	switch {
	case j.Dir != "" && (!filepath.IsAbs(j.Dir) || filepath.Clean(j.Dir) != j.Dir || j.Dir == "/"):
		return fmt.Errorf("journal.dir: %q is not a clean absolute path of a directory", j.Dir)
	case j.Size < minJournal:
		return fmt.Errorf("journal.size: at least 128K")
	case j.Keep < 0:
		return fmt.Errorf("journal.keep: %d is less than 0", j.Keep)
	}
	return nil
}
