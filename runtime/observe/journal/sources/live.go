package sources

import (
	"fmt"

	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/state"
)

// groupCounters reads from the counters of a running jail's control groups which limits were met so
// far. When a jail is deleted, they are in its journal.
func groupCounters(_ state.Store, j *journal.Jail) ([]journal.Event, error) {
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

// layer reports whether the file system of a running jail's changes is full.
func layer(_ state.Store, j *journal.Jail) ([]journal.Event, error) {
	if j.Brief == nil || !j.Brief.InitAlive() {
		return nil, nil
	}
	return journal.Full(fmt.Sprintf("/proc/%d/root", j.Brief.InitPid)), nil
}
