package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/rootfs"
	"agentjail.dev/runtime/spec/policy"
)

// class is what a mount is to the jail.
type class int

const (
	rootMount   class = iota // the jail's root
	ownTmpfs                 // a tmpfs that was made for the jail
	kernelMount              // files that the kernel makes up
	deviceMount              // a device node
	hostMount                // something of the host's
)

// kernelFS are the file systems that the kernel makes up.
var kernelFS = []string{"proc", "sysfs", "cgroup", "cgroup2", "mqueue", "devpts"}

func (s *seen) classOf(m *mount) class {
	switch {
	case path.Clean(m.Point) == "/":
		return rootMount
	case m.device != "":
		return deviceMount
	case slices.Contains(kernelFS, m.FS):
		return kernelMount
	case m.FS == "tmpfs" && !s.hostDevs[m.Dev]:
		return ownTmpfs
	}
	return hostMount
}

// of returns the mounts of one class.
func (s *seen) of(c class) []*mount {
	var out []*mount
	for i := range s.mounts {
		if s.classOf(&s.mounts[i]) == c {
			out = append(out, &s.mounts[i])
		}
	}
	return out
}

// rootLayer: what is written to the root goes to the ephemeral layer, an overlay's upper directory
// whose file system has the jail's size and number of files. The mount table does not show that
// directory, since the jail can read the table: its sizes distinguish it from a disk of the host.
func rootLayer(d *demands, s *seen) outcome {
	pol := d.jail.Policy.Root
	_, bound := pol.Layer()
	want := fmt.Sprintf("a layer %s of at most %s and %d files over a read-only image", pol.Where(), bound, pol.Inodes)
	roots := s.of(rootMount)
	if len(roots) == 0 {
		return broken(want, "no root is mounted")
	}
	m := roots[len(roots)-1] // the topmost
	upper := m.Value("upperdir")
	switch {
	case m.FS != "overlay":
		return broken(want, "%s of the host's, %s", m.FS, m.Root)
	case m.Source != "agentjail" || upper != rootfs.Upper:
		return broken(want, "writes go to %s", cmp.Or(upper, "nowhere known"))
	}
	if l := m.Lacks("nosuid", "nodev"); len(l) > 0 {
		return broken(want+", nosuid and nodev", "without %s", strings.Join(l, " and "))
	}
	if s.rootSize == 0 || s.rootSize > uint64(bound) || s.rootFiles == 0 || s.rootFiles > uint64(pol.Inodes) {
		return broken(want, "a layer of %s and %d files (0: unlimited)", size(s.rootSize), s.rootFiles)
	}
	how := "writable"
	if m.ReadOnly() {
		how = "read-only"
	}
	return holds("%s, layer %s of %s and %d files over the image", how, pol.Where(), size(s.rootSize), s.rootFiles)
}

// maxTmpfs is the size that no tmpfs of the jail exceeds.
func (d *demands) maxTmpfs() policy.Size {
	return d.jail.Policy.MaxTmpfs(d.host.MemTotal, d.host.Cgroup.Memory)
}

// tmpfsCaps: every tmpfs that can be written to has a size and a number of
// files, neither above policy's. The kernel does not print what was not set.
func tmpfsCaps(d *demands, s *seen) outcome {
	pol, most := d.jail.Policy.Tmpfs, d.maxTmpfs()
	want := fmt.Sprintf("size of at most %s, at most %d files, nosuid, nodev", most, pol.Inodes)
	var bad []string
	n := 0
	for _, m := range s.of(ownTmpfs) {
		if m.ReadOnly() {
			continue
		}
		n++
		bytes, err := tmpfsSize(m.Value("size"))
		files, err2 := strconv.ParseUint(m.Value("nr_inodes"), 10, 64)
		switch {
		case m.Value("size") == "":
			bad = append(bad, m.Point+" has no size")
		case m.Value("nr_inodes") == "":
			bad = append(bad, m.Point+" has no number of files")
		case err != nil || bytes == 0 || bytes > uint64(most):
			bad = append(bad, fmt.Sprintf("%s has size=%s", m.Point, m.Value("size")))
		case err2 != nil || files == 0 || files > uint64(pol.Inodes):
			bad = append(bad, fmt.Sprintf("%s has nr_inodes=%s", m.Point, m.Value("nr_inodes")))
		}
		need := []string{"nosuid", "nodev"}
		if path.Clean(m.Point) == "/dev" {
			need = need[:1]
		}
		if l := m.Lacks(need...); len(l) > 0 {
			bad = append(bad, fmt.Sprintf("%s is without %s", m.Point, strings.Join(l, " and ")))
		}
	}
	return holdsUnless(want, bad, "%d writable, each with a size and a number of files", n)
}

