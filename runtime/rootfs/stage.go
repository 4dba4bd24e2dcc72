// Package rootfs builds the file tree of a hardened spec: the jail's root (the image, idmapped,
// under an ephemeral layer), its bind mounts with the right owners, and device nodes. All of it
// is mounted in a mount namespace of the calling thread, in which the delegate is then started:
// when jail and delegate are gone, so are the mounts, whatever happened to agentjail.
//
// # Where to begin
//
// Stage (stage.go) has the steps in order. A rootMaker makes the root (rootfs.go, ephemeral.go), a
// nester the mounts that lie in other mounts (nested.go), a syntheticMaker the files over /proc and
// /sys (synthetic.go); protect.go mounts the protection of paths that package protect finds.
//
// # Hostile paths
//
// The image and the mounted directories are a jail's to write, now or in an earlier run. Places in
// them are opened by descriptors below the jail's root (package openat), never by a name that was
// checked before.
package rootfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/protect"
	"agentjail.dev/runtime/rootfs/procfiles"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/workspace"
)

// Request describes the file tree to stage. Stage changes Spec: its root and its bind sources
// become the staged ones.
type Request struct {
	Dir     string // the jail's state directory, absolute
	Spec    *specs.Spec
	Plan    plan.Plan
	Sources []*bindsource.Source // by index of the incoming mounts
	Rootfs  *os.File             // the engine's root, O_PATH
	Mounts  *bindsource.Mounts   // the host's, opened after Rootfs was
	// Needed are paths that the delegate or this process uses later. Of the host's mounts, those
	// on the way to them stay reachable.
	Needed []string
	// AllMounts keeps all of the host's mounts reachable. The delegate's hooks are programs of
	// the host's, which may need any of them. A policy of SELinux may log a refusal for each
	// directory that is mounted on.
	AllMounts bool
	// Ledger records placeholders in mounted directories, for the jail of that Key.
	Ledger protect.Ledger
	Key    string
	// Workspaces keeps the layers of mounts with plan.StorageReview, for the jail with the id Jail
	// and that Key. Reviewed is the name or id of a view to go on in, for the first such mount.
	Workspaces workspace.Store
	Jail       string
	Reviewed   string
	// Journal is the path of the jail's journal.
	Journal string
	// Rootless reports that all of this happens in a user's own user namespace.
	Rootless bool
	// Sandboxed reports that the mounts are a sandbox's process's.
	Sandboxed bool
	// UserNS is the jail's, with the maps of Spec; nil where it is made later.
	UserNS *os.File
	Single []procfiles.File // synthetic files in place of the kernel's
	Sys    procfiles.Tree   // the jail's /sys
}

// Staged is the result.
type Staged struct {
	// Root is the jail's root as a detached clone, to be attached over the
	// engine's own.
	Root *os.File
	// Changes is the ephemeral layer as a detached clone, for AttachChanges.
	Changes *os.File
	// Dev is the root file system's device number.
	Dev uint64
	// Places are the destinations of the mounts of the spec, with links resolved.
	Places []string
	// Nested are the mounts in bind mounts, which the delegate binds with those.
	Nested []Nested
	// Late are those of Nested that become read-only in the jail, so that its start can write to
	// them: what is read-only when a user namespace takes it over stays so (mount_namespaces(7)).
	Late []string
	// Notes are deviations from the usual set-up, with reasons.
	Notes []string
	// Synthetic are files to be attached when the delegate has made the jail's mounts.
	Synthetic []Synthetic
	// SyntheticDev is the device number of the file system that they are on.
	SyntheticDev uint64
	// Copies are the engine's files that the start copies again where they have changed, and
	// CopiesDev is the device number of the copies' file system.
	Copies    []state.Copy
	CopiesDev uint64
	// Protected are the protected paths of each directory that was searched; AttachProtected
	// mounts their protection.
	Protected []Protected
	attach    []attachment
	outer     []outerMount
	// Reviews are the mounts with plan.StorageReview.
	Reviews []state.Review
}

