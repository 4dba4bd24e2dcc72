package rootfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
)

// Mounts below a bind mount are made here, not by the delegate. The delegate resolves their
// places by name in a directory that others can change meanwhile. A link that is put there at the
// right moment leads the mount elsewhere, even over the jail's /dev, and files that the delegate
// then makes there end in another mounted directory. From the opened directory, by openat2(2)
// without links, no path leads out of it. (CVE-2025-52881 and CVE-2026-41579 are of this kind.)

// A nester makes the mounts that lie in bind mounts.
type nester struct {
	*rootMaker
	places    []string         // of the mounts, with links resolved
	binds     map[int]*os.File // detached clones by mount index
	trusts    []trust
	enclosing map[int]int // by mount index, the mount that it lies in and is mounted with
	made      []Nested
	late      []string // Staged.Late
}

// findNested finds for each mount that is made here the mount that immediately encloses it, and
// makes the mount points.
func (s *stager) findNested() error {
	n := nester{rootMaker: &s.rootMaker, places: s.places, binds: s.binds, trusts: s.trusts, enclosing: map[int]int{}}
	for i := range n.Spec.Mounts {
		k := n.inner(i)
		if k < 0 {
			continue
		}
		if _, nested := n.enclosing[k]; !nested && n.binds[k] == nil {
			continue // in a file system that only this jail has
		}
		if !n.canNest(i) {
			continue
		}
		n.enclosing[i] = k
	}
	s.nested = n
	if err := n.createMountpoints(); err != nil {
		return err
	}
	return n.setModes()
}

// setModes gives a directory of the root the mode of the tmpfs that the delegate mounts there: runc
// before 1.2 has the tmpfs take the mode of the directory (rootfs_linux.go, mountToRootfs).
func (n *nester) setModes() error {
	root, err := OpenDir(n.root)
	if err != nil {
		return err
	}
	defer root.Close()
	for i, m := range n.Spec.Mounts {
		for _, o := range m.Options {
			text, ok := strings.CutPrefix(o, "mode=")
			mode, err := strconv.ParseUint(text, 8, 32)
			if m.Type != "tmpfs" || !ok || err != nil || n.inner(i) >= 0 {
				continue
			}
			dir := openBeneath(int(root.Fd()), strings.TrimPrefix(n.places[i], "/"))
			if dir == nil {
				continue
			}
			var st unix.Stat_t
			if err = unix.Fstat(int(dir.Fd()), &st); err == nil && st.Mode&0o7777 != uint32(mode) {
				err = unix.Chmod(openat.Proc(int(dir.Fd())), uint32(mode))
			}
			dir.Close()
			if err != nil { // a directory of no id that the jail has
				n.notes = append(n.notes, fmt.Sprintf("the tmpfs at %s may have the mode of its directory: %v", m.Destination, err))
			}
		}
	}
	return nil
}

// inner is the mount that covers the place of mount i when that is made, or -1.
func (n *nester) inner(i int) int {
	for k := i - 1; k >= 0; k-- {
		if pathname.Below(n.places[i], n.places[k]) {
			return k
		}
	}
	return -1
}

// canNest reports whether mount i can be made here: a bind mount, or a tmpfs that begins empty.
// No other file system is placed below a bind mount.
func (n *nester) canNest(i int) bool {
	m := n.Spec.Mounts[i]
	return n.binds[i] != nil || n.copied(i) || n.trusted(i) || m.Type == "tmpfs" && !slices.Contains(m.Options, "tmpcopyup")
}

// copied reports whether mount i mounts a copy of a file.
func (n *nester) copied(i int) bool {
	b := n.bind(i)
	return b != nil && b.Copy
}

// trusted reports whether mount i mounts a file of trusts.
func (n *nester) trusted(i int) bool {
	return slices.ContainsFunc(n.trusts, func(t trust) bool { return t.path == n.Spec.Mounts[i].Destination })
}

// bind returns the plan of mount i, nil where that is no bind mount.
func (r *Request) bind(i int) *plan.Bind {
	for k := range r.Plan.Binds {
		if r.Plan.Binds[k].Index == i {
			return &r.Plan.Binds[k]
		}
	}
	return nil
}

