package rootfs

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/protect"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
)

// Protected are the protected paths of one mounted directory.
type Protected struct {
	Mount int    // the mount's index in the spec
	Place string // where the jail has the directory
	protect.Found
	options protect.Options
}

// An attachment is a mount that is made in the jail's mount namespace after its delegate has made
// the others: some delegates leave out the mounts below the source of a bind mount (crun 1.8 with
// a user namespace).
type attachment struct {
	path string // the jail's
	tree *os.File
	// dev and ino identify the file that must be there, so that a replacement is noticed.
	dev, ino uint64
	// endpoint reports that the file may be gone, or be another socket or pipe.
	endpoint bool
	// other reports a cover of another owner's file, which may be gone, or be another.
	other bool
}

// The files that protect paths of a jail are on a separate tmpfs, which the jail has at ownPlace:
// nothing else may be mounted on /dev, so that the place is always free.
//
// OwnPlace is where a jail has the files that protect its paths.
const (
	OwnPlace = "/dev/agentjail"

	ownDir   = "own"
	ownPlace = OwnPlace
	// ownSize and ownFiles bound that tmpfs: it has copies of settings, and a file or two.
	ownSize  = 1 << 20
	ownFiles = 2048
	// maxCopies bounds the copies' text, in bytes, and filesPerCopy is the share of each copy in
	// half of the files.
	maxCopies    = ownSize / 2
	filesPerCopy = 3
)

// SearchOptions are those of the search of a bind mount's directory. ok is false
// for one that is not searched.
func SearchOptions(b plan.Bind, p plan.Plan, src *bindsource.Source) (o protect.Options, ok bool) {
	if src.Kind != bindsource.Dir || !b.Protect && !b.Hide && !b.Endpoints {
		return o, false
	}
	o = protect.For(b.Source, src.UID, src.Users)
	o.Names, o.Mounts, o.Protect, o.Absent, o.Unprotect = src.AllNames()[1:], !b.NonRecursive, b.Protect, b.Absent, p.Unprotect
	if b.Hide {
		o.Hide = p.Hide
	}
	o.Endpoints, o.Reachable, o.Tree, o.NoWalk = b.Endpoints, p.Sockets, b.Endpoints && !b.Protect && !b.Hide, b.Part
	o.Shared, o.OfPod = b.Shared, b.OfPod
	return o, true
}

// findProtected finds the paths to protect in each mounted directory, and creates placeholders
// for missing ones. It searches the clone that the jail gets, so that the result matches the
// mount.
func (s *stager) findProtected() error {
	var dirs []Searched
	for _, b := range s.Plan.Binds {
		clone := s.binds[b.Index]
		o, ok := SearchOptions(b, s.Plan, s.Sources[b.Index])
		if !ok || clone == nil {
			continue
		}
		var fs unix.Statfs_t
		if err := unix.Fstatfs(int(clone.Fd()), &fs); err != nil {
			return fmt.Errorf("%s: %w", b.Source, err)
		}
		if fs.Flags&unix.ST_RDONLY != 0 { // by the host's own mount
			o.Protect = false
		}
		dirs = append(dirs, Searched{b.Index, o, func(o protect.Options) (*protect.Found, error) {
			return protect.Prepare(clone, s.Sources[b.Index].File, o, s.Ledger, s.Key)
		}})
	}
	found, err := SearchAll(dirs, s.Plan.Binds)
	s.protected = found
	return err
}

// A Searched is a mounted directory with the way in which it is searched.
type Searched struct {
	Mount   int // its index in the spec
	Options protect.Options
	Search  func(protect.Options) (*protect.Found, error)
}

// rounds bounds how often directories are searched because of links and settings in others.
const rounds = 4

// SearchAll searches the directories among a jail's bind mounts. If a link or a setting in one
// leads to another, or one lies in another, the other is searched again, to protect the files
// that the first one has the host run.
func SearchAll(dirs []Searched, binds []plan.Bind) ([]Protected, error) {
	limits := pathLimits()
	out := make([]Protected, len(dirs))
	again := slices.Repeat([]bool{true}, len(dirs))
	for round := 0; slices.Contains(again, true); round++ {
		if round == rounds {
			return nil, refusal.New(refusal.BindSearch, "links and settings lead from one mounted directory to another more than %d times",
				rounds).WithRemedy("mount the directory that they lie in")
		}
		room := limits.Paths
		for i, d := range dirs {
			if again[i] {
				d.Options.Limits = limits
				d.Options.Limits.Paths = room
				found, err := d.Search(d.Options)
				if err != nil {
					return nil, err
				}
				out[i] = Protected{Mount: d.Mount, Found: *found, options: d.Options}
			}
			room -= min(room, len(out[i].Found.Paths))
		}
		for i := range dirs {
			again[i] = demand(&dirs[i].Options, out, i)
		}
	}
	return out, exposed(out, binds)
}

