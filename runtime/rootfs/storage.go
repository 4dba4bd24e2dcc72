package rootfs

import (
	"fmt"
	"os"

	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
)

// storages make the tree that is mounted for a source, detached, by where the
// jail's writes go. It is the caller's to close.
var storages = map[plan.Storage]func(*stager, plan.Bind, *bindsource.Source) (*os.File, error){
	plan.StorageDirect:    (*stager).cloneDirect,
	plan.StorageImage:     (*stager).mountImage,
	plan.StorageReview:    (*stager).makeReview,
	plan.StorageThrowAway: (*stager).cloneLower,
	plan.StorageLayers:    (*stager).cloneEngineImage,
	plan.StorageTree:      (*stager).overlayTree,
}

// clone makes the tree of a bind mount as its storage has it.
func (s *stager) clone(b plan.Bind, src *bindsource.Source) (*os.File, error) {
	clone, ok := storages[b.Storage]
	if !ok {
		return nil, fmt.Errorf("no storage is called %q", b.Storage)
	}
	return clone(s, b, src)
}