// Close closes the trees that were not attached.
func (s *Staged) Close() {
	s.Root.Close()
	s.Changes.Close()
	closeTrees(s.Synthetic, s.attach)
}

func closeTrees(synthetic []Synthetic, attach []attachment) {
	for _, v := range synthetic {
		v.Tree.Close()
	}
	for _, a := range attach {
		a.tree.Close()
	}
}

// SyntheticPaths lists the paths of the synthetic files.
func (s *Staged) SyntheticPaths() []string {
	var out []string
	for _, v := range s.Synthetic {
		out = append(out, v.Path)
	}
	return out
}

// mountSource is the source of agentjail's mounts in mount tables.
const mountSource = "agentjail"

// Names below the state directory.
const (
	layerDir = "layer" // a file system: the ephemeral layer and mount points
	rootDir  = "root"  // the jail's root
)

// Stage builds the jail's file tree. The calling goroutine must be locked to its thread. The
// thread then lives in a mount namespace of its own and must not return to the Go scheduler.
func Stage(r Request) (_ *Staged, err error) {
	s := &stager{rootMaker: newRootMaker(&r)}
	defer s.close()
	defer func() {
		if err != nil {
			closeTrees(s.synthetic, s.attach)
		}
	}()
	// Trees are cloned where they were opened, in the host's mount namespace,
	// and attached in the jail's: a clone belongs to none until then.
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"preparing the image's layers", s.cloneLayers},
		{"reading the hosts file", s.copyHosts},
		{"preparing bind mounts", s.cloneBinds},
		{"preparing the root's layer on disk", s.makeDisk},
		{"looking for protected paths", s.findProtected},
		{"mapping other owners", s.mapOthers},
		{"entering a mount namespace", isolate},
		{"leaving out other containers' mounts", s.keepNeeded},
		{"preparing the ephemeral layer", s.makeLayer},
		{"preparing the root file system", s.makeRoot},
		{"adjusting the image's programs", s.adjustPrograms},
		{"adding the resolver's file", s.addResolver},
		{"adding the jail's certificate authority", s.addTrust},
		{"adding the jail's own name", s.addOwnName},
		{"adding the file of refusals", s.addInside},
		{"looking at mount points", s.checkPoints},
		{"making mount points", s.findNested},
		{"attaching bind mounts", s.attachBinds},
		{"protecting paths in mounted directories", s.protectPaths},
		{"preparing the jail's synthetic files", s.makeSynthetic},
		{"mounting what lies in bind mounts", s.mountNested},
		{"preparing device nodes", s.makeNodes},
	} {
		if err := step.do(); err != nil {
			return nil, fmt.Errorf("%s: %w", step.what, err)
		}
	}
	root, err := cloneTree(unix.AT_FDCWD, s.root, false, nil)
	if err != nil {
		return nil, fmt.Errorf("the jail's root: %w", err)
	}
	if err := limitEngineView(root, s.Plan.Root); err != nil {
		root.Close()
		return nil, err
	}
	changes, err := s.cloneChanges()
	if err != nil {
		root.Close()
		return nil, fmt.Errorf("cloning the ephemeral layer: %w", err)
	}
	r.Spec.Root.Path = s.root
	return &Staged{
		Root: root, Changes: changes, Dev: s.dev, Places: s.places, Nested: s.nested.made, Late: s.nested.late, Notes: s.notes,
		Synthetic:    s.synthetic,
		SyntheticDev: s.syntheticDev, Copies: s.copies, CopiesDev: s.copiesDev,
		Protected: s.protected, Reviews: s.reviews, attach: s.attach, outer: s.outer,
	}, nil
}

// isolate moves the thread to a new mount namespace. The namespace receives the host's mounts and
// unmounts (a disk that is unmounted there must not stay busy because of a jail) and propagates
// none.
func isolate() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("ending propagation: %w", err)
	}
	return nil
}

