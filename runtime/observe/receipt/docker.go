package receipt

import (
	"encoding/json"
	"path/filepath"
	"time"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/observe/journal"
)

// maxRecord bounds the size of Docker's record of a container, in bytes.
const maxRecord = 1 << 20

// dockerStatus returns the exit status that Docker's record has of the jail; nil where the journal
// has the status, or the record is gone or is of another run. Where Docker starts a runtime by its
// path, the shim of containerd waits for the first process, and Docker writes the status down after
// the delete.
func dockerStatus(events []journal.Event, r *Receipt) *int {
	if r.Exit.Unknown == "" || len(events) == 0 {
		return nil
	}
	made, ok := events[0].Detail.(journal.Created)
	if !ok || !filepath.IsAbs(made.Record) {
		return nil
	}
	data, err := atomicfile.Read(filepath.Join(made.Record, "config.v2.json"), maxRecord)
	if err != nil {
		return nil
	}
	var record struct {
		ID    string
		State struct {
			Running               bool
			ExitCode              int
			StartedAt, FinishedAt time.Time
		}
	}
	if json.Unmarshal(data, &record) != nil {
		return nil
	}
	s := record.State
	sameRun := !s.StartedAt.Before(r.Began) && !s.FinishedAt.Before(r.Began) && !s.FinishedAt.After(r.Ended)
	if record.ID != r.Identity.ID || s.Running || !sameRun {
		return nil
	}
	return &s.ExitCode
}
