package sources

import (
	"fmt"

	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/state"
)

// groupCounters are the counters of a running jail's control groups. When a jail is deleted, they
// are in its journal.
type groupCounters struct{}

// Name is journal.SourceCgroup.
func (groupCounters) Name() string { return journal.SourceCgroup }

// Events reads which limits were met so far.
func (groupCounters) Events(_ state.Store, j *journal.Jail) ([]journal.Event, error) {
	if j.Brief == nil || !j.Brief.InitAlive() {
		return nil, nil
	}
	dirs := j.Brief.CgroupDirs
	if len(dirs) == 0 {
		var err error
		if dirs, err = journal.Groups(j.Brief.InitPid); err != nil {
			return nil, err
		}
	}
	return journal.Counters(dirs, false, cgroups.Once()), nil
}

// layer is the file system of a running jail's changes.
type layer struct{}

// Name is journal.SourceLayer.
func (layer) Name() string { return journal.SourceLayer }

// Events reports whether it is full.
func (layer) Events(_ state.Store, j *journal.Jail) ([]journal.Event, error) {
	if j.Brief == nil || !j.Brief.InitAlive() {
		return nil, nil
	}
	return journal.Full(fmt.Sprintf("/proc/%d/root", j.Brief.InitPid)), nil
}
