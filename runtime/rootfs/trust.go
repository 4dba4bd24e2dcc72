package rootfs

import (
	"cmp"
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
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/spec/plan"
)

// maxBundle bounds a file of trusted certificates, in bytes: distributions' have some 200 KiB.
// The synthetic files' file system has room for all.
const maxBundle = 1 << 20

// A trust is a file to which the jail's own certificate authority, its known ssh hosts or its own
// name are added.
type trust struct {
	path, text string
	link       string // the path is a link to this one where the jail's layer can have it
}

// anchors are places from which the tools of distributions rebuild the file of trusted
// certificates: update-ca-certificates of Debian and Alpine, update-ca-trust of Red Hat, that of
// SUSE, that of Arch. In a file that a jail rebuilds, its own authority stays.
var anchors = []string{
	"/usr/local/share/ca-certificates/agentjail.crt", "/etc/pki/ca-trust/source/anchors/agentjail.pem",
	"/etc/pki/trust/anchors/agentjail.pem", "/etc/ca-certificates/trust-source/anchors/agentjail.pem",
}

// addTrust puts the files by which programs trust the jail's own certificate authority and its ssh
// server into the ephemeral layer, where tools replace them as they do elsewhere. Those that cannot
// be there are mounted: copyTrust fills them.
func (s *stager) addTrust() error {
	if s.Plan.Authority == "" && s.Plan.KnownHosts == "" {
		return nil
	}
	root, err := OpenDir(s.root)
	if err != nil {
		return err
	}
	defer root.Close()
	defer unix.Umask(unix.Umask(0))
	if s.Plan.Authority != "" {
		s.addAuthority(root)
	}
	if s.Plan.KnownHosts != "" {
		s.addKnownHosts(root)
	}
	s.trusts = slices.DeleteFunc(s.trusts, func(t trust) bool { return s.putTrust(int(root.Fd()), t) == nil })
	for _, t := range s.trusts {
		s.addSynthetic(t.path)
	}
	return nil
}

// errElsewhere reports a file that is not in the jail's layer.
var errElsewhere = errors.New("it does not lie in the jail's layer")

// putTrust makes a file in the ephemeral layer, with its directory. It has owner and mode of the
// image's file that it replaces, or is container root's.
func (s *stager) putTrust(root int, t trust) (err error) {
	uid, ok1 := s.Plan.IDs.HostUID(0)
	gid, ok2 := s.Plan.IDs.HostGID(0)
	if s.Plan.KeepHostOwners || !ok1 || !ok2 || s.mounted(t.path) {
		return errElsewhere
	}
	above, last := filepath.Split(filepath.Dir(t.path))
	if up := openBeneath(root, "."+above); up != nil {
		if err = mkdir(up, last, 0o755); err == nil {
			err = unix.Fchownat(int(up.Fd()), last, int(uid), int(gid), unix.AT_SYMLINK_NOFOLLOW)
		}
		up.Close()
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
	dir := openBeneath(root, "."+filepath.Dir(t.path))
	if dir == nil {
		return errElsewhere
	}
	defer dir.Close()
	fd, name := int(dir.Fd()), filepath.Base(t.path)
	st := unix.Stat_t{Mode: unix.S_IFREG | 0o644, Uid: uid, Gid: gid}
	if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		return errElsewhere
	}
	made := atomicfile.Unique(name + ".")
	if t.link != "" {
		err = unix.Symlinkat(t.link, fd, made)
	} else {
		err = write(dir, made, t.text, st.Mode&0o777)
	}
	if err == nil {
		err = unix.Fchownat(fd, made, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW)
	}
	if err == nil {
		err = unix.Renameat(fd, made, fd, name)
	}
	if err != nil {
		_ = unix.Unlinkat(fd, made, 0)
	}
	return err
}

// addKnownHosts has the jail's ssh know the helper.
func (s *stager) addKnownHosts(root *os.File) {
	if s.mounted(plan.KnownHostsFile) {
		s.notes = append(s.notes, plan.KnownHostsFile+" stays as it is mounted: programs do not know the key of the jail's own server of ssh")
		return
	}
	at, text, err := bundle(root, plan.KnownHostsFile)
	if err != nil {
		at, text = plan.KnownHostsFile, "" // there is none
	}
	s.trusts = append(s.trusts, trust{path: at, text: appendOwn(text, s.Plan.KnownHosts)})
}

// addAuthority has the jail's programs trust its own certificate authority.
func (s *stager) addAuthority(root *os.File) {
	whole, first := "", ""
	for _, path := range plan.Bundles() {
		at, text, err := bundle(root, path)
		if err != nil || slices.ContainsFunc(s.trusts, func(t trust) bool { return t.path == at }) {
			continue // there is none
		}
		if whole == "" {
			whole = text
		}
		if s.mounted(at) || s.mounted(path) {
			s.notes = append(s.notes, path+" stays as it is mounted: the jail's own certificate authority is in "+plan.BundleFile+" alone")
			continue
		}
		first = cmp.Or(first, at)
		s.trusts = append(s.trusts, trust{path: at, text: appendOwn(text, s.Plan.Authority)})
	}
	if whole == "" {
		whole = hostBundle()
	}
	s.trusts = append(s.trusts, trust{plan.BundleFile, appendOwn(whole, s.Plan.Authority), first},
		trust{path: plan.AuthorityFile, text: s.Plan.Authority})
	for _, at := range anchors {
		_ = s.putTrust(int(root.Fd()), trust{path: at, text: s.Plan.Authority}) // an image without that tool
	}
}

// appendOwn returns a text with what the jail's own adds to it.
func appendOwn(text, own string) string {
	if strings.Contains(text, own) {
		return text
	}
	return text + "\n" + own
}

// copyTrust writes the files that addTrust has mounted.
func (v *syntheticMaker) copyTrust() error {
	for n, t := range v.trusts {
		i := slices.IndexFunc(v.Spec.Mounts, func(m specs.Mount) bool { return m.Destination == t.path && m.Source == t.path })
		if i < 0 {
			return fmt.Errorf("the mount at %s is gone", t.path)
		}
		if err := v.writeFor("trust"+strconv.Itoa(n), t.text, &v.Spec.Mounts[i], false); err != nil {
			return err
		}
	}
	return nil
}

// mounted reports whether the bundle mounts something at a path or above it.
func (s *stager) mounted(path string) bool {
	return slices.ContainsFunc(s.Spec.Mounts, func(m specs.Mount) bool {
		at := filepath.Clean(m.Destination)
		return at != "/" && pathname.Within(path, at)
	})
}

// bundle reads a file of the image's, links followed within it, and reports where it is.
func bundle(root *os.File, path string) (at, text string, err error) {
	at, text, err = readBundle(int(root.Fd()), path, openat.InRoot)
	if err != nil {
		return "", "", err
	}
	at, inside := pathname.Rel(at, root.Name())
	if !inside {
		return "", "", fmt.Errorf("%s is not below the root", path)
	}
	return "/" + at, text, nil
}

// hostBundle returns the certificates that the host trusts, or "".
func hostBundle() string {
	for _, path := range plan.Bundles() {
		if _, text, err := readBundle(unix.AT_FDCWD, path, openat.Real); err == nil {
			return text
		}
	}
	return ""
}

func readBundle(dir int, path string, how openat.How) (at, text string, err error) {
	f, err := openat.Regular(dir, path, how)
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	if at, err = openat.Name(int(f.Fd())); err != nil {
		return "", "", err
	}
	data, err := atomicfile.ReadAll(f, maxBundle)
	return at, string(data), err
}