// A stager makes the jail's file tree. Its steps are in Stage.
type stager struct {
	rootMaker
	places       []string         // of the mounts, with links resolved
	binds        map[int]*os.File // detached clones by mount index
	nested       nester
	trusts       []trust
	inside       bool
	synthetic    []Synthetic
	syntheticDev uint64
	copies       []state.Copy
	copiesDev    uint64
	protected    []Protected
	reviews      []state.Review
	attach       []attachment
	others       []*others
	covers       []cover
	outer        []outerMount
	engineImages map[int]engineImage // by mount index
}

func (s *stager) close() {
	s.rootMaker.close()
	for _, f := range s.binds {
		f.Close()
	}
	for _, o := range s.others {
		<-o.ready
	}
	for _, c := range s.covers {
		c.tree.Close()
	}
}

func (s *stager) keepNeeded() error {
	if s.AllMounts {
		return nil
	}
	return keepMounts(append(slices.Concat(s.Needed, s.layers.trees()), s.Dir))
}

// cloneBinds clones each bind source with its owners mapped.
func (s *stager) cloneBinds() error {
	s.binds = map[int]*os.File{}
	for _, b := range s.Plan.Binds {
		if b.Index >= len(s.Sources) || s.Sources[b.Index] == nil {
			return fmt.Errorf("bind mount %d has no source", b.Index)
		}
		if b.Copy {
			continue
		}
		if err := s.relabel(s.Sources[b.Index]); err != nil {
			return fmt.Errorf("SELinux label %s of %s: %w", s.Plan.Label, b.Source, err)
		}
		if b.HandOver {
			if err := s.handOver(b.Owner, s.Sources[b.Index]); err != nil {
				s.notes = append(s.notes, fmt.Sprintf("the new volume %s stays root's: %v", b.Source, err))
			}
		}
		f, err := s.clone(b, s.Sources[b.Index])
		if err != nil {
			return fmt.Errorf("%s at %s: %w", b.Source, s.Spec.Mounts[b.Index].Destination, err)
		}
		s.binds[b.Index] = f
	}
	return nil
}

// relabel sets the jail's label on a file that the engine made for this container, where
// hardening chose another label than the engine's.
func (s *stager) relabel(src *bindsource.Source) error {
	if s.Plan.Label == "" || s.Plan.KeepHostOwners || src.Role != bindsource.Injected || src.Kind != bindsource.File {
		return nil
	}
	// Through /proc, since fsetxattr(2) refuses an O_PATH descriptor.
	// The kernel's own form ends in a zero byte.
	return unix.Setxattr(openat.Proc(int(src.File.Fd())), "security.selinux", append([]byte(s.Plan.Label), 0), 0)
}

// attachBinds mounts the clones where the delegate finds them, and points the
// spec there.
func (s *stager) attachBinds() error {
	for _, b := range s.Plan.Binds {
		if b.Copy {
			continue
		}
		if node := s.Sources[b.Index].Node; node != "" {
			s.Spec.Mounts[b.Index].Source = node // makeDevices mounts the jail's own there
			continue
		}
		at := filepath.Join(s.layer, "m", strconv.Itoa(b.Index))
		var err error
		if s.Sources[b.Index].Kind == bindsource.Dir {
			err = os.Mkdir(at, 0o711)
		} else {
			err = os.WriteFile(at, nil, 0o600)
		}
		if err != nil {
			return err
		}
		if i, ok := s.engineImages[b.Index]; ok {
			if err := s.mountEngineImage(b, i, at); err != nil {
				return fmt.Errorf("the image at %s: %w", s.Spec.Mounts[b.Index].Destination, err)
			}
		}
		if b.Storage == plan.StorageThrowAway {
			if err := s.mountThrowAway(b, at); err != nil {
				return fmt.Errorf("%s: %w", b.Source, err)
			}
		} else if err := unix.MoveMount(int(s.binds[b.Index].Fd()), "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("%s: %w", b.Source, err)
		}
		var fs unix.Statfs_t
		if err := unix.Fstatfs(int(s.binds[b.Index].Fd()), &fs); err != nil {
			return fmt.Errorf("%s: %w", b.Source, err)
		}
		m := &s.Spec.Mounts[b.Index]
		m.Source, m.Options = at, keepLocked(m.Options, int64(fs.Flags))
	}
	return nil
}

