package rootfs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

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
