package rootless

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/fork"
	"agentjail.dev/runtime/kernel/idmap"
)

// Enter executes this call again as root of a user namespace of its own, in which 0 is the calling
// user and the ids from 1 on are the user's subordinate ones, and of a mount namespace of that. The
// process stays the same. Enter returns only errors.
func Enter() error {
	ns, err := makeUsers()
	if err != nil {
		return err
	}
	defer ns.Close()
	return EnterIn(ns)
}

// makeUsers makes such a user namespace. newuidmap(1) and newgidmap(1) map its ids: they have the
// privilege to, and check /etc/subuid and /etc/subgid.
func makeUsers() (*os.File, error) {
	if err := forbidden("/proc"); err != nil {
		return nil, err
	}
	uids, gids, err := subordinate()
	if err != nil {
		return nil, err
	}
	mappers, err := find(mapperNames, mapperRemedy)
	if err != nil {
		return nil, err
	}
	return fork.UserNSBy(func(pid int) error {
		if err := mapBy(mappers[0], pid, os.Getuid(), uids); err != nil {
			return err
		}
		return mapBy(mappers[1], pid, os.Getgid(), gids)
	})
}

// mapperNames are the programs that map the ids of users and of groups.
var mapperNames = [2]string{"newuidmap", "newgidmap"}

const mapperRemedy = "sudo apt install uidmap, or on Fedora sudo dnf install shadow-utils"

// Less is what a sandbox without root has less than one of root's.
const Less = "no limit on memory and processors (control groups are not used); no review of workspaces; the machine's files can only be read"

// An Obstacle is a setting or a missing program that keeps ordinary users from sandboxes.
type Obstacle struct{ What, Remedy string }

// Error names the obstacle and its remedy, in one line.
func (o *Obstacle) Error() string { return o.What + " (remedy: " + o.Remedy + ")" }

// Possible returns how many users this machine has who can have a sandbox without root by their
// subordinate ids, and an error, an *Obstacle where there is a remedy, if something else keeps
// them from it.
func Possible(proc, etc string) (users int, err error) {
	names, err := namesIn(filepath.Join(etc, "subuid"))
	if err != nil {
		return 0, err
	}
	groups, err := namesIn(filepath.Join(etc, "subgid"))
	if err != nil {
		return 0, err
	}
	for name := range names {
		if groups[name] {
			users++
		}
	}
	if err := forbidden(proc); err != nil {
		return users, err
	}
	mappers, err := find(mapperNames, mapperRemedy)
	if err != nil {
		return users, err
	}
	for _, path := range mappers {
		if !privileged(path) {
			return users, &Obstacle{
				What:   path + " has no privilege to map ids",
				Remedy: "sudo apt install --reinstall uidmap, or sudo chmod u+s " + path,
			}
		}
	}
	return users, nil
}

// privileged reports whether a program has a privilege of its own: it is set-user-ID root, or has
// capabilities (capabilities(7)). In a user namespace the host's root shows as Overflow.
func privileged(path string) bool {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return false
	}
	n, err := unix.Getxattr(path, "security.capability", nil)
	root := st.Uid == 0 || Inside() && st.Uid == idmap.Overflow
	return root && st.Mode&unix.S_ISUID != 0 || err == nil && n > 0
}

// settings are those by which a machine keeps ordinary users from user namespaces, or from the
// privileges in them, with the value that does: user_namespaces(7), Debian's and Ubuntu's kernels.
var settings = []struct {
	file, value, remedy string
	// unconfined limits it to processes that no AppArmor profile confines.
	unconfined bool
}{
	{"sys/user/max_user_namespaces", "0", "sudo sysctl user.max_user_namespaces=15000", false},
	{"sys/kernel/unprivileged_userns_clone", "0", "sudo sysctl kernel.unprivileged_userns_clone=1", false},
	{
		"sys/kernel/apparmor_restrict_unprivileged_userns", "1",
		"sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for agentjail with the rule userns", true,
	},
}

// forbidden returns an error where one of the settings keeps this process from a user namespace.
func forbidden(proc string) error {
	for _, s := range settings {
		path := filepath.Join(proc, s.file)
		if b, err := os.ReadFile(path); err != nil || strings.TrimSpace(string(b)) != s.value {
			continue
		}
		label, err := os.ReadFile(filepath.Join(proc, "self/attr/current"))
		if s.unconfined && (err != nil || strings.Trim(string(label), "\x00\n") != "unconfined") {
			continue
		}
		return &Obstacle{path + " is " + s.value + ": ordinary users have no user namespaces here", s.remedy}
	}
	return nil
}

// mapBy maps 0 to the user's own id, and the ids from 1 on to the subordinate ones.
func mapBy(program string, pid, own int, ranges []idRange) error {
	args := []string{strconv.Itoa(pid), "0", strconv.Itoa(own), "1"}
	at := uint32(1)
	for _, r := range ranges {
		args = append(args, fmt.Sprint(at), fmt.Sprint(r.First), fmt.Sprint(r.Count))
		at += r.Count
	}
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("mapping the subordinate ids: %s: %w: %.256q", program, err, out)
	}
	return nil
}

// programs are where programs of the system are that this package runs.
var programs = []string{"/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin"}

// find returns the paths of two of them. The remedy is for a machine that lacks one.
func find(names [2]string, remedy string) (paths [2]string, err error) {
	for i, name := range names {
		at := slices.IndexFunc(programs, func(dir string) bool { return unix.Access(filepath.Join(dir, name), unix.X_OK) == nil })
		if at < 0 {
			return paths, &Obstacle{name + " is not on this machine, in " + strings.Join(programs, ", "), remedy}
		}
		paths[i] = filepath.Join(programs[at], name)
	}
	return paths, nil
}

// EnterIn executes this call again in a user namespace that the calling user owns. A process with
// several threads, as each of Go's is, cannot enter one (setns(2)): nsenter(1) does, and unshare(1)
// makes the mount namespace.
func EnterIn(ns *os.File) error {
	paths, err := find([2]string{"nsenter", "unshare"}, "install util-linux")
	if err != nil {
		return err
	}
	self, err := thisProgram()
	if err != nil {
		return err
	}
	// The next program receives this file, and closes it with all others that it inherits.
	if _, err := unix.FcntlInt(ns.Fd(), unix.F_SETFD, 0); err != nil {
		return err
	}
	args := []string{
		"nsenter", "--user=/proc/self/fd/" + strconv.Itoa(int(ns.Fd())), "--preserve-credentials",
		paths[1], "--mount", "--propagation", "unchanged",
	}
	if err := syscall.Exec(paths[0], append(append(args, self), os.Args[1:]...), os.Environ()); err != nil {
		return fmt.Errorf("running %s: %w", paths[0], err)
	}
	return errors.New("unreachable")
}

// thisProgram returns the path of this program, with the name that it was called by where that
// leads to it.
func thisProgram() (string, error) {
	path, err := exec.LookPath(os.Args[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		path, err = os.Executable()
	}
	return path, err
}
