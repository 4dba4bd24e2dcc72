package lifecycle

import (
	"fmt"
	"slices"

	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
	"agentjail.dev/runtime/state"
)

// mountOwner returns the jail's user who owns the writable mounts of a plan; nil if there is no
// such mount.
func mountOwner(p plan.Plan) *state.Owner {
	if !slices.ContainsFunc(p.Binds, func(b plan.Bind) bool { return b.Owner == plan.OwnerDir && !b.ReadOnly }) {
		return nil
	}
	return &state.Owner{UID: p.User.UID, GID: p.User.GID}
}

// maxLost bounds the entries that execs add to a report.
const maxLost = 64

// reportForeignExecUser reports, once for each user of a jail, that a further process does not own
// what is mounted: its writes there are refused, or made as the overflow user on the host.
func (r *Runtime) reportForeignExecUser(j *state.Jail, uid uint32) {
	if j.MountOwner == nil || j.MountOwner.UID == uid {
		return
	}
	c := report.Change{
		Ring: rings.Access, Kind: report.Denied, Field: fmt.Sprintf("exec as uid %d", uid),
		Was: "owner of mounted directories", Now: fmt.Sprintf("one of the others: they belong to uid %d", j.MountOwner.UID),
		Why: fmt.Sprintf("one user of a jail owns them, and has to be known when it is made (remedy: start the container with -u %d, or with the label or annotation %s=%d; or policy: binds.owner)",
			uid, policy.AnnotationPrefix+policy.OwnerAnnotation, uid),
	}
	rep, err := r.Store.Report(&j.Brief)
	if err == nil && (slices.Contains(rep.Changes, c) || len(rep.Of(report.Denied)) >= maxLost) {
		return
	}
	r.Log.Warnf("agentjail: exec as uid %d: mounted directories belong to uid %d of the jail, and others have others' rights there: %s", uid,
		j.MountOwner.UID, c.Why)
	if err == nil {
		rep.Add(c)
		err = r.Store.SaveReport(&j.Brief, rep)
	}
	if err != nil {
		r.Log.Warnf("adding to the jail's report: %v", err)
	}
}
