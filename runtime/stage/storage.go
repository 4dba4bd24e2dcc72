package stage

import (
	"fmt"
	"os"

	"agentjail.dev/runtime/plan"
	"agentjail.dev/runtime/source"
)

// storages make the tree that is mounted for a source, detached, by where the
// jail's writes go. It is the caller's to close.
var storages = map[plan.Storage]func(*stager, plan.Bind, *source.Source) (*os.File, error){
	plan.StorageDirect: (*stager).cloneDirect,
}

// clone makes the tree of a bind mount as its storage has it.
func (s *stager) clone(b plan.Bind, src *source.Source) (*os.File, error) {
	clone, ok := storages[b.Storage]
	if !ok {
		return nil, fmt.Errorf("no storage is called %q", b.Storage)
	}
	return clone(s, b, src)
}