// keepLocked adds those flags of the source to a bind mount's options that the
// delegate must not leave out: in the jail's user namespace they cannot be
// taken away, and a remount without them fails (mount_namespaces(7), locked
// flags). An engine's /dev/shm, for one, is noexec.
func keepLocked(options []string, flags int64) []string {
	for _, f := range []struct {
		flag int64
		name string
	}{{unix.ST_RDONLY, "ro"}, {unix.ST_NOEXEC, "noexec"}} {
		if flags&f.flag != 0 && !slices.Contains(options, f.name) {
			options = append(options, f.name)
		}
	}
	return options
}

// cloneDirect clones the source's own tree (plan.StorageDirect).
func (s *stager) cloneDirect(b plan.Bind, src *bindsource.Source) (*os.File, error) {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
	if b.ReadOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if b.NoExec {
		attr.Attr_set |= unix.MOUNT_ATTR_NOEXEC
	}
	options := s.Spec.Mounts[b.Index].Options
	if slices.Contains(options, "rnosymfollow") {
		attr.Attr_set |= unix.MOUNT_ATTR_NOSYMFOLLOW
	}
	accessTimes(&attr, options)
	uids, gids, ok := s.ownerMaps(b.Owner, src.Fact)
	if b.NoWrite {
		if tree, err := s.cloneUnwritable(b, src, attr, uids); err == nil {
			return tree, nil
		}
		s.bind(b.Index).Endpoints = true // its file system maps no ids: a search takes the map's place
	}
	if ok {
		ns, err := s.namespace(uids, gids)
		if err != nil {
			return nil, err
		}
		attr.Attr_set |= unix.MOUNT_ATTR_IDMAP
		attr.Userns_fd = uint64(ns.Fd())
	}
	from := int(src.File.Fd())
	tree, err := cloneTree(from, "", !b.NonRecursive, &attr)
	if err != nil && !b.NonRecursive && (errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM)) {
		// Something mounted below cannot be idmapped (proc, a network share):
		// take the directory alone.
		if flat, ferr := cloneTree(from, "", false, &attr); ferr == nil {
			s.notes = append(s.notes, fmt.Sprintf("bind mount of %s is without what is mounted below it: that cannot be idmapped", b.Source))
			tree, err = flat, nil
		}
	}
	if errors.Is(err, unix.EINVAL) && attr.Attr_set&unix.MOUNT_ATTR_IDMAP != 0 && (src.OwnOfPod() || b.ReadOnly) {
		// Secrets, tokens and emptyDirs in memory are on tmpfs, which can be idmapped since Linux
		// 6.3. Without a mapping they can be read by mode, and files that the pod's containers
		// make there have the pod's ids. An unmapped owner has fewer rights than the mapped one:
		// for a read-only mount this is safe on any file system.
		attr.Attr_set &^= unix.MOUNT_ATTR_IDMAP
		attr.Userns_fd = 0
		if plain, perr := cloneTree(from, "", !b.NonRecursive, &attr); perr == nil {
			s.notes = append(s.notes, fmt.Sprintf("mount of %s: its owners show as user 65534, since its file system (%s) cannot be idmapped on this kernel", b.Source, FSName(src.File)))
			tree, err = plain, nil
		}
	}
	if errors.Is(err, unix.EINVAL) && attr.Attr_set&unix.MOUNT_ATTR_IDMAP != 0 {
		return nil, fmt.Errorf("the %s file system cannot map owners on this kernel (mount_setattr(2)): remedy: move the directory to ext4, xfs, btrfs or tmpfs, use a volume of the engine's, or mount it read-only, which shows what everybody on the host may read", FSName(src.File))
	}
	if err == nil && ok && b.Owner == plan.OwnerDir && !b.ReadOnly && src.Kind == bindsource.Dir {
		s.findOthers(&others{b: b, src: src, attr: attr, own: idmap.Map{UIDs: uids, GIDs: gids}, ready: make(chan struct{})})
	}
	return tree, err
}

