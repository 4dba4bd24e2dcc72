package rootfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/internal/crash"
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/workspace"
)

// makeReview makes the view of a directory (plan.StorageReview): an overlay of the directory,
// read-only, and of the jail's own layer.
func (s *stager) makeReview(b plan.Bind, src *bindsource.Source) (*os.File, error) {
	if err := Reviewable(src.File); err != nil {
		return nil, err
	}
	uids, gids, ok := s.ownerMaps(b.Owner, src.Fact)
	if !ok {
		return nil, errors.New("a view's owner is mapped")
	}
	var lower *os.File
	// Other owners' files can be removed. The layer has no ids for them, and takes no copy.
	err := s.idmapped(func(a *unix.MountAttr) (err error) {
		lower, err = cloneTree(int(src.File.Fd()), "", false, a)
		return err
	}, idmap.WithOthers(uids, s.Plan.IDs.UIDs), idmap.WithOthers(gids, s.Plan.IDs.GIDs), unix.MOUNT_ATTR_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("the directory: %w", err)
	}
	defer lower.Close()
	view, err := s.findReview(b, src)
	if err != nil {
		return nil, err
	}
	tree, lock, err := s.Workspaces.Begin(view, src.File)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	defer tree.Close()
	crash.Point("create.review")
	// Overlayfs makes its own files as the mounting process, whose ids have to be on the disk;
	// without them the overlay is read-only.
	zero := specs.LinuxIDMapping{ContainerID: 0, HostID: 0, Size: 1}
	err = s.idmapped(func(a *unix.MountAttr) error {
		return unix.MountSetattr(int(tree.Fd()), "", unix.AT_EMPTY_PATH, a)
	}, append(slices.Clip(uids), zero), append(slices.Clip(gids), zero), 0)
	if err != nil {
		return nil, fmt.Errorf("the layer: %w", err)
	}
	overlay, err := s.overlay(lower, tree, b)
	if err != nil {
		return nil, fmt.Errorf("mounting a view: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(overlay.Fd()), &st); err != nil {
		overlay.Close()
		return nil, err
	}
	s.reviews = append(s.reviews, state.Review{
		ID: view.ID, At: filepath.Clean(s.Spec.Mounts[b.Index].Destination), Dev: st.Dev,
		Size: view.Size, Source: pathname.Text(view.Path),
	})
	return overlay, nil
}

// findReview returns the view to go on in, or a new one: the view that the command line names, or
// the one that the container had before it was started again.
func (s *stager) findReview(b plan.Bind, src *bindsource.Source) (*workspace.Record, error) {
	at, w := filepath.Clean(s.Spec.Mounts[b.Index].Destination), s.Workspaces
	name := ""
	if len(s.reviews) == 0 {
		name = s.Reviewed
	}
	r := &workspace.Record{
		Name: name, At: at, Size: int64(s.Plan.Workspace.Size), Files: s.Plan.Workspace.Inodes(), Hide: s.Plan.Hide,
	}
	if name != "" {
		had, err := w.Open(name)
		if err == nil {
			had.At, had.Jail, had.Key, had.Journal = at, s.Jail, s.Key, s.Journal
			had.Hide = s.hide(had)
			return had, nil
		}
		if !errors.Is(err, workspace.ErrNotFound) {
			return nil, err
		}
	} else if had, err := w.OfJail(s.Key); err != nil {
		return nil, err
	} else if i := slices.IndexFunc(had, func(r *workspace.Record) bool {
		return r.At == at && r.Name == "" && r.State != workspace.Incomplete && r.Of(src.File)
	}); i >= 0 {
		had[i].Journal, had[i].Hide = s.Journal, s.hide(had[i])
		return had[i], nil
	}
	r.Jail, r.Key, r.Journal = s.Jail, s.Key, s.Journal
	return r, w.Make(r, src.File)
}

// hide returns the names that are hidden in a view that goes on: what an earlier jail had hidden is
// not compared either, as the delegate may have let it remove that.
func (s *stager) hide(had *workspace.Record) []string {
	all := slices.Concat(had.Hide, s.Plan.Hide)
	slices.Sort(all)
	return slices.Compact(all)
}

// unlayered are file systems over which the kernel makes no overlay, or one that fails later: they
// may change beneath it without notice (overlayfs.rst, "Changes to underlying filesystems").
var unlayered = map[int64]bool{
	unix.NFS_SUPER_MAGIC: true, unix.FUSE_SUPER_MAGIC: true, unix.V9FS_MAGIC: true, 0xff534d42: true, 0xfe534d42: true,
	0x786f4256:                 true,
	unix.OVERLAYFS_SUPER_MAGIC: true,
}

// Reviewable refuses a directory on a file system that cannot be below a view.
func Reviewable(dir *os.File) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &fs); err != nil {
		return err
	}
	if unlayered[int64(fs.Type)] {
		return refusal.New(refusal.Workspace, "the kernel makes no view of a directory on %s", FSName(dir)).
			WithRemedy("move the directory to ext4, xfs, btrfs or tmpfs, or mount it without a view")
	}
	return nil
}

