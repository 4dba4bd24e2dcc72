package bindsource

import (
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/refusal"
)

// RootRefusal returns why a directory may not be a jail's root file system; nil if it may. An
// image's files have the image's owners, so files that only the host's root may access would be
// container root's. A directory of the bundle's own, or one that an engine made for a container,
// is an image wherever it lies.
func RootRefusal(path, bundle string, e Engine) *refusal.Error {
	if len(e.Storage) > 0 {
		return nil
	}
	own := path != bundle && pathname.Within(path, bundle)
	for _, p := range places {
		if p.path == bundle {
			own = false // a system directory is never a bundle
		}
	}
	if own {
		return nil
	}
	for _, p := range places {
		if path == p.path || p.tree && pathname.Within(path, p.path) {
			return refusal.New(refusal.Root, "%s", p.why).WithRemedy("`agentjail sandbox` runs a command over the host's own files")
		}
	}
	return nil
}