// ownerMaps returns the mapping of a bind mount's owners, from ids on the disk to the host's ids
// of the jail; ok is false without a mapping.
func (s *stager) ownerMaps(o plan.Owner, f bindsource.Fact) (uids, gids []specs.LinuxIDMapping, ok bool) {
	switch o {
	case plan.OwnerSame:
		return s.Plan.IDs.UIDs, s.Plan.IDs.GIDs, true
	case plan.OwnerDir:
		uids, ok = idmap.ForMount(s.Plan.IDs.UIDs, idmap.Pair{Disk: f.UID, Jail: s.Plan.User.UID})
		if !ok {
			return nil, nil, false
		}
		uids = s.alone(uids, f.UID)
		group := idmap.Pair{Disk: f.GID, Jail: s.Plan.User.GID}
		roots := f.GID == 0 && f.UID != 0
		if roots {
			group.Disk = idmap.Overflow
		}
		gids, ok = idmap.ForMount(s.Plan.IDs.GIDs, group)
		gids = s.alone(gids, group.Disk)
		if ok && roots {
			// Root's group may read and write more than the owner: it is mapped to an id that no
			// process has. (A file with an unmapped id cannot be written to.)
			gids = append(gids, specs.LinuxIDMapping{ContainerID: 0, HostID: idmap.ReservedFirst, Size: 1})
		}
		return uids, gids, ok
	}
	return nil, nil, false
}

// alone is the part of an owner's mapping that a jail has where no other of its ids may be on the
// disk (plan.Plan, OwnerAlone).
func (s *stager) alone(ms []specs.LinuxIDMapping, disk uint32) []specs.LinuxIDMapping {
	if !s.Plan.OwnerAlone {
		return ms
	}
	return slices.DeleteFunc(ms, func(m specs.LinuxIDMapping) bool { return m.ContainerID != disk })
}

// makeNodes makes the device nodes that policy allows on the layer's tmpfs, with the owners of
// the spec, and binds them into the jail.
func (s *stager) makeNodes() error {
	for i, d := range s.Plan.Nodes {
		at := filepath.Join(s.layer, "m", "dev"+strconv.Itoa(i))
		mode, owner, group := uint32(0o600), uint32(0), uint32(0)
		if d.FileMode != nil {
			mode = uint32(d.FileMode.Perm())
		}
		if d.UID != nil {
			owner = *d.UID
		}
		if d.GID != nil {
			group = *d.GID
		}
		typ := uint32(unix.S_IFCHR)
		if d.Type == "b" {
			typ = unix.S_IFBLK
		}
		if err := unix.Mknod(at, typ|mode, int(unix.Mkdev(uint32(d.Major), uint32(d.Minor)))); err != nil {
			return fmt.Errorf("%s: %w", d.Path, err)
		}
		u, ok1 := s.Plan.IDs.HostUID(owner)
		g, ok2 := s.Plan.IDs.HostGID(group)
		if !ok1 || !ok2 {
			u, _ = s.Plan.IDs.HostUID(0)
			g, _ = s.Plan.IDs.HostGID(0)
		}
		if err := os.Lchown(at, int(u), int(g)); err != nil {
			return err
		}
		if err := os.Chmod(at, os.FileMode(mode)); err != nil { // past the umask
			return err
		}
		s.Spec.Mounts = append(s.Spec.Mounts, specs.Mount{
			Destination: d.Path, Type: "bind", Source: at, Options: []string{"bind", "nosuid", "noexec", "rprivate"},
		})
	}
	s.Spec.Linux.Devices = nil
	return nil
}
