// Package rootless tries `agentjail sandbox` started by ordinary users. The users are of the tests' own: the account files and the
// users' directories are mounted in a mount namespace of the tests.
package rootless

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

var bin string

// A user is an ordinary one. Those with subordinate ids have 65536 from sub on.
type user struct {
	name string
	uid  int
	sub  int // 0 for none
}

var (
	low    = user{"jaillow", 64200, 1_400_000_000}
	other  = user{"jailother", 64201, 1_401_000_000}
	high   = user{"jailhigh", 100_000, 1_402_000_000}
	higher = user{"jailhigher", 2_000_000_000, 1_403_000_000}
	bare   = user{"jailbare", 64202, 0}
)

var users = []user{low, other, high, higher, bare}

func TestMain(m *testing.M) {
	engine.SuiteNeedsRoot("it makes users")
	engine.InOwnMounts()
	if err := furnish(); err != nil {
		fmt.Fprintln(os.Stderr, "rootless:", err)
		os.Exit(1)
	}
	code := engine.MainBare(m, "it makes users", &bin)
	os.RemoveAll(accounts)
	os.Exit(code)
}

// accounts is the directory of the tests' account files.
var accounts string

// furnish mounts the users' accounts and directories.
func furnish() (err error) {
	if err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if accounts, err = os.MkdirTemp("/var/tmp", "agentjail-rootless-"); err != nil {
		return err
	}
	lines := map[string]func(user) string{
		"passwd": func(u user) string {
			return fmt.Sprintf("%s:x:%d:%d::/home/%s:/bin/sh\n", u.name, u.uid, u.uid, u.name)
		},
		"group":  func(u user) string { return fmt.Sprintf("%s:x:%d:\n", u.name, u.uid) },
		"subuid": subordinate, "subgid": subordinate,
	}
	for name, line := range lines {
		text, err := os.ReadFile("/etc/" + name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		for _, u := range users {
			text = append(text, line(u)...)
		}
		path := filepath.Join(accounts, name)
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
		if err := unix.Mount(path, "/etc/"+name, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("/etc/%s: %w", name, err)
		}
	}
	for dir, mode := range map[string]os.FileMode{"/home": 0o755, "/run/user": 0o755} {
		if err := errors.Join(os.MkdirAll(dir, mode), unix.Mount("tests", dir, "tmpfs", 0, "mode=0755")); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		for _, u := range users {
			own := u.home()
			if dir == "/run/user" {
				own = u.runtimeDir()
			}
			if err := errors.Join(os.Mkdir(own, 0o700), os.Chown(own, u.uid, u.uid)); err != nil {
				return err
			}
		}
	}
	return nil
}

func subordinate(u user) string {
	if u.sub == 0 {
		return ""
	}
	return fmt.Sprintf("%s:%d:65536\n", u.name, u.sub)
}

func (u user) home() string       { return "/home/" + u.name }
func (u user) runtimeDir() string { return fmt.Sprintf("/run/user/%d", u.uid) }

// env is the user's environment; more count instead of its own of that name.
func (u user) env(more ...string) []string {
	return append([]string{
		"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin", "HOME=" + u.home(), "USER=" + u.name, "XDG_RUNTIME_DIR=" + u.runtimeDir(),
	}, more...)
}

// command is a program of the user's, started in the user's home.
func (u user) command(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Env = u.home(), u.env()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(u.uid), Gid: uint32(u.uid)}}
	return cmd
}

// agentjail runs agentjail as the user.
func (u user) agentjail(t testing.TB, args ...string) engine.Result {
	t.Helper()
	return engine.RunPrepared(t, u.command(bin, args...))
}

// sandbox runs `agentjail sandbox`, which has to end with status 0.
func (u user) sandbox(t testing.TB, args ...string) string {
	t.Helper()
	r := u.agentjail(t, append([]string{"sandbox"}, args...)...)
	r.Must(t)
	return r.Stdout
}

// workspace is a directory of the user's.
func (u user) workspace(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(u.home(), "ws")
	if err == nil {
		err = os.Chown(dir, u.uid, u.uid)
	}
	env.Check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// needs skips a test where the machine cannot have user namespaces of users.
func needs(t testing.TB) {
	t.Helper()
	for _, p := range []string{"newuidmap", "newgidmap"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skip("no sandbox without root (hack/deps.sh installs uidmap):", err)
		}
	}
	for _, path := range []string{"/proc/sys/kernel/unprivileged_userns_clone", "/proc/sys/user/max_user_namespaces"} {
		if text, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(text)) == "0" {
			t.Skip(path + " is 0: this machine lets no user make user namespaces")
		}
	}
}