// tmpfsSize reads size= as the kernel prints it: 65536k (mm/shmem.c).
func tmpfsSize(s string) (uint64, error) {
	k, ok := strings.CutSuffix(s, "k")
	n, err := strconv.ParseUint(k, 10, 54)
	if ok {
		n <<= 10
	}
	return n, err
}

// bindMounts: what is the host's has no effect by set-id bits and devices, and
// what can be written there has its owners mapped.
func bindMounts(d *demands, s *seen) outcome {
	const want = "nosuid and nodev, and owners mapped where writable"
	var bad []string
	mapped, readOnly, shm, users, views, thrown := 0, 0, 0, 0, 0, 0
	for _, m := range s.of(hostMount) {
		if m.FS == "devtmpfs" {
			bad = append(bad, fmt.Sprintf("%s is the host's %s of devices", m.Point, m.Root))
			continue
		}
		if l := m.Lacks("nosuid", "nodev"); len(l) > 0 {
			bad = append(bad, fmt.Sprintf("%s is without %s", m.Point, strings.Join(l, " and ")))
		}
		switch {
		case m.ReadOnly():
			readOnly++
		case m.Has("idmapped"):
			mapped++
		case m.FS == "overlay" && m.Source == "agentjail" && rootfs.IsThrowAway(m.Value("upperdir")):
			thrown++
		case d.jail != nil && reviewed(d.jail.Reviews, m):
			views++
		case engineShm(m, uint64(d.maxTmpfs())):
			shm++
		case d.host.Rootless:
			users++
		default:
			bad = append(bad, fmt.Sprintf("%s (%s %s of the host) can be written as the host's own ids", m.Point, m.FS, m.Root))
		}
	}
	var how []string
	for _, sort := range []struct {
		n    int
		what string
	}{
		{mapped, "writable with owners mapped"},
		{views, "writable as views, each in a layer of its own"},
		{thrown, "with changes in the ephemeral layer"},
		{readOnly, "read-only"},
	} {
		if sort.n > 0 {
			how = append(how, fmt.Sprintf("%d %s", sort.n, sort.what))
		}
	}
	if shm > 0 {
		how = append(how, "the engine's /dev/shm")
	}
	switch {
	case len(bad) > 0:
		return brokenList(want, bad)
	case users > 0:
		return lacking(want, "%d writable with the ids that the user's engine maps for the jail; nosuid, nodev", users)
	case len(how) == 0:
		return holds("nothing of the host's is mounted")
	}
	return holds("%s; nosuid, nodev", strings.Join(how, ", "))
}

// sizeAt returns the size of the file system at a path of the jail, in bytes.
func sizeAt(root *os.File, at string) uint64 {
	fs, err := statfsAt(root, at)
	if err != nil {
		return 0
	}
	return fs.Blocks * uint64(fs.Bsize)
}

// statfsAt requests the file system at a path of the jail.
func statfsAt(root *os.File, at string) (unix.Statfs_t, error) {
	return statfs(openIn(root, at, unix.O_PATH))
}

// statfs requests the file system of a file that was opened with err, and closes the file.
func statfs(f *os.File, err error) (fs unix.Statfs_t, _ error) {
	if err != nil {
		return fs, err
	}
	defer f.Close()
	err = unix.Fstatfs(int(f.Fd()), &fs)
	return fs, err
}

