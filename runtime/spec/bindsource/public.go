package bindsource

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/trusted"
	"agentjail.dev/runtime/spec/bindsource/accounts"
	"agentjail.dev/runtime/spec/bindsource/gitsettings"
)

// Public reports how a jail gets a part of the host's configuration that holds no
// secret.
type Public string

// The ways.
const (
	NotPublic Public = ""
	// PublicFile is a file of which the jail gets a copy.
	PublicFile Public = "file"
	// PublicDir is a directory that is mounted read-only, in which the jail has no owner's
	// rights.
	PublicDir Public = "directory"
	// PublicUsers and PublicGroups are passwd(5) and group(5): the jail gets a copy
	// without the host's other accounts.
	PublicUsers  Public = "users"
	PublicGroups Public = "groups"
	// PublicGit is git's configuration: the jail gets a copy without comments, if
	// nothing in it looks like a credential.
	PublicGit Public = "git settings"
)

// Copied reports whether the jail gets a copy.
func (p Public) Copied() bool { return p != NotPublic && p != PublicDir }

// A publicPlace is a file that may be copied, or a directory of such files.
type publicPlace struct {
	path string
	as   Public
	// private: the directory is its owner's alone, the file is not.
	private bool
}

// publicPlaces are commonly mounted parts of the host's configuration that do not identify the
// host. machine-id(5), also below /var/lib/dbus, and the host's name are not among them.
var publicPlaces = []publicPlace{
	{path: "/etc/localtime", as: PublicFile},         // localtime(5)
	{path: "/etc/timezone", as: PublicFile},          // Debian's name of the time zone
	{path: "/etc/locale.conf", as: PublicFile},       // locale.conf(5)
	{path: "/etc/default/locale", as: PublicFile},    // the same on Debian
	{path: "/etc/os-release", as: PublicFile},        // os-release(5)
	{path: "/etc/nsswitch.conf", as: PublicFile},     // nsswitch.conf(5)
	{path: "/etc/services", as: PublicFile},          // services(5)
	{path: "/etc/protocols", as: PublicFile},         // protocols(5)
	{path: "/etc/ssl/openssl.cnf", as: PublicFile},   // config(5ssl)
	{path: "/etc/ssl/cert.pem", as: PublicFile},      // Alpine's bundle
	{path: "/etc/ssl/ca-bundle.pem", as: PublicFile}, // SUSE's
	{path: "/etc/ca-certificates.conf", as: PublicFile},
	{path: "/etc/ssl/certs", as: PublicDir},       // Debian, Alpine, Arch
	{path: "/etc/ca-certificates", as: PublicDir}, // Arch
	{path: "/etc/pki/tls/certs", as: PublicDir},   // Fedora
	{path: "/etc/pki/tls/cert.pem", as: PublicFile},
	{path: "/etc/pki/ca-trust", as: PublicDir}, // update-ca-trust(8)
	{path: "/etc/passwd", as: PublicUsers},
	{path: "/etc/group", as: PublicGroups},
	{path: "/etc/gitconfig", as: PublicGit},                  // git-config(1), FILES
	{path: "/root/.gitconfig", as: PublicGit, private: true}, // the same
}

// publicEnds are where symbolic links on the way to a public place may lead, beside
// other public places and the parts of the system that may be read anyway.
var publicEnds = []string{"/var/lib/ca-certificates", "/etc/static", "/etc/zoneinfo"} // SUSE, NixOS

// maxPublic bounds a copied file, in bytes. Bundles of certificates have a quarter
// of that.
const maxPublic = 1 << 20

// publicPlaceOf finds the place that a path names, or lies in. The path counts as
// it was written, so that ".." after a link names none.
func publicPlaceOf(path string) *publicPlace {
	clean := filepath.Clean(path)
	if slices.Contains(pathname.Components(path), "..") {
		return nil
	}
	for i, p := range publicPlaces {
		if clean == p.path || p.as == PublicDir && pathname.Within(clean, p.path) {
			return &publicPlaces[i]
		}
	}
	return nil
}

// A trail records the steps of the way to a public place.
type trail struct {
	place *publicPlace
	why   error // why it may not be taken
}

// A rootTrail reports why not only root can have chosen a way.
type rootTrail struct{ why error }

// look judges one step.
func (t *rootTrail) look(fd int, at string, st *unix.Stat_t) {
	if t.why != nil {
		return
	}
	judged := *st
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		judged.Mode &^= 0o777 // a link's mode means nothing (symlink(7))
	}
	t.why = trusted.OwnerOf(fd, at, &judged)
}

// look judges one step of the way: only root may have chosen it. Otherwise any user who can write
// there could have a file of their choice copied into a jail.
func (t *trail) look(fd int, at string, st *unix.Stat_t) {
	if t.place == nil || t.why != nil {
		return
	}
	var r rootTrail
	r.look(fd, at, st)
	if t.why = r.why; t.why != nil || st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return
	}
	switch dir := st.Mode&unix.S_IFMT == unix.S_IFDIR; {
	case dir && st.Mode&0o001 == 0 && !t.place.private, !dir && st.Mode&0o004 == 0:
		t.why = fmt.Errorf("%s is not for everybody to read (mode %04o)", at, st.Mode&0o7777)
	}
}

// setPublic decides, after all other facts about the source are known, whether and how a jail may
// have it, and reads the text to be copied.
func (s *Source) setPublic(t *trail) {
	if t.place == nil {
		return
	}
	as := t.place.as
	switch {
	case t.why != nil:
	case !publicEnd(s.Path):
		t.why = fmt.Errorf("it is %s", s.Path)
	case s.HostPath && t.place.private:
		t.why = errors.New("a pod's author chose it")
	case s.Kind == Dir && as == PublicDir:
	case s.Kind == File && as == PublicDir:
		as = PublicFile
	case s.Kind != File:
		t.why = fmt.Errorf("it is a %s", s.Kind)
	}
	if t.why == nil && as.Copied() {
		s.Text, t.why = publicText(s.File, as)
	}
	if t.why != nil {
		s.Withheld = t.why.Error()
		return
	}
	s.Public = as
}

// publicEnd reports whether a public place may really be at a path.
func publicEnd(path string) bool {
	return publicPlaceOf(path) != nil || system(path) ||
		slices.ContainsFunc(publicEnds, func(end string) bool { return pathname.Within(path, end) })
}

// publicText reads and judges a file's text.
func publicText(file *os.File, as Public) (string, error) {
	f, err := openat.Reopen(int(file.Fd()), unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := atomicfile.ReadAll(f, maxPublic)
	text := string(b)
	switch {
	case err != nil:
		return "", err
	case strings.Contains(text, "PRIVATE KEY-----"):
		return "", errors.New("it holds a private key")
	case as == PublicGit:
		return gitsettings.Copy(text)
	}
	return text, nil
}

// IsPublic reports whether a jail may have the source read-only, in the way of Public.
func (f Fact) IsPublic() bool { return f.Public != NotPublic && f.Role == Plain }

// TextFor returns the text for a jail whose first process has these ids.
func (s *Source) TextFor(uid, gid uint32, groups []uint32) string {
	switch s.Public {
	case PublicUsers:
		return accounts.Users(s.Text, uid)
	case PublicGroups:
		return accounts.Groups(s.Text, append([]uint32{gid}, groups...))
	}
	return s.Text
}
