package rootfs

import (
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
)

// overlayTree makes the overlay of a part of the machine's file tree (plan.StorageTree). The kernel
// refuses one of a directory with locked mounts (clone_private_mount in its fs/namespace.c), and
// one of an overlay of overlays. Then the directory itself is cloned, and sockets that listen there
// are covered.
func (s *stager) overlayTree(b plan.Bind, src *bindsource.Source) (*os.File, error) {
	tree, err := s.overlayOf(src.File, s.Spec.Mounts[b.Index].Destination)
	if err == nil {
		return tree, nil
	}
	s.bind(b.Index).Endpoints = true
	return s.cloneDirect(b, src)
}

// overlayOf mounts an overlay of a directory and of the root's empty one at its place: the kernel
// needs two layers where none is written to.
func (s *stager) overlayOf(dir *os.File, at string) (*os.File, error) {
	name := strings.TrimPrefix(path.Clean(at), "/")
	empty, err := openat.File(int(s.Rootfs.Fd()), name, openat.Beneath, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer empty.Close()
	fd, err := mountOverlayFS([][2]string{
		{"source", mountSource},
		{"lowerdir", openat.Proc(int(dir.Fd())) + ":" + openat.Proc(int(empty.Fd()))},
	}, "userxattr")
	if err != nil {
		return nil, err
	}
	tree := os.NewFile(uintptr(fd), at)
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		tree.Close()
		return nil, err
	}
	return tree, nil
}
