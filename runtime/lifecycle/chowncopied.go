package lifecycle

import (
	"errors"

	"agentjail.dev/runtime/rootfs"
	"agentjail.dev/runtime/state"
)

// chownCopied changes the owner of files that an engine put into the running jail to the jail's
// ids. It is called before something in the jail may use them. A failure only means that the jail
// cannot read those files.
func (r *Runtime) chownCopied(j *state.Brief) {
	if j.EngineRoot == "" || j.EngineRootDev == 0 || !j.InitAlive() {
		return
	}
	defer r.step("chown copied files")()
	err := rootfs.ChownCopied(r.Store.Dir(j.Key), j.EngineRoot, j.EngineRootDev, j.IDs)
	if err != nil && !errors.Is(err, rootfs.ErrNoChanges) && j.InitAlive() {
		r.Log.Warnf("agentjail: files copied into the jail may be unreadable there: %v", err)
	}
}