// demands lists the host's paths that must be protected because of the content of a directory.
func (p *Protected) demands() []protect.Demand {
	out := slices.Clone(p.Found.Outside)
	for _, f := range p.Found.Paths {
		if at := path.Join(p.options.Source, f.Rel); f.Treatment != protect.Hidden && f.Treatment != protect.Covered {
			out = append(out, protect.Demand{Path: at, From: at, Why: f.Why, Dir: f.Dir})
		}
	}
	return out
}

// demand adds to a directory's options the paths that the other directories need protected in it.
// It reports whether anything is new.
func demand(o *protect.Options, all []Protected, to int) (fresh bool) {
	for i := range all {
		if i == to || !o.Protect {
			continue
		}
		for _, want := range all[i].demands() {
			rel, in := pathname.Rel(want.Path, o.Source)
			if want.Git && want.Path == o.Source {
				rel, in = ".", true
			}
			if want.Git && all[to].Found.KeepsGit(rel) {
				continue
			}
			if in && !all[to].Found.Keeps(rel) && !slices.Contains(o.Demands, want) {
				o.Demands = append(o.Demands, want)
				fresh = true
			}
		}
	}
	return fresh
}

// exposed refuses a writable mount that is the target of a link or a setting in another mounted
// directory.
func exposed(all []Protected, binds []plan.Bind) error {
	for _, p := range all {
		for _, want := range p.demands() {
			if want.Git {
				continue // that mount is protected as a git directory
			}
			i := slices.IndexFunc(binds, func(b plan.Bind) bool {
				return !b.ReadOnly && b.Protect && b.Source == want.Path && b.Index != p.Mount
			})
			if i >= 0 {
				return refusal.New(refusal.BindSearch, "%s has the host run programs in %s, which is mounted writable, too: %s", want.From, want.Path, want.Why).
					WithRemedy("mount %s read-only, or policy: binds.unprotect = [%q]", want.Path, want.From)
			}
		}
	}
	return nil
}

// pathLimits are the limits of the searches of one start. Each path takes one open file of this
// process until it is attached; half of the allowed files are left for the rest. It also takes
// one of the jail's mounts (proc_sys_fs(5), mount-max), of which a quarter is enough.
func pathLimits() protect.Limits {
	out := protect.DefaultLimits
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) == nil && l.Cur/2 < uint64(out.Paths) {
		out.Paths, out.PathsBy = int(l.Cur/2), "half of the files that this process may have open"
	}
	if text, err := os.ReadFile("/proc/sys/fs/mount-max"); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && n/4 < out.Paths {
			out.Paths, out.PathsBy = n/4, "a quarter of fs.mount-max"
		}
	}
	return out
}

// protectPaths makes the mounts for the found paths, for AttachProtected.
func (s *stager) protectPaths() error {
	g := &protector{stager: s, dir: filepath.Join(s.layer, ownDir)}
	defer func() { _ = g.own.Close() }() // an error where there is none
	s.attachCovers()
	for i := range s.protected {
		p := &s.protected[i]
		p.Place = s.places[p.Mount]
		if len(p.Found.Paths) == 0 {
			continue
		}
		if err := g.protect(p); err != nil {
			return fmt.Errorf("%s: %w", p.options.Source, err)
		}
	}
	if g.own != nil {
		s.Spec.Mounts = append(s.Spec.Mounts, specs.Mount{
			Destination: ownPlace, Type: "bind", Source: g.dir, Options: []string{"bind", "nosuid", "nodev", "noexec", "rprivate"},
		})
	}
	return nil
}

// coveredBy reports whether a later mount of the spec covers a path of a mount, so that the path
// cannot be reached.
func (s *stager) coveredBy(mount int, path string) bool {
	for i, at := range s.places {
		if i > mount && pathname.Within(path, at) {
			return true
		}
	}
	return false
}

// protector mounts the protection.
type protector struct {
	*stager
	dir           string
	own           *os.File // the tmpfs; nil until something is needed of it
	copies, trees int
	copied        int   // bytes
	files         int64 // that the tmpfs can have
}

// Names on the tmpfs.
const (
	emptyFile = "empty"
	emptyDir  = "empty.d"
	copiesDir = "git"
	pinsDir   = "pins"
)