// idmapped sets a mount's attributes, with the mapping of its owners.
func (s *stager) idmapped(set func(*unix.MountAttr) error, uids, gids []specs.LinuxIDMapping, attr uint64) error {
	ns, err := s.namespace(uids, gids)
	if err != nil {
		return err
	}
	err = set(&unix.MountAttr{
		Attr_set:    attr | unix.MOUNT_ATTR_IDMAP | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
		Propagation: unix.MS_PRIVATE, Userns_fd: uint64(ns.Fd()),
	})
	if errors.Is(err, unix.EINVAL) {
		return refusal.New(refusal.Workspace, "its file system cannot map owners on this kernel (mount_setattr(2))").
			WithRemedy("move the directory to ext4, xfs or btrfs, or mount it without a view")
	}
	return err
}

// overlay mounts a view, detached. It is mounted by short names in a mount namespace that ends with
// it: a jail's mount table shows the names, and Linux before 6.13 takes no descriptors for layers.
func (s *stager) overlay(lower, upper *os.File, b plan.Bind) (*os.File, error) {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
	if b.NoExec {
		attr.Attr_set |= unix.MOUNT_ATTR_NOEXEC
	}
	accessTimes(&attr, s.Spec.Mounts[b.Index].Options)
	var view *os.File
	err := thread.Own(func() error {
		if err := isolate(); err != nil {
			return err
		}
		if err := unix.Mount(mountSource, s.layer, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC,
			"mode=0700,size=65536,nr_inodes=16"); err != nil {
			return fmt.Errorf("mounting a tmpfs: %w", err)
		}
		if err := unix.Chdir(s.layer); err != nil {
			return err
		}
		for name, tree := range map[string]*os.File{"l": lower, "u": upper} {
			if err := unix.Mkdir(name, 0o700); err != nil {
				return err
			}
			if err := unix.MoveMount(int(tree.Fd()), "", unix.AT_FDCWD, name, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
				return fmt.Errorf("attaching a layer: %w", err)
			}
		}
		fd, err := mountReview()
		if err != nil {
			return err
		}
		view = os.NewFile(uintptr(fd), b.Source)
		if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
			return err
		}
		return writable(view)
	})
	if err != nil && view != nil {
		view.Close()
		view = nil
	}
	return view, err
}

// ReviewUpper is the place of a view's layer in its jail's mount table.
const ReviewUpper = "u/upper"

// mountReview mounts the layers `l` and `u` of the working directory.
func mountReview() (int, error) {
	return mountOverlayFS([][2]string{
		{"source", mountSource},
		{"lowerdir", "l"},
		{"upperdir", ReviewUpper},
		{"workdir", "u/work"},
		// Without redirects the rename of a directory fails with EXDEV.
		{"redirect_dir", "on"},
		{"metacopy", "off"},
		{"index", "off"},
		{"xino", "auto"},
	}, "volatile") // otherwise each first write to a file waits for the disk
}

// mountOverlayFS mounts an overlay, detached, with options and a flag.
func mountOverlayFS(options [][2]string, flag string) (int, error) {
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fs)
	for _, o := range options {
		if err := unix.FsconfigSetString(fs, o[0], o[1]); err != nil {
			return -1, fmt.Errorf("%s=%s: %w", o[0], o[1], err)
		}
	}
	if err := unix.FsconfigSetFlag(fs, flag); err != nil {
		return -1, fmt.Errorf("%s: %w", flag, err)
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, err
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

// writable returns an error for an overlay that the kernel has made read-only, as it does without
// an error where it cannot make files in the work directory.
func writable(view *os.File) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(view.Fd()), &fs); err != nil {
		return err
	}
	if fs.Flags&unix.ST_RDONLY != 0 {
		return errors.New("the kernel made it read-only (its log has the reason: dmesg)")
	}
	return nil
}
