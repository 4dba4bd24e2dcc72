package rootless

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/fork"
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
	mappers := make([]string, 2)
	for i, name := range []string{"newuidmap", "newgidmap"} {
		if mappers[i], err = find(name); err != nil {
			return nil, fmt.Errorf("%w (remedy: sudo apt install uidmap, or on Fedora sudo dnf install shadow-utils)", err)
		}
	}
	return fork.UserNSBy(func(pid int) error {
		if err := mapBy(mappers[0], pid, os.Getuid(), uids); err != nil {
			return err
		}
		return mapBy(mappers[1], pid, os.Getgid(), gids)
	})
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
		return fmt.Errorf("%s is %s: ordinary users have no user namespaces here (remedy: %s)", path, s.value, s.remedy)
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

func find(name string) (string, error) {
	for _, dir := range programs {
		if path := filepath.Join(dir, name); unix.Access(path, unix.X_OK) == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not on this machine, in %s", name, strings.Join(programs, ", "))
}

// EnterIn executes this call again in a user namespace that the calling user owns. A process with
// several threads, as each of Go's is, cannot enter one (setns(2)): nsenter(1) does, and unshare(1)
// makes the mount namespace.
func EnterIn(ns *os.File) error {
	enter, err := find("nsenter")
	if err != nil {
		return fmt.Errorf("%w (remedy: install util-linux)", err)
	}
	unshare, err := find("unshare")
	if err != nil {
		return fmt.Errorf("%w (remedy: install util-linux)", err)
	}
	self, err := exec.LookPath(os.Args[0])
	if err == nil {
		self, err = filepath.Abs(self)
	}
	if err != nil {
		if self, err = os.Executable(); err != nil {
			return err
		}
	}
	// The next program receives this file, and closes it with all others that it inherits.
	if _, err := unix.FcntlInt(ns.Fd(), unix.F_SETFD, 0); err != nil {
		return err
	}
	args := []string{
		"nsenter", "--user=/proc/self/fd/" + strconv.Itoa(int(ns.Fd())), "--preserve-credentials",
		unshare, "--mount", "--propagation", "unchanged",
	}
	if err := syscall.Exec(enter, append(append(args, self), os.Args[1:]...), os.Environ()); err != nil {
		return fmt.Errorf("running %s: %w", enter, err)
	}
	return errors.New("unreachable")
}
