package rootfs

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/spec/plan"
)

// maxBundle bounds a file of trusted certificates, in bytes: distributions' have some 200 KiB.
// The views' file system has room for all.
const maxBundle = 1 << 20

// A trust is a file to which the jail's own certificate authority, or its known ssh hosts, are
// added.
type trust struct{ path, text string }

// addTrust adds mounts to the spec for the files by which programs trust the jail's own
// certificate authority and its ssh server. copyTrust fills the files.
func (s *stager) addTrust() error {
	if s.Plan.Authority == "" && s.Plan.KnownHosts == "" {
		return nil
	}
	root, err := OpenDir(s.root)
	if err != nil {
		return err
	}
	defer root.Close()
	if s.Plan.Authority != "" {
		s.addAuthority(root)
	}
	if s.Plan.KnownHosts != "" {
		s.addKnownHosts(root)
	}
	for _, t := range s.trusts {
		s.Spec.Mounts = append(s.Spec.Mounts, specs.Mount{
			Destination: t.path, Type: "bind", Source: t.path, Options: []string{"bind", "rprivate", "nosuid", "nodev", "noexec", "ro"},
		})
	}
	return nil
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
	s.trusts = append(s.trusts, trust{at, text + "\n" + s.Plan.KnownHosts})
}

// addAuthority has the jail's programs trust its own certificate authority.
func (s *stager) addAuthority(root *os.File) {
	whole := ""
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
		s.trusts = append(s.trusts, trust{at, text + "\n" + s.Plan.Authority})
	}
	if whole == "" {
		whole = hostBundle()
	}
	s.trusts = append(s.trusts, trust{plan.BundleFile, whole + "\n" + s.Plan.Authority}, trust{plan.AuthorityFile, s.Plan.Authority})
}

// copyTrust writes the files that addTrust has mounted.
func (s *stager) copyTrust(dir *os.File) error {
	for n, t := range s.trusts {
		i := slices.IndexFunc(s.Spec.Mounts, func(m specs.Mount) bool { return m.Destination == t.path && m.Source == t.path })
		if i < 0 {
			return fmt.Errorf("the mount at %s is gone", t.path)
		}
		if err := s.writeFor(dir, "trust"+strconv.Itoa(n), t.text, &s.Spec.Mounts[i]); err != nil {
			return err
		}
	}
	return nil
}

// mounted reports whether the bundle mounts something at a path or above it.
func (s *stager) mounted(path string) bool {
	return slices.ContainsFunc(s.Spec.Mounts, func(m specs.Mount) bool {
		at := filepath.Clean(m.Destination)
		return at == path || at != "/" && strings.HasPrefix(path, at+"/")
	})
}

// bundle reads a file of the image's, links followed within it, and reports where it is.
func bundle(root *os.File, path string) (at, text string, err error) {
	fd, err := unix.Openat2(int(root.Fd()), path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return "", "", err
	}
	defer unix.Close(fd)
	own := fmt.Sprintf("/proc/self/fd/%d", fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", "", fmt.Errorf("%s is not a file", path)
	}
	if at, err = os.Readlink(own); err != nil {
		return "", "", err
	}
	at, inside := strings.CutPrefix(at, root.Name()+"/")
	if !inside {
		return "", "", fmt.Errorf("%s is not below the root", path)
	}
	text, err = readBundle(own)
	return "/" + at, text, err
}

// hostBundle returns the certificates that the host trusts, or "".
func hostBundle() string {
	for _, path := range plan.Bundles() {
		if text, err := readBundle(path); err == nil {
			return text
		}
	}
	return ""
}

func readBundle(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxBundle+1))
	if err == nil && len(text) > maxBundle {
		err = fmt.Errorf("%s has more than %d bytes", path, maxBundle)
	}
	return string(text), err
}
