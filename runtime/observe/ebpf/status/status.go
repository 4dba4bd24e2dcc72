package status

import (
	"encoding/json"
	"io"
	"os"
	"slices"
)

// StatusFile is where the collector reports what it loaded, for `agentjail inspect`: JSON, root's.
const StatusFile = "/run/agentjail-journal/status.json"

// maxStatus bounds what is read of it.
const maxStatus = 64 << 10

// State is what is known of the programs.
type State struct {
	// Acting reports that they act, by a call that they refused.
	Acting bool
	// Pinned reports that a collector has loaded and pinned them, by its status file. Then they
	// should act.
	Pinned bool
	// Refused are the hooks that they refuse, by the collector's status file; none if unknown.
	Refused []string
	// Hooks are those that some program acts on, by the collector's status file.
	Hooks []string
}

// Look tries the programs, and reads the collector's status file.
func Look() State {
	s := State{Acting: Acting()}
	f, err := os.Open(StatusFile)
	if err != nil {
		return s
	}
	defer f.Close()
	var file struct {
		Pinned  bool     `json:"pinned"`
		Acting  []string `json:"acting"`
		Verdict []string `json:"verdict"`
	}
	if json.NewDecoder(io.LimitReader(f, maxStatus)).Decode(&file) != nil {
		return s
	}
	for _, h := range file.Verdict {
		if slices.Contains(file.Acting, h) {
			s.Refused = append(s.Refused, h)
		}
	}
	s.Hooks = file.Acting
	s.Pinned = file.Pinned && len(s.Refused) > 0
	return s
}