// tmpfs makes the tmpfs.
func (g *protector) tmpfs() error {
	if g.own != nil {
		return nil
	}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return err
	}
	size, files := int64(ownSize), int64(ownFiles)
	if t := g.Plan.Tmpfs; t.Size > 0 {
		size, files = min(size, int64(t.Size)), min(files, t.Inodes)
	}
	g.files = files
	opts := fmt.Sprintf("mode=0755,size=%d,nr_inodes=%d", size, files)
	err := g.mount("tmpfs", g.dir, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, opts)
	if err != nil {
		return err
	}
	if g.own, err = OpenDir(g.dir); err != nil {
		return err
	}
	defer unix.Umask(unix.Umask(0))
	if err := write(g.own, emptyFile, "", 0o444); err != nil {
		return err
	}
	for name, mode := range map[string]uint32{emptyDir: 0o555, copiesDir: 0o755, pinsDir: 0o755} {
		if err := mkdir(g.own, name, mode); err != nil {
			return err
		}
	}
	return nil
}

// protect protects the found paths of one directory.
func (g *protector) protect(d *Protected) error {
	view, o := g.binds[d.Mount], d.options
	if err := g.mountPins(view, o, d.Pins()); err != nil {
		return err
	}
	for i := range d.Found.Paths {
		p := &d.Found.Paths[i]
		to := path.Join(d.Place, p.Rel)
		if g.coveredBy(d.Mount, to) {
			continue
		}
		at, err := protect.Open(view, o, p.Rel)
		if err == nil {
			err = g.cover(at, to, p)
			at.Close()
		} else if p.Treatment == protect.Covered && protect.Gone(err) {
			err = nil // its program has ended meanwhile
		}
		if err != nil {
			return fmt.Errorf("protecting %s: %w", p.Rel, err)
		}
	}
	return nil
}

// errChanged refuses a link where the search found none.
var errChanged = refusal.New(refusal.MountMoved, "it was replaced while the jail was being made").WithRemedy("try again")

// cover makes the mount that replaces the file found at a path in the jail.
func (g *protector) cover(at *os.File, to string, p *protect.Path) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(at.Fd()), &st); err != nil {
		return err
	}
	link := st.Mode&unix.S_IFMT == unix.S_IFLNK
	if link && !p.Link {
		return errChanged
	}
	var tree *os.File
	var err error
	switch {
	case p.Treatment == protect.Private, p.Treatment == protect.Placeholder && p.Copy:
		if p.Copy {
			p.Mode, p.UID, p.GID = st.Mode&0o777, st.Uid, st.Gid
		}
		if err := g.tmpfs(); err != nil {
			return err
		}
		if g.copied += len(p.Text); g.copied > maxCopies || int64(g.copies*filesPerCopy) >= g.files/2 {
			p.Treatment = protect.ReadOnly
			tree, err = readOnlyTree(int(at.Fd()), "")
			break
		}
		tree, err = g.privateCopy(p)
	case p.Treatment == protect.Hidden, p.Treatment == protect.Covered:
		name := emptyFile
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			name = emptyDir
		}
		tree, err = g.privateTree(name)
	default:
		tree, err = readOnlyTree(int(at.Fd()), "")
	}
	if err != nil {
		return err
	}
	g.attach = append(g.attach, attachment{to, tree, st.Dev, st.Ino, p.Treatment == protect.Covered, false})
	return nil
}

// readOnlyTree is cloneTree of a tree that is then read-only, with all mounts in it.
func readOnlyTree(dir int, name string) (*os.File, error) {
	return cloneTree(dir, name, true, &unix.MountAttr{
		Attr_set:    unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
		Propagation: unix.MS_PRIVATE,
	})
}

// privateTree clones something of the tmpfs, read-only.
func (g *protector) privateTree(name string) (*os.File, error) {
	if err := g.tmpfs(); err != nil {
		return nil, err
	}
	return readOnlyTree(int(g.own.Fd()), name)
}

// privateCopy makes a copy of a file that the jail may change. git writes its config to a new
// file beside the old one and renames it, which cannot be done over a mount. So the mount is of a
// symbolic link, which git resolves before it does that (resolve_symlink in its lockfile.c).
func (g *protector) privateCopy(p *protect.Path) (*os.File, error) {
	if err := g.tmpfs(); err != nil {
		return nil, err
	}
	n := strconv.Itoa(g.copies)
	g.copies++
	defer unix.Umask(unix.Umask(0))
	dir, link := path.Join(copiesDir, n), "link."+n
	file := path.Join(dir, path.Base(p.Rel))
	if err := mkdir(g.own, dir, 0o755); err != nil {
		return nil, err
	}
	if err := write(g.own, file, ownConfig(p.Text), p.Mode); err != nil {
		return nil, err
	}
	for _, name := range []string{dir, file} {
		// EINVAL: a user's namespace does not have the owner's id.
		if err := unix.Fchownat(int(g.own.Fd()), name, int(p.UID), int(p.GID), unix.AT_SYMLINK_NOFOLLOW); err != nil &&
			err != unix.EINVAL {
			return nil, fmt.Errorf("changing the copy's owner: %w", err)
		}
	}
	if err := unix.Symlinkat(path.Join(ownPlace, file), int(g.own.Fd()), link); err != nil {
		return nil, &os.PathError{Op: "symlink", Path: link, Err: err}
	}
	return g.privateTree(link)
}

