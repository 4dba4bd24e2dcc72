package check

import (
	"fmt"
	"time"

	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/workspace"
	"agentjail.dev/runtime/workspace/homes"
)

// views reports how much of the disk the views of directories take up, whether some are beyond
// policy's bounds, and whether another one can be made.
func views(e *env) answer {
	store := workspace.Of(e.store)
	all, err := store.List()
	if err != nil {
		return warn("look at "+store.Dir, "%v", err)
	}
	held := "none"
	if len(all) > 0 {
		held = fmt.Sprintf("%d, which take up %s of the disk of %s", len(all), policy.Size(store.Held(all)), store.Dir)
	}
	if err := workspace.CheckHost(); err != nil {
		return warn("only for `sandbox --review`, policy's workspace.review and the homes of agents", "%s; no other can be made: %v", held, err)
	}
	if kept, err := homes.List(homes.DefaultDir); err != nil {
		return warn("look at "+homes.DefaultDir, "%v", err)
	} else if len(kept) > 0 {
		held += "; " + homes.Summarize(kept)
		if n := len(homes.Expired(kept, time.Duration(e.policy.Workspace.KeepFor))); n > 0 {
			return warn("agentjail home remove --expired", "%s; no jail had %d of the homes for workspace.keep_for", held, n)
		}
	}
	bounds := e.policy.Workspace
	if n := len(store.Expired(all, time.Duration(bounds.KeepFor), int64(bounds.KeepSize))); n > 0 {
		return warn("apply what is needed, then: agentjail workspace discard --expired", "%s; %d are beyond workspace.keep_for or workspace.keep_size", held, n)
	}
	return ok("%s", held)
}
