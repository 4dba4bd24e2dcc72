package account

import (
	"path/filepath"
	"time"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/observe/lostpaths"
	"agentjail.dev/runtime/state"
)

// noteVanished reports placeholders that are gone from under the jail, when the jail is removed:
// without a watching process nothing else shows that.
func (b Book) noteVanished(j *state.Brief) {
	var fresh []lostpaths.Loss
	for _, at := range b.Store.Ledger().Vanished(j.Key) {
		for _, m := range j.Mounted {
			rel, ok := pathname.Rel(at, string(m.Source))
			if p := filepath.Join(m.At, rel); ok && lostpaths.First(b.Store, j.Key, p) {
				fresh = append(fresh, lostpaths.Loss{Path: p, Why: "is gone"})
				break
			}
		}
	}
	if err := lostpaths.Note(j, fresh, false); err != nil {
		b.unwritten(err)
	}
}

// maxRepositories bounds the repositories that are checked when a jail is removed.
const maxRepositories = 64

// maxStale bounds the files that an event names.
const maxStale = 5

// noteStale reports tracked protected files that git could not replace in the jail.
func (b Book) noteStale(j *state.Brief) {
	if j.BootID != state.BootID() {
		return
	}
	defer b.Step("stale")()
	var events []journal.Event
	for _, m := range j.Mounted {
		list := b.Store.Ledger().WorkTrees(j.Key, string(m.Source))
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
			e.Detail = journal.Stale{
				Files: stale.Files[:min(len(stale.Files), maxStale)], Total: len(stale.Files),
				Committed: stale.Committed,
			}
			events = append(events, e)
		}
		root.Close()
	}
	b.Note(j, events...)
}
