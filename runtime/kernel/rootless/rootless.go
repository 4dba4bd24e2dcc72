// Package rootless is about engines that an ordinary user runs: they are root of
// a user namespace of their own, and so is agentjail when they call it
// (user_namespaces(7)).
package rootless

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/idmap"
)

// whole is the map of the machine's own user namespace.
const whole = "0 0 4294967295"

// Inside reports whether this process is in another user namespace than the machine's own. Without
// /proc it reports that it is not: every check of root's files then expects host root.
var Inside = sync.OnceValue(func() bool {
	b, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && strings.Join(strings.Fields(string(b)), " ") != whole
})

// Maps maps each id of this user namespace to itself, as a user namespace inside
// it can at most (user_namespaces(7): each range has to lie in one of the
// parent's).
func Maps() (uids, gids []specs.LinuxIDMapping, err error) {
	if uids, err = readMap("/proc/self/uid_map"); err == nil {
		gids, err = readMap("/proc/self/gid_map")
	}
	for _, ms := range [][]specs.LinuxIDMapping{uids, gids} {
		for i := range ms {
			ms[i].HostID = ms[i].ContainerID
		}
	}
	return uids, gids, err
}

// readMap reads a map of a user namespace, whose outside is the parent namespace.
func readMap(path string) ([]specs.LinuxIDMapping, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []specs.LinuxIDMapping
	for line := range strings.Lines(string(b)) {
		var m specs.LinuxIDMapping
		if _, err := fmt.Sscan(line, &m.ContainerID, &m.HostID, &m.Size); err != nil {
			return nil, fmt.Errorf("%s: line %q: %w", path, line, err)
		}
		out = append(out, m)
	}
	return out, nil
}

// Remedy reports how something on a path becomes root's alone. For a directory of another user it
// is not chown(1): a person's home, for example, would no longer be the person's.
func Remedy(sudo, command, path string, st *unix.Stat_t) string {
	if st.Mode&unix.S_IFMT == unix.S_IFDIR && strings.HasPrefix(command, "chown") {
		return "use a place that is root's all the way, such as /etc/agentjail: the directory would be taken from its owner"
	}
	return fmt.Sprintf("use a place that is root's all the way, such as /etc/agentjail, or run `%s%s %s`, after which only root can change it",
		sudo, command, path)
}

// Foreign refuses a file that someone of this user namespace could have written. The owner must
// have no id in it, as host root has none in a user's, and must be the only one who may write. An
// owner that shows as Overflow may still be an id of the namespace, 65534, which jails have, too:
// such a file could be opened with O_NOATIME, which needs its owner or CAP_FOWNER over that id
// (open(2)).
//
// An owner without an id cannot be identified. On a path from / it is root, or a user that root has
// put there.
func Foreign(path string, st *unix.Stat_t) error {
	switch {
	case st.Uid != idmap.Overflow:
		return fmt.Errorf("%s belongs to the user who runs the engine (uid %d of the user namespace), not to root: %s", path, st.Uid,
			Remedy("sudo ", "chown root", path, st))
	case st.Mode&0o022 != 0:
		return fmt.Errorf("%s can be written by others than root: %s", path, Remedy("sudo ", "chmod go-w", path, st))
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return nil // its directory decides: a link cannot be written
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOATIME|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	switch {
	case err == nil:
		unix.Close(fd)
		return fmt.Errorf("%s belongs to an id of the user who runs the engine, not to root: %s", path, Remedy("sudo ", "chown root", path, st))
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return nil
	}
	return &os.PathError{Op: "open", Path: path, Err: err}
}

// Variables are the environment variables by which a user's places are found.
var Variables = []string{"XDG_RUNTIME_DIR", "XDG_STATE_HOME", "HOME"}

// RuntimeDir is the user's directory for what lives until the next boot, where jails have their
// state: XDG_RUNTIME_DIR, or /run/user/UID, which pam_systemd(8) makes. Where there is neither, it
// is agentjail-UID in /tmp, which is made.
func RuntimeDir() (string, error) {
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		uid, err := outsideUID()
		if err != nil {
			return "", err
		}
		dir = fmt.Sprintf("/run/user/%d", uid)
		var st unix.Stat_t
		if unix.Lstat(dir, &st) != nil || Own(dir, &st) != nil {
			return made(fmt.Sprintf("/tmp/agentjail-%d", uid))
		}
	}
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("XDG_RUNTIME_DIR %q is not an absolute path", dir)
	}
	return owned(dir)
}

// made is owned for a directory that is made where there is none.
func made(dir string) (string, error) {
	if err := unix.Mkdir(dir, 0o700); err != nil && err != unix.EEXIST {
		return "", fmt.Errorf("the directory for the state of jails (remedy: set XDG_RUNTIME_DIR to a directory of your own): %w",
			&os.PathError{Op: "mkdir", Path: dir, Err: err})
	}
	return owned(dir)
}

// owned refuses a directory that is not this process's user's own.
func owned(dir string) (string, error) {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return "", fmt.Errorf("the directory for the state of jails (remedy: log in through PAM, or set XDG_RUNTIME_DIR to a directory of your own): %w", &os.PathError{Op: "stat", Path: dir, Err: err})
	}
	return dir, Own(dir, &st)
}

// Own refuses a directory that is not this process's own.
func Own(dir string, st *unix.Stat_t) error {
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("%s is not a directory", dir)
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to uid %d, not to you: set XDG_RUNTIME_DIR to a directory of your own", dir, st.Uid)
	case st.Mode&0o022 != 0:
		return fmt.Errorf("%s can be written by others: run `chmod go-w %s`", dir, dir)
	}
	return nil
}

// outsideUID is this process's user as the parent user namespace knows it.
func outsideUID() (uint32, error) { return outside("/proc/self/uid_map", uint32(os.Geteuid())) }

// OutsideUID returns a user's id as the parent user namespace knows it.
func OutsideUID(uid uint32) (uint32, error) {
	if !Inside() {
		return uid, nil
	}
	return outside("/proc/self/uid_map", uid)
}

// Outside returns this process's user and group as the parent user namespace knows them.
func Outside() (uid, gid uint32, err error) {
	if uid, err = outsideUID(); err == nil {
		gid, err = outside("/proc/self/gid_map", uint32(os.Getegid()))
	}
	return uid, gid, err
}

func outside(path string, id uint32) (uint32, error) {
	ms, err := readMap(path)
	if err != nil {
		return 0, err
	}
	out, ok := idmap.Map{UIDs: ms}.HostUID(id)
	if !ok {
		return 0, fmt.Errorf("%s does not hold id %d, this process's", path, id)
	}
	return out, nil
}