// createMountpoints creates the mount points in writable bind mounts, as the directory's owner.
// The delegate would create them as container root, which the directory's file system does not
// know.
func (n *nester) createMountpoints() error {
	if err := n.createInHostTree(); err != nil {
		return err
	}
	for i := range n.Spec.Mounts {
		k, ok := n.enclosing[i]
		if !ok || n.binds[k] == nil || n.readOnly(k) {
			continue
		}
		rel := strings.TrimPrefix(n.places[i], n.places[k]+"/")
		src := n.Sources[k]
		if err := thread.AsOwner(src.UID, src.GID, func() error { return makeBelow(src.File, rel, n.isFile(i)) }); err != nil {
			return fmt.Errorf("mount point %s: %w", n.Spec.Mounts[i].Destination, err)
		}
	}
	return nil
}

// createInHostTree creates the mount points that are in no other mount where the root is the
// host's own file tree: its directories are not container root's. They are made in the ephemeral
// layer.
func (n *nester) createInHostTree() error {
	if !n.Plan.KeepHostOwners {
		return nil
	}
	root, err := OpenDir(n.root)
	if err != nil {
		return err
	}
	defer root.Close()
	for i, m := range n.Spec.Mounts {
		if n.inner(i) >= 0 {
			continue
		}
		if err := makeBelow(root, strings.TrimPrefix(n.places[i], "/"), n.isFile(i)); err != nil {
			return fmt.Errorf("mount point %s: %w", m.Destination, err)
		}
	}
	return nil
}

func (n *nester) readOnly(i int) bool {
	b := n.bind(i)
	return b != nil && (b.ReadOnly || b.Storage == plan.StorageThrowAway) // no mount point is made in its directory
}

func (n *nester) isFile(i int) bool {
	return n.copied(i) || n.trusted(i) || n.binds[i] != nil && n.Sources[i].Kind != bindsource.Dir
}

// mountNested mounts the mounts that lie in bind mounts, and removes them from the spec: the
// delegate mounts the outermost with all mounts in it.
func (s *stager) mountNested() error {
	for i := range s.protected { // an index in the spec is of no use after this
		s.protected[i].Place = s.places[s.protected[i].Mount]
	}
	var done []int
	for i := range s.Spec.Mounts {
		if _, ok := s.nested.enclosing[i]; !ok {
			continue
		}
		if err := s.nested.mountOne(i); err != nil {
			return fmt.Errorf("mount at %s: %w", s.Spec.Mounts[i].Destination, err)
		}
		done = append(done, i)
	}
	s.outer = s.outerMounts()
	for _, i := range slices.Backward(done) {
		s.Spec.Mounts = slices.Delete(s.Spec.Mounts, i, i+1)
	}
	return nil
}

func (n *nester) mountOne(i int) error {
	outer := n.enclosing[i]
	for {
		k, nested := n.enclosing[outer]
		if !nested {
			break
		}
		outer = k
	}
	o, m := &n.Spec.Mounts[outer], n.Spec.Mounts[i]
	o.Options = outerOptions(o.Options)
	from := m.Source
	if m.Type == "tmpfs" {
		var err error
		if from, err = n.makeTmpfs(i); err != nil {
			return err
		}
	}
	if k := n.enclosing[i]; n.Spec.Mounts[k].Type == "tmpfs" {
		if err := n.createMountpointInTmpfs(k, i); err != nil {
			return err
		}
	}
	attr := attributes(m.Options)
	if n.binds[i] != nil && n.Sources[i].Node != "" {
		attr.Attr_set &^= unix.MOUNT_ATTR_NODEV
	}
	if b := n.bind(i); b != nil && b.Current && b.ReadOnly && !n.Sandboxed {
		attr.Attr_set &^= unix.MOUNT_ATTR_RDONLY
		n.late = append(n.late, n.places[i])
	}
	tree, err := cloneTree(unix.AT_FDCWD, from, true, &attr)
	if err != nil {
		return err
	}
	defer tree.Close()
	n.made = append(n.made, Nested{Place: n.places[i], from: from, attr: attr})
	return attachBelow(tree, o.Source, strings.TrimPrefix(n.places[i], n.places[outer]+"/"), n.readOnly(n.enclosing[i]))
}