// ownConfig returns the text of a jail's copy of git's settings. With core.sharedRepository git
// sets the set-gid bit of directories. A filter cannot distinguish that from a program's set-gid
// bit (chmod(2) by path), so that the call is refused. In a directory with the bit, the kernel
// sets it on new directories (inode(7)); git would otherwise add only the group's right to write.
func ownConfig(text string) string {
	if !strings.Contains(strings.ToLower(text), "sharedrepository") {
		return text
	}
	return strings.TrimRight(text, "\n") + "\n[core]\n\tsharedRepository = umask\n"
}

// mountPins keeps directories at their places. A mount point cannot be renamed or removed in its
// mount namespace (vfs_rename in the kernel's fs/namei.c), by any path. So the pins are mounted
// on a second clone of the directory, which is covered: on the jail's own, each pinned directory
// would be another mount, and files could not be moved or linked from one to another.
func (g *protector) mountPins(view *os.File, o protect.Options, pins []string) error {
	if len(pins) == 0 {
		return nil
	}
	if err := g.tmpfs(); err != nil {
		return err
	}
	name := path.Join(pinsDir, strconv.Itoa(g.trees))
	g.trees++
	if err := mkdir(g.own, name, 0o755); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(int(g.own.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	tree, err := readOnlyTree(int(view.Fd()), "")
	if err != nil {
		return err
	}
	defer tree.Close()
	if err := unix.MoveMount(int(tree.Fd()), "", int(g.own.Fd()), name, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("attaching the clone for pins: %w", err)
	}
	for _, rel := range pins { // the deepest first: paths below are covered then
		at, err := protect.Open(tree, o, rel)
		if err == nil {
			err = g.maskDir(at)
			at.Close()
		}
		if err != nil {
			return fmt.Errorf("pinning %s: %w", rel, err)
		}
	}
	if err := g.maskDir(tree); err != nil {
		return err
	}
	pinned, err := cloneTree(int(tree.Fd()), "", true, nil)
	if err != nil {
		return err
	}
	for range 2 { // the cover, then the clone: the delegate need not copy them
		if err := unix.Unmount(filepath.Join(g.dir, name), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			pinned.Close()
			return fmt.Errorf("detaching the pins: %w", err)
		}
	}
	g.attach = append(g.attach, attachment{path.Join(ownPlace, name), pinned, st.Dev, st.Ino, false, false})
	return nil
}

// maskDir mounts an empty directory over one.
func (g *protector) maskDir(at *os.File) error {
	empty, err := g.privateTree(emptyDir)
	if err != nil {
		return err
	}
	defer empty.Close()
	return unix.MoveMount(int(empty.Fd()), "", int(at.Fd()), "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// AttachProtected mounts the protection of paths, in the mount namespace and below the root of
// the calling thread, which must be a jail's.
func (s *Staged) AttachProtected() error {
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	return s.attachProtected(root)
}

func (s *Staged) attachProtected(root int) error {
	for _, a := range s.attach {
		if err := a.mount(root); err != nil {
			return fmt.Errorf("protecting %s: %w", a.path, err)
		}
	}
	return nil
}

// ProtectedPaths are the jail's paths that AttachProtected mounts something
// read-only at.
func (s *Staged) ProtectedPaths() []string {
	var out []string
	for _, a := range s.attach {
		if !a.other {
			out = append(out, a.path)
		}
	}
	return out
}

// Attaches reports whether AttachProtected has anything to do.
func (s *Staged) Attaches() bool { return len(s.attach) > 0 }

func (a attachment) mount(root int) error {
	at, err := openat.Open(root, a.path, openat.InRootNoLinks, unix.O_PATH|unix.O_NOFOLLOW)
	if (a.endpoint || a.other) && protect.Gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return err
	}
	switch {
	case !a.endpoint:
	case !protect.IsEndpoint(st.Mode):
		return nil
	default:
		a.dev, a.ino = st.Dev, st.Ino // a server that was started anew
	}
	if st.Dev != a.dev || st.Ino != a.ino {
		if a.other {
			return nil
		}
		return errChanged
	}
	return unix.MoveMount(int(a.tree.Fd()), "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}
