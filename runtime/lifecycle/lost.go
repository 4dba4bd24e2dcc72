package lifecycle

import (
	"path/filepath"
	"strings"
	"time"

	"agentjail.dev/runtime/observe/journal"
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
	r.complete(&j.Brief)
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

// noteVanished reports placeholders that are gone from under the jail, when the jail is removed:
// without a watching process nothing else shows that.
func (r *Runtime) noteVanished(j *state.Brief) {
	if j.Journal == "" {
		return
	}
	var fresh []lostpaths.Loss
	for _, at := range r.ledger().Vanished(j.Key) {
		for _, m := range j.Mounted {
			rel, ok := strings.CutPrefix(at, m.Source+"/")
			if p := filepath.Join(m.At, rel); ok && lostpaths.First(r.Store, j.Key, p) {
				fresh = append(fresh, lostpaths.Loss{Path: p, Why: "is gone"})
				break
			}
		}
	}
	if err := lostpaths.Note(j, fresh, false); err != nil {
		r.unwritten(err)
	}
}

// maxRepositories bounds the repositories that are checked when a jail is removed.
const maxRepositories = 64

// maxStale bounds the files that an event names.
const maxStale = 5

// noteStale reports tracked protected files that git could not replace in the jail.
func (r *Runtime) noteStale(j *state.Brief) {
	if j.Journal == "" || j.BootID != state.BootID() {
		return
	}
	defer r.step("stale")()
	var events []journal.Event
	for _, m := range j.Mounted {
		list := r.ledger().WorkTrees(j.Key, m.Source)
		if len(list) == 0 || m.Unseen != "" {
			continue
		}
		root, err := openMounted(m)
		if err != nil {
			continue // it was moved: the look at it reports it
		}
		for _, repo := range list[:min(len(list), maxRepositories)] {
			stale, err := repo.Stale(root, time.Unix(0, j.MountedSince))
			if err != nil || len(stale.Files) == 0 && !stale.Committed {
				continue
			}
			e := journal.Event{Kind: journal.GitStale, Path: filepath.Join(m.At, repo.Work)}
			e.Detail = journal.Stale{Files: stale.Files[:min(len(stale.Files), maxStale)], Total: len(stale.Files), Committed: stale.Committed}
			events = append(events, e)
		}
		root.Close()
	}
	r.note(j, events...)
}
