package rootfs

import (
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
)

// hostsFile has the addresses of names (hosts(5)).
const hostsFile = "/etc/hosts"

// ownName returns the text of a hosts file with the jail's own name. An address that the image or
// the user gave it stays.
func (r *Request) ownName(text string) string {
	if named := nameItself(text, namesOf(r.Spec.Hostname, plan.Domainname(r.Spec))); strings.HasPrefix(named, text) {
		return named
	}
	return text
}

// copyHosts has a hosts file that a user mounts be a copy where it lacks the jail's own name. It
// must be read-only, and readable by all: every user of the jail can read a copy.
func (s *stager) copyHosts() error {
	for i := range s.Plan.Binds {
		b := &s.Plan.Binds[i]
		if !b.ReadOnly || b.Copy || filepath.Clean(s.Spec.Mounts[b.Index].Destination) != hostsFile || b.Index >= len(s.Sources) {
			continue
		}
		src := s.Sources[b.Index]
		var st unix.Stat_t
		if src == nil || src.Role == bindsource.Injected && !src.Part || src.Kind != bindsource.File ||
			unix.Fstat(int(src.File.Fd()), &st) != nil || st.Mode&0o004 == 0 {
			continue
		}
		if text, err := readSource(src); err == nil {
			b.Copy = s.ownName(text) != text
			b.OwnName = b.Copy
		}
	}
	return nil
}

// addOwnName adds the jail's own name to the hosts file where the bundle mounts none: to that of
// the root, or where /etc is mounted read-only, by a copy over that of /etc.
func (s *stager) addOwnName() error {
	over := -1
	for i, m := range s.Spec.Mounts {
		if at := filepath.Clean(m.Destination); at != "/" && pathname.Within(hostsFile, at) {
			over = i
		}
	}
	if over < 0 {
		return s.nameInRoot()
	}
	b := s.bind(over)
	if b == nil || !b.ReadOnly || filepath.Clean(s.Spec.Mounts[over].Destination) != filepath.Dir(hostsFile) {
		return nil // the user's to change
	}
	_, text, err := readBundle(int(s.Sources[over].File.Fd()), filepath.Base(hostsFile), openat.Beneath)
	if named := s.ownName(text); err == nil && named != text {
		s.trusts = append(s.trusts, trust{path: hostsFile, text: named})
		s.addSynthetic(hostsFile)
	}
	return nil
}

// nameInRoot replaces the root's hosts file, in the ephemeral layer, by one of container root's. An
// image without /etc needs none.
func (s *stager) nameInRoot() error {
	root, err := OpenDir(s.root)
	if err != nil {
		return err
	}
	defer root.Close()
	_, text, _ := readBundle(int(root.Fd()), hostsFile, openat.InRoot)
	named := s.ownName(text)
	if named == text {
		return nil
	}
	dir := openBeneath(int(root.Fd()), "etc")
	if dir == nil {
		return nil
	}
	defer dir.Close()
	if err := hide(int(dir.Fd()), filepath.Base(hostsFile)); err != nil {
		return err
	}
	uid, _ := s.Plan.IDs.HostUID(0)
	gid, _ := s.Plan.IDs.HostGID(0)
	return addition{path: hostsFile[1:], text: named}.add(int(root.Fd()), int(uid), int(gid))
}
