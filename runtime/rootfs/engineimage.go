package rootfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
)

// An engineImage is an image of the engine's that the jail mounts.
type engineImage struct {
	layers layers
	inside string // what of it is mounted, in its file system
}

// cloneEngineImage clones the directory of an image's layers with the owners of the jail's root
// (plan.StorageLayers). An image that cannot be mapped, or needs no mapping, is cloned as it is.
func (s *stager) cloneEngineImage(b plan.Bind, src *bindsource.Source) (*os.File, error) {
	if b.Owner != plan.OwnerSame {
		return s.cloneDirect(b, src)
	}
	found, err := imageLayers(src, s.Mounts)
	if err != nil {
		return nil, err
	}
	tree, err := s.cloneMapped(found.parent)
	switch {
	case err == nil && found.names[0] != ".":
		if s.engineImages == nil {
			s.engineImages = map[int]engineImage{}
		}
		s.engineImages[b.Index] = engineImage{found, src.Inside}
		return tree, nil
	case err == nil:
		tree.Close()
	case unlessUnsupported(err) != nil:
		return nil, err
	}
	b.Owner = plan.OwnerNone
	s.notes = append(s.notes, fmt.Sprintf("image at %s: its owners show as 65534, since its layers cannot be idmapped", s.Spec.Mounts[b.Index].Destination))
	return s.cloneDirect(b, src)
}

// imageLayers finds the layers of an image where the engine has mounted it. The source may be a
// directory in it, which is no mount.
func imageLayers(src *bindsource.Source, mounts *bindsource.Mounts) (layers, error) {
	root, err := OpenDir(src.ImageRoot)
	if err != nil {
		return layers{}, err
	}
	defer root.Close()
	var own, st unix.Stat_t
	if err := errors.Join(unix.Fstat(int(src.File.Fd()), &own), unix.Fstat(int(root.Fd()), &st)); err != nil {
		return layers{}, fmt.Errorf("%s: %w", src.ImageRoot, err)
	}
	if own.Dev != st.Dev {
		return layers{}, fmt.Errorf("%s is not the image of %s any more", src.ImageRoot, src.Path)
	}
	found, err := findLayers(root, src.ImageRoot, mounts)
	if found.apart != nil {
		found = layers{parent: src.ImageRoot, names: []string{"."}}
	}
	return found, err
}

// mountEngineImage mounts an image over the clone of its layers, beside a path of attachBinds', and
// puts the mounted part of it in the place of that clone.
func (s *stager) mountEngineImage(b plan.Bind, i engineImage, at string) error {
	low, all := at+".layers", at+".all"
	if err := errors.Join(os.Mkdir(low, 0o711), os.Mkdir(all, 0o711)); err != nil {
		return err
	}
	if err := unix.MoveMount(int(s.binds[b.Index].Fd()), "", unix.AT_FDCWD, low, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("attaching the layers: %w", err)
	}
	if err := s.mountLayers(low, i.layers.names, all); err != nil {
		return err
	}
	root, err := OpenDir(all)
	if err != nil {
		return err
	}
	defer root.Close()
	part, err := openat.Open(int(root.Fd()), filepath.Join(".", i.inside), openat.InRootNoLinks, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return fmt.Errorf("%s: %w", i.inside, err)
	}
	defer unix.Close(part)
	attr := unix.MountAttr{
		Attr_set:    unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
		Propagation: unix.MS_PRIVATE,
	}
	if b.NoExec {
		attr.Attr_set |= unix.MOUNT_ATTR_NOEXEC
	}
	tree, err := cloneTree(part, "", false, &attr)
	if err != nil {
		return err
	}
	s.binds[b.Index].Close()
	s.binds[b.Index] = tree
	return nil
}

// mountLayers mounts layers below a directory, the topmost first, read-only.
func (s *stager) mountLayers(dir string, names []string, at string) error {
	if len(names) == 1 { // an overlay without an upper layer has two
		return unix.Mount(filepath.Join(dir, names[0]), at, "", unix.MS_BIND, "")
	}
	lower, err := s.shorten(dir, names)
	if err != nil {
		return err
	}
	defer func() {
		_ = unix.Chdir("/")
		_ = os.RemoveAll(filepath.Join(s.layer, linksDir))
	}()
	opts := "index=off,metacopy=off,lowerdir=" + strings.Join(lower, ":")
	if err := s.mount("overlay", at, unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, opts); err != nil {
		return fmt.Errorf("its layers, whose owners Linux 5.19 and later map: %w", err)
	}
	return nil
}
