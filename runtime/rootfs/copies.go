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

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/lists"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/state"
)

// maxCopy bounds a copied file, in bytes. The engine's have some hundreds.
const maxCopy = 1 << 20

// copyFiles copies the files of the engine and of the host that the jail is to have
// copies of, as container root's.
func (v *syntheticMaker) copyFiles() error {
	for _, b := range v.Plan.Binds {
		if !b.Copy {
			continue
		}
		m := &v.Spec.Mounts[b.Index]
		if v.ownResolver(m) {
			continue
		}
		text, err := v.copyText(v.Sources[b.Index])
		if err != nil {
			return fmt.Errorf("copying %s: %w", b.Source, err)
		}
		if filepath.Clean(m.Destination) == "/etc/hosts" && !b.Current {
			text = nameItself(text, v.Spec.Hostname, plan.Domainname(v.Spec))
		}
		if err := v.writeFor("file"+strconv.Itoa(b.Index), text, m, !b.ReadOnly); err != nil {
			return err
		}
	}
	for i := range v.Spec.Mounts {
		if m := &v.Spec.Mounts[i]; v.ownResolver(m) {
			if err := v.writeFor("resolver", v.Plan.Resolver, m, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeFor writes a file of container root's, and has a bind mount show it.
func (v *syntheticMaker) writeFor(name, text string, m *specs.Mount, writable bool) error {
	dir, at := v.dir, v.at
	if writable {
		if err := v.openCopies(); err != nil {
			return err
		}
		dir, at = v.copies, v.copies.Name()
	}
	if err := write(dir, name, text, 0o644); err != nil {
		return err
	}
	uid, ok1 := v.Plan.IDs.HostUID(0)
	gid, ok2 := v.Plan.IDs.HostGID(0)
	if ok1 && ok2 {
		if err := unix.Fchownat(int(dir.Fd()), name, int(uid), int(gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	m.Source = filepath.Join(at, name)
	m.Options = lists.Union(m.Options, "noexec")
	if !writable {
		m.Options = lists.Union(m.Options, "ro")
	}
	return nil
}

// writableDir is the tmpfs, below the layer's directory, of the copies that the jail may write to.
// It has a size of its own: a full one leaves other mounts their room.
const writableDir = "writable"

// The bounds of these copies, unless policy's are lower.
const (
	copiesSize  = 4 * maxCopy
	copiesFiles = 16
)

// openCopies mounts the file system of the copies that the jail may write to, the first time.
func (v *syntheticMaker) openCopies() (err error) {
	if v.copies != nil {
		return nil
	}
	at := filepath.Join(filepath.Dir(v.at), writableDir)
	if err := unix.Mkdir(at, 0o755); err != nil {
		return &os.PathError{Op: "mkdir", Path: at, Err: err}
	}
	opts := fmt.Sprintf("mode=0755,size=%d,nr_inodes=%d", min(copiesSize, int64(v.Plan.Tmpfs.Size)),
		min(copiesFiles, v.Plan.Tmpfs.Inodes))
	if err := v.mount("tmpfs", at, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, opts); err != nil {
		return err
	}
	v.copies, err = OpenDir(at)
	return err
}

// ownResolver reports whether a mount is of the resolver's file, which has the plan's text.
func (r *Request) ownResolver(m *specs.Mount) bool {
	return r.Plan.Resolver != "" && filepath.Clean(m.Destination) == plan.ResolverFile &&
		(m.Type == "bind" || slices.Contains(m.Options, "bind") || slices.Contains(m.Options, "rbind"))
}

// addResolver adds a mount for the resolver's file to a spec without one. copyFiles fills the
// file.
func (s *stager) addResolver() error {
	if s.Plan.Resolver == "" || slices.ContainsFunc(s.Spec.Mounts, func(m specs.Mount) bool { return s.ownResolver(&m) }) {
		return nil
	}
	s.Spec.Mounts = append(s.Spec.Mounts, specs.Mount{
		Destination: plan.ResolverFile, Type: "bind", Source: plan.ResolverFile,
		Options: []string{"bind", "rprivate", "nosuid", "nodev", "noexec", "ro"},
	})
	return nil
}

// copyText returns the text of a copy: of a public file the judged text, of an engine's file its
// current text.
func (v *syntheticMaker) copyText(src *bindsource.Source) (string, error) {
	if src.IsPublic() {
		u := v.Spec.Process.User
		return src.TextFor(u.UID, u.GID, u.AdditionalGids), nil
	}
	return readSource(src)
}

// readSource reads the file that was opened and judged, even if its name leads elsewhere by now.
func readSource(src *bindsource.Source) (string, error) {
	f, err := openat.Reopen(int(src.File.Fd()), unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := atomicfile.ReadAll(f, maxCopy)
	return string(text), err
}

// UpdateCopies writes the current text of the engine's files into a jail's copies of them, before
// its program is started: Docker 28 and later write hosts when the jail is made.
func UpdateCopies(pid int, copies []state.Copy) error {
	if len(copies) == 0 {
		return nil
	}
	root, err := os.OpenFile(fmt.Sprintf("/proc/%d/root", pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, c := range copies {
		if err := updateCopy(root, c); err != nil {
			return fmt.Errorf("copying %s to %s: %w", c.Source, c.At, err)
		}
	}
	return nil
}

func updateCopy(root *os.File, c state.Copy) error {
	src, err := openat.Regular(unix.AT_FDCWD, c.Source, openat.NoLinks)
	if err != nil {
		return err
	}
	defer src.Close()
	text, err := atomicfile.ReadAll(src, maxCopy)
	if err != nil {
		return err
	}
	f, err := openat.File(int(root.Fd()), c.At, openat.InRoot, unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil {
		return err
	}
	if int64(fs.Type) != unix.TMPFS_MAGIC {
		return errors.New("the jail's file is no copy")
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.Write(text)
	return err
}

// nameItself makes sure that the jail finds an address for its own name, which
// programs look up (Java's InetAddress.getLocalHost), and by it the name with its domain, as
// Docker writes both. Docker 28 and later add them, with an address that no jail has, after the
// jail was made.
func nameItself(hosts, name, domain string) string {
	if name == "" {
		return hosts
	}
	for line := range strings.Lines(hosts) {
		line, _, _ = strings.Cut(line, "#")
		if f := strings.Fields(line); len(f) > 1 && slices.Contains(f[1:], name) {
			return hosts
		}
	}
	if hosts != "" && !strings.HasSuffix(hosts, "\n") {
		hosts += "\n"
	}
	if domain != "" {
		name += "." + domain
	}
	if short, _, ok := strings.Cut(name, "."); ok {
		name += " " + short
	}
	return hosts + "127.0.0.1\t" + name + "\n"
}
