package rootfs

import (
	"os"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
)

// cloneUnwritable clones the tree of a read-only mount without groups (plan.Bind.NoWrite). That
// holds for what appears in it later, too. uids map its owners; nil maps none.
func (s *stager) cloneUnwritable(
	b plan.Bind, src *bindsource.Source, attr unix.MountAttr, uids []specs.LinuxIDMapping,
) (*os.File, error) {
	if uids == nil {
		uids = idmap.Unused()
	}
	ns, err := s.namespace(uids, idmap.Unused())
	if err != nil {
		return nil, err
	}
	attr.Attr_set |= unix.MOUNT_ATTR_IDMAP
	attr.Userns_fd = uint64(ns.Fd())
	return cloneTree(int(src.File.Fd()), "", !b.NonRecursive, &attr)
}