// outerOptions are the options by which the delegate binds a mount with those that lie in it. What
// holds of all below the source (rro) is set on its clone already, and is not for the mounts in it:
// Docker 25 and later mount read-only so.
func outerOptions(options []string) []string {
	out := slices.Clone(options)
	for i, o := range out {
		if plain, ok := strings.CutPrefix(o, "r"); ok && slices.Contains(plan.MountFlags(), plain) {
			out[i] = plain
		} else if o == "bind" {
			out[i] = "rbind"
		}
	}
	return out
}

// A Nested is a mount that was made in a bind mount before the delegate bound
// that.
type Nested struct {
	Place string // in the jail
	from  string // where it is in the stager's mount namespace
	attr  unix.MountAttr
}

// AttachNested attaches nested mounts in a jail where the delegate has left them out: crun 1.8
// binds without the mounts below, although the option is rbind. inJail runs a function in the
// jail's mount namespace; the calling thread is in the stager's.
func AttachNested(missing []Nested, inJail func(func() error) error) error {
	trees := make([]*os.File, len(missing))
	defer closeAll(trees)
	for i, n := range missing {
		var err error
		if trees[i], err = cloneTree(unix.AT_FDCWD, n.from, true, &n.attr); err != nil {
			return fmt.Errorf("mount at %s: %w", n.Place, err)
		}
	}
	return inJail(func() error {
		for i, n := range missing {
			if err := attachBelow(trees[i], "/", strings.TrimPrefix(n.Place, "/"), false); err != nil {
				return fmt.Errorf("mount at %s: %w", n.Place, err)
			}
		}
		return nil
	})
}

// attachBelow mounts a detached tree at a name below the mount at dir.
func attachBelow(tree *os.File, dir, name string, readOnly bool) error {
	top, err := OpenDir(dir)
	if err != nil {
		return err
	}
	defer top.Close()
	at, err := openat.Open(int(top.Fd()), name, openat.Beneath, unix.O_PATH|unix.O_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
		return refusal.New(refusal.MountMoved, "a symbolic link was put in its way meanwhile")
	case errors.Is(err, unix.ENOENT) && readOnly:
		return errors.New("its mount point is not there, and cannot be made in a read-only mount (remedy: make it in the mounted directory)")
	case err != nil:
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return refusal.New(refusal.MountMoved, "a symbolic link was put in its way meanwhile")
	}
	if err := unix.MoveMount(int(tree.Fd()), "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("mounting it over the existing file: %w", err)
	}
	return nil
}

// mountAttributes are a mount's own attributes by the names of options
// (mount_setattr(2)).
var mountAttributes = map[string]uint64{
	"ro": unix.MOUNT_ATTR_RDONLY, "rro": unix.MOUNT_ATTR_RDONLY,
	"nosuid": unix.MOUNT_ATTR_NOSUID, "rnosuid": unix.MOUNT_ATTR_NOSUID,
	"nodev": unix.MOUNT_ATTR_NODEV, "rnodev": unix.MOUNT_ATTR_NODEV,
	"noexec": unix.MOUNT_ATTR_NOEXEC, "rnoexec": unix.MOUNT_ATTR_NOEXEC,
	"nosymfollow": unix.MOUNT_ATTR_NOSYMFOLLOW, "rnosymfollow": unix.MOUNT_ATTR_NOSYMFOLLOW,
}

func attributes(options []string) unix.MountAttr {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
	for _, o := range options {
		attr.Attr_set |= mountAttributes[o]
	}
	accessTimes(&attr, options)
	return attr
}

// accessTimes adds when a mount's files get a new time of access; the last of several such options
// counts (mount(8)). The delegate could not change it: the flags of a mount are locked in the
// jail's user namespace (mount_namespaces(7)).
func accessTimes(attr *unix.MountAttr, options []string) {
	when, dirs, set := uint64(0), uint64(0), false
	for _, o := range options {
		switch o {
		case "noatime", "rnoatime":
			when, set = unix.MOUNT_ATTR_NOATIME, true
		case "relatime", "rrelatime":
			when, set = unix.MOUNT_ATTR_RELATIME, true
		case "strictatime", "rstrictatime":
			when, set = unix.MOUNT_ATTR_STRICTATIME, true
		case "nodiratime", "rnodiratime":
			dirs = unix.MOUNT_ATTR_NODIRATIME
		}
	}
	if set {
		attr.Attr_clr |= unix.MOUNT_ATTR__ATIME | unix.MOUNT_ATTR_NODIRATIME
	}
	attr.Attr_set |= when | dirs
}

