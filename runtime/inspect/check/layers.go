package check

import (
	"fmt"

	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/workspace"
)

// layers reports how many layers on disk jails have, what roots take up, and whether another can
// be made: of a root where policy has that on disk, else of a view.
func layers(e *env) answer {
	store := workspace.Of(e.store)
	have, err := workspace.BoundDevices()
	if err != nil {
		return warn("look at /dev/loop*", "%v", err)
	}
	held := fmt.Sprintf("%d in use", have.All)
	if bound := e.policy.Disk.Layers; bound > 0 {
		held += fmt.Sprintf(" of %d", bound)
	}
	if have.Roots > 0 {
		held += fmt.Sprintf(", %d of them roots of %s", have.Roots, policy.Size(have.RootBytes))
	}
	if err := workspace.CheckHost(); err != nil {
		return needed(e, held, err)
	}
	if bound := e.policy.Disk.Layers; bound > 0 && have.All >= bound {
		return warn("end jails that are not needed, or policy: disk.layers", "%s: no other can be made", held)
	}
	size := e.policy.Workspace.Size
	if e.policy.Root.OnDisk() {
		size = max(size, e.policy.Root.Disk)
	}
	if e.policy.Root.OnDisk() {
		if err := store.CheckDisk(); err != nil {
			return needed(e, held, err)
		}
	}
	dir, free, err := store.Free()
	if err != nil {
		return warn("look at "+store.Dir, "%v", err)
	}
	if free < int64(size+e.policy.Disk.Free) {
		return needed(e, held, fmt.Errorf("%s has %s free, of which %s are to stay (disk.free), and the next takes %s", dir, policy.Size(free), e.policy.Disk.Free, size))
	}
	return ok("%s, %s free", held, policy.Size(free))
}

// needed reports that no layer can be made: a failure where each jail's root is one.
func needed(e *env, held string, err error) answer {
	if e.policy.Root.OnDisk() {
		return fail(`see the reason, or policy: root.backing = "memory"`, "%s; no other can be made: %v", held, err)
	}
	return ok("%s; no other can be made: %v", held, err)
}