// engineShm recognises the memory that an engine lets containers share (Docker
// --ipc=shareable): a tmpfs with a size, empty but for what jails put there,
// and that with their own ids. It is not capped by number of files, which the
// jail's memory limit has to bound.
func engineShm(m *mount, most uint64) bool {
	n, err := tmpfsSize(m.Value("size"))
	return path.Clean(m.Point) == "/dev/shm" && m.FS == "tmpfs" && m.Root == "/" && m.Has("noexec") && err == nil &&
		n > 0 && n <= most
}

// A kernelRule reports how one of the kernel's own file systems may be mounted.
type kernelRule struct {
	options []string
	// part reports which mounts of the host's own file system are still right; nil
	// for none.
	part func(s *seen, m *mount) bool
}

var kernelRules = map[string]kernelRule{
	"proc":    {options: []string{"nosuid", "nodev", "noexec"}},
	"sysfs":   {options: []string{"nosuid", "nodev", "noexec", "ro"}},
	"cgroup":  {options: []string{"nosuid", "nodev", "noexec", "ro"}, part: ownGroup},
	"cgroup2": {options: []string{"nosuid", "nodev", "noexec", "ro"}, part: ownGroup},
	"mqueue":  {options: []string{"nosuid", "nodev", "noexec"}},
	"devpts":  {options: []string{"nosuid", "noexec"}},
}

// ownGroup: the hierarchy is one for all, and the jail sees its own group.
func ownGroup(s *seen, m *mount) bool {
	if m.Root == "/" {
		return false
	}
	for c, p := range s.cgroup.paths {
		if (c == "" && m.FS == "cgroup2" || c != "" && m.SuperHas(c)) && p == m.Root {
			return true
		}
	}
	return false
}

// kernelFiles: /proc, /sys and the like are the jail's own, and what steers the
// kernel through them cannot be written.
func kernelFiles(d *demands, s *seen) outcome {
	const want = "the jail's own, nosuid, nodev and noexec, and read-only but for /proc"
	var bad []string
	fs := map[string]bool{}
	for _, m := range s.of(kernelMount) {
		rule := kernelRules[m.FS]
		fs[m.FS] = true
		// A user's engine may have left the jail in the groups of its own.
		shared := d.host.Rootless && strings.HasPrefix(m.FS, "cgroup")
		if s.hostDevs[m.Dev] && !shared && (rule.part == nil || !rule.part(s, m)) {
			bad = append(bad, fmt.Sprintf("%s is the host's %s%s", m.Point, m.FS, part(m.Root)))
		}
		for _, o := range rule.options {
			if o == "ro" && m.ReadOnly() {
				continue
			}
			if !m.Has(o) {
				bad = append(bad, fmt.Sprintf("%s is without %s", m.Point, o))
			}
		}
	}
	return holdsUnless(want, bad, "its own: %s", strings.Join(slices.Sorted(maps.Keys(fs)), ", "))
}

func part(root string) string {
	if root == "/" {
		return ""
	}
	return " " + root
}

// deviceNodes: the nodes that are mounted are the standard ones or policy's.
// None can be made in the jail's user namespace (mknod(2)).
func deviceNodes(d *demands, s *seen) outcome {
	const want = "the standard nodes and those of policy"
	var bad []string
	names := map[string]bool{}
	for _, m := range s.of(deviceMount) {
		if m.FS == "devpts" && !s.hostDevs[m.Dev] {
			continue // /dev/console is one of the jail's own terminals
		}
		if slices.Contains(d.jail.Policy.Devices.Allow, path.Clean(m.Point)) || isStandardDevice(m.device) {
			names[m.device] = true
			continue
		}
		bad = append(bad, fmt.Sprintf("%s is device %s", m.Point, m.device))
	}
	return holdsUnless(want, bad, "%s, all standard or policy's", printable.Count(len(names), "device"))
}

// propagation: no mount of the jail travels, neither in nor out
// (mount_namespaces(7)).
func propagation(_ *demands, s *seen) outcome {
	var bad []string
	for i := range s.mounts {
		for t := range strings.FieldsSeq(s.mounts[i].Tags) {
			if strings.HasPrefix(t, "shared:") || strings.HasPrefix(t, "master:") {
				bad = append(bad, s.mounts[i].Point+" is "+t)
			}
		}
	}
	return holdsUnless("all mounts private", bad, "all %d mounts private", len(s.mounts))
}