// makeTmpfs mounts the tmpfs of mount i in the stager's own directory, with the
// jail's ids in place of the bundle's.
func (n *nester) makeTmpfs(i int) (string, error) {
	at := n.tmpfsAt(i)
	if err := os.Mkdir(at, 0o711); err != nil {
		return "", err
	}
	data, err := n.tmpfsData(n.Spec.Mounts[i])
	if err != nil {
		return "", err
	}
	return at, n.mount("tmpfs", at, unix.MS_NOSUID|unix.MS_NODEV, data)
}

// createMountpointInTmpfs creates the mount point of mount i in the tmpfs of mount k, for
// container root. No other process can reach that tmpfs yet.
func (n *nester) createMountpointInTmpfs(k, i int) error {
	uid, ok1 := n.Plan.IDs.HostUID(0)
	gid, ok2 := n.Plan.IDs.HostGID(0)
	if !ok1 || !ok2 {
		return errors.New("the jail has no uid 0 or no gid 0")
	}
	at := n.tmpfsAt(k)
	parts := strings.Split(strings.TrimPrefix(n.places[i], n.places[k]+"/"), "/")
	for j, name := range parts {
		at = filepath.Join(at, name)
		var err error
		if j == len(parts)-1 && n.isFile(i) {
			err = os.WriteFile(at, nil, 0o644)
		} else {
			err = os.Mkdir(at, 0o755)
		}
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err := errors.Join(err, os.Lchown(at, int(uid), int(gid))); err != nil {
			return err
		}
	}
	return nil
}

// tmpfsAt is where the tmpfs that mount i is to be gets made.
func (n *nester) tmpfsAt(i int) string { return filepath.Join(n.layer, "m", "tmpfs"+strconv.Itoa(i)) }

// tmpfsData are the options of a tmpfs that are no mount attributes.
func (n *nester) tmpfsData(m specs.Mount) (string, error) {
	uid, gid, data := uint32(0), uint32(0), []string{}
	for _, o := range m.Options {
		key, value, ok := strings.Cut(o, "=")
		switch {
		case key == "uid" || key == "gid":
			id, err := strconv.ParseUint(value, 10, 32)
			if err != nil {
				return "", fmt.Errorf("option %s: %w", o, err)
			}
			if key == "uid" {
				uid = uint32(id)
			} else {
				gid = uint32(id)
			}
		case ok:
			data = append(data, o)
		}
	}
	u, ok1 := n.Plan.IDs.HostUID(uid)
	g, ok2 := n.Plan.IDs.HostGID(gid)
	if !ok1 || !ok2 {
		return "", fmt.Errorf("the jail has no uid %d or no gid %d", uid, gid)
	}
	return strings.Join(append(data, fmt.Sprintf("uid=%d,gid=%d", u, g)), ","), nil
}

// makeBelow makes rel below a directory, unless it exists, with the thread's own rights. No
// symbolic link is followed. If another file is in the way, the later mount fails.
func makeBelow(top *os.File, rel string, file bool) error {
	dir, err := unix.FcntlInt(top.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { unix.Close(dir) }()
	parts := strings.Split(rel, "/")
	for i, name := range parts {
		if i == len(parts)-1 && file {
			return makeFile(dir, name)
		}
		made := unix.Mkdirat(dir, name, 0o755)
		if made != nil && made != unix.EEXIST {
			if unix.Faccessat(dir, name, unix.F_OK, unix.AT_SYMLINK_NOFOLLOW) != nil {
				return &os.PathError{Op: "mkdir", Path: strings.Join(parts[:i+1], "/"), Err: made}
			}
		}
		next, err := openat.Open(dir, name, openat.OneMount, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if err != nil {
			if made != nil && (errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EXDEV)) {
				return nil
			}
			return err
		}
		unix.Close(dir)
		dir = next
	}
	return nil
}

// makeFile makes an empty file for a mount to cover, unless there is something.
func makeFile(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o644)
	if err == nil {
		return unix.Close(fd)
	}
	if err == unix.EEXIST || unix.Faccessat(dir, name, unix.F_OK, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return nil
	}
	return &os.PathError{Op: "create", Path: name, Err: err}
}
