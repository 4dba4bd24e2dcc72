package lifecycle

import (
	"agentjail.dev/runtime/observe/lostpaths"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/state"
)

// watchLost reports protected paths that the jail loses, until the jail ends: for a process that
// runs as long.
func (r *Runtime) watchLost(j *state.Jail) {
	if err := lostpaths.Watch(r.Store, j); err != nil && j.InitAlive() {
		r.Log.Warnf("agentjail: %v", err)
	}
}

// watchStarted is watchLost for a process that serves other jails too: it reads the jail's record
// first.
func (r *Runtime) watchStarted(key string) {
	j, err := r.Store.Load(key)
	if err != nil {
		return // gone again
	}
	r.Store.Complete(&j.Brief)
	r.watchLost(j)
}

// checkLost looks for lost protected paths that no process may have watched. A jail that policy
// pauses for them runs no further process.
func (r *Runtime) checkLost(j *state.Jail) error {
	losses, err := lostpaths.Now(j)
	if err != nil || len(losses) == 0 {
		return nil //nolint:nilerr // it has ended: the next step reports that
	}
	fresh, err := lostpaths.Report(r.Store, j, losses)
	if err != nil {
		r.Log.Warnf("agentjail: %v", err)
	}
	for _, l := range fresh {
		r.Log.Warnf("agentjail: protected path %s", l)
	}
	if j.Policy.Binds.Lost == policy.LostPause {
		return refusal.New(refusal.Exec, "the jail has lost %d protected paths, %s is one, and policy has it paused", len(losses), losses[0].Path).
			About("binds.lost").WithRemedy("look at the path, delete the jail and make another")
	}
	return nil
}
