package apparmor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Leave has the next program that the calling thread's child executes run as "unconfined", where a
// profile would only name it.
//
// Distributions give container runtimes a profile in the mode "unconfined", which confines nothing
// (Debian 13's /etc/apparmor.d/crun, and those of Podman, which processes that it starts keep).
// crun takes the name for confinement, and then puts the jail's profile on top of it ("stack",
// set_apparmor_profile in its utils.c) where it has to replace it. The result is
// "agentjail-default//&crun (mixed)", of which no process in the jail can report which half is
// enforced, and whose processes may not even signal each other.
//
// A profile that confines is never left: neither the thread's own nor that of the program, which
// goes by the program's name or path. The thread must not be used for anything else afterwards,
// since its setting stays.
func Leave(program string) error { return host.leave(program, "/proc/thread-self/attr") }

func (s system) leave(program, attr string) error {
	if !s.isEnabled() {
		return nil
	}
	// Linux 5.8 added a directory for each module.
	if own := filepath.Join(attr, "apparmor"); exists(own) {
		attr = own
	}
	label, err := os.ReadFile(filepath.Join(attr, "current"))
	if err != nil {
		return fmt.Errorf("read the AppArmor label: %w", err)
	}
	modes, err := s.modes(ownNames(program)...)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil // no securityfs: what the jail has then, its init step looks at
	}
	if err != nil {
		return err
	}
	if !nominal(strings.TrimRight(string(label), "\n\x00"), modes) {
		return nil
	}
	// One write, which the kernel takes for a whole order.
	f, err := os.OpenFile(filepath.Join(attr, "exec"), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("leave the AppArmor profile of %s: %w", program, err)
	}
	defer f.Close()
	if _, err := f.WriteString("exec unconfined"); err != nil {
		return fmt.Errorf("leave the AppArmor profile of %s: %w", program, err)
	}
	return nil
}

// ownNames returns the names that a profile of a program's own may have.
func ownNames(program string) []string { return []string{filepath.Base(program), program} }

// nominal reports whether a program whose profiles have these modes, started under this label, gets
// a name and no confinement.
func nominal(label string, modes []string) bool {
	for _, m := range modes {
		if m != "unconfined" {
			return false
		}
	}
	return label == "unconfined" && len(modes) > 0 || strings.HasSuffix(label, " (unconfined)")
}

// modes returns the modes of the loaded profiles with one of these names.
func (s system) modes(names ...string) ([]string, error) {
	b, err := os.ReadFile(filepath.Join(s.securityfs, "profiles"))
	if errors.Is(err, fs.ErrPermission) {
		return s.modesOneByOne(names...)
	}
	if err != nil {
		return nil, fmt.Errorf("read AppArmor profiles: %w", err)
	}
	var modes []string
	for text := range strings.SplitSeq(string(b), "\n") {
		if name, mode, ok := profileLine(text); ok && slices.Contains(names, name) {
			modes = append(modes, mode)
		}
	}
	return modes, nil
}

// modesOneByOne is modes for an ordinary user, to whom the kernel shows each profile and not the
// list (security/apparmor/apparmorfs.c).
func (s system) modesOneByOne(names ...string) ([]string, error) {
	dirs, err := s.directories(names...)
	var modes []string
	for _, dir := range dirs {
		mode, _, err := s.inspect(dir)
		if err != nil {
			return nil, fmt.Errorf("read the AppArmor profile %s: %w", dir, err)
		}
		modes = append(modes, mode)
	}
	return modes, err
}

// directoryName is what the kernel makes of a profile's name for its directory's (mangle_name in
// security/apparmor/apparmorfs.c).
func directoryName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '/':
			return '.'
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune("._-", r):
			return r
		case strings.ContainsRune(" \t\n\v\f\r", r):
			return '_'
		}
		return -1
	}, strings.TrimLeft(name, "/."))
}

// profileLine takes a line "name (mode)" of the kernel's list apart; names may hold spaces and
// parentheses.
func profileLine(line string) (name, mode string, ok bool) {
	i := strings.LastIndex(line, " (")
	if i < 0 {
		return "", "", false
	}
	return line[:i], strings.TrimSuffix(line[i+2:], ")"), true
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
