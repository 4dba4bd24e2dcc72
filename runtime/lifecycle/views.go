package lifecycle

import (
	"slices"

	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/workspace"
)

// Views returns the views that a sandbox of this id has left. A thread of Create reaches only the
// host's mounts that its jail needs.
func (r *Runtime) Views(id string) (all []*workspace.Record, err error) {
	err = onHostThread(func() (err error) {
		all, err = workspace.Of(r.Store).OfJail(state.Key(ownRoot(r.Store), id))
		return err
	})
	return all, err
}

// noteReviews puts the jail's views into its record before they are made, for the undoing of a
// failure. Staging replaces them.
func (a *attempt) noteReviews() {
	for _, b := range a.res.Plan.Binds {
		if b.Storage == plan.StorageReview {
			a.j.Reviews = append(slices.Clip(a.j.Reviews), state.Review{At: a.spec.Mounts[b.Index].Destination})
		}
	}
}
