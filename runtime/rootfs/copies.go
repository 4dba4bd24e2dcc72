package rootfs

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/rootfs/procfiles"
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
		names := ""
		if b.OwnName {
			names = namesOf(v.Spec.Hostname, plan.Domainname(v.Spec))
			text = nameItself(text, names)
		}
		if b.Current {
			v.current = append(v.current, state.Copy{Source: b.Source, At: v.places[b.Index], Sum: hashText(text), Names: names})
		}
		if err := v.writeFor("file"+strconv.Itoa(b.Index), text, m, !b.ReadOnly || b.Current); err != nil {
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

// writeFor writes a file of container root's, and has a bind mount show it. writable reports that
// the jail, or its start, may write to it.
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

// writableDir is the tmpfs, below the layer's directory, of the copies that the jail, or its start,
// may write to.
// It has a size of its own: a full one leaves other mounts their room.
const writableDir = "writable"

// The bounds of these copies, unless policy's are lower.
const (
	copiesSize  = 4 * maxCopy
	copiesFiles = 16
)

// openCopies mounts that file system, the first time.
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
	s.addSynthetic(plan.ResolverFile)
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

// StaleCopies returns the files of a jail, with their text, that the engine has written since they
// were copied. Podman 5 writes hosts and resolv.conf after the runtime's create, and Docker 28 and
// later hosts; so does a hook of nerdctl's.
func StaleCopies(copies []state.Copy) (stale []procfiles.File, err error) {
	for _, c := range copies {
		text, err := readCurrent(c)
		if err != nil {
			return nil, fmt.Errorf("copying %s to %s: %w", c.Source, c.At, err)
		}
		if hashText(text) != c.Sum {
			stale = append(stale, procfiles.File{Path: c.At, Text: text})
		}
	}
	return stale, nil
}

// readCurrent returns the text that a copy is to have.
func readCurrent(c state.Copy) (string, error) {
	f, err := openat.Regular(unix.AT_FDCWD, c.Source, openat.NoLinks)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := atomicfile.ReadAll(f, maxCopy)
	return nameItself(string(text), c.Names), err
}

// hashText returns what identifies a text.
func hashText(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// namesOf are a jail's own names as hosts(5) lists them, as Docker does: the name with its domain,
// then without.
func namesOf(name, domain string) string {
	if name != "" && domain != "" {
		name += "." + domain
	}
	if short, _, ok := strings.Cut(name, "."); ok {
		name += " " + short
	}
	return name
}

// nameItself makes sure that the jail finds its own names, which programs look up (Java's
// InetAddress.getLocalHost), at an address of lo. Engines write the address of an interface, which
// such a jail lacks.
func nameItself(hosts, names string) string {
	if names == "" {
		return hosts
	}
	var out strings.Builder
	found := false
	for line := range strings.Lines(hosts) {
		text, _, _ := strings.Cut(line, "#")
		f := strings.Fields(text)
		if len(f) > 1 && slices.ContainsFunc(strings.Fields(names), func(own string) bool { return slices.Contains(f[1:], own) }) {
			found = true
			if at, err := netip.ParseAddr(f[0]); err == nil && !at.IsLoopback() {
				f[0] = loopback
				if at.Is6() {
					f[0] = netip.IPv6Loopback().String()
				}
				line = strings.Join(f, "\t") + "\n"
			}
		}
		out.WriteString(line)
	}
	if !found {
		if out.Len() > 0 && !strings.HasSuffix(hosts, "\n") {
			out.WriteByte('\n')
		}
		out.WriteString(loopback + "\t" + names + "\n")
	}
	return out.String()
}

// loopback is the address of lo.
const loopback = "127.0.0.1"
