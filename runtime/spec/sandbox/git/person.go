package git

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/invoker"
	"agentjail.dev/runtime/refusal"
)

// A Person is the user whose name git puts into commits.
type Person struct {
	UID, GID uint32
	Home     string
}

// Caller is the invoker, or this process's user, whose home is then $HOME as for git itself.
func Caller(getenv func(string) string) (Person, error) {
	p := Person{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Home: getenv("HOME")}
	by, err := invoker.Of(getenv)
	if err != nil {
		return p, err
	}
	if by != nil {
		p.UID, p.GID, p.Home = by.UID, by.GID, ""
	}
	if u, err := user.LookupId(strconv.FormatUint(uint64(p.UID), 10)); err == nil && p.Home == "" {
		p.Home = u.HomeDir
	}
	return p, nil
}

// setting reads a setting of the person's own files, with included files; "" for none. It runs as
// that user, who can have links in them, and outside of any repository.
func (p Person) setting(git, key string) (string, error) {
	if p.Home == "" {
		return "", nil
	}
	return p.run(git, "", "config", "--global", "--includes", "--get", key)
}

// maxConfig bounds the settings of a repository that are read, in bytes.
const maxConfig = 1 << 20

// WorkTree reads core.worktree of a git directory, without the files that its settings include.
// No program of the repository runs: git parses a text.
func (p Person) WorkTree(git string) func(gitDir string) (string, error) {
	return func(gitDir string) (string, error) {
		text, err := atomicfile.Read(filepath.Join(gitDir, "config"), maxConfig)
		if err != nil {
			return "", err
		}
		return p.run(git, string(text), "config", "--file", "-", "--no-includes", "--get", "core.worktree")
	}
}

// notSet is git's exit status for a setting that is not there (git-config(1)).
const notSet = 1

func (p Person) run(git, input string, args ...string) (string, error) {
	cmd := exec.Command(git, args...)
	cmd.Dir, cmd.Stdin = "/", strings.NewReader(input)
	// GIT_DIR: git does not read a repository in /.
	cmd.Env = []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + p.Home, "GIT_DIR=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"LC_ALL=C",
	}
	if uid := os.Geteuid(); uid == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: p.UID, Gid: p.GID, Groups: []uint32{}}}
	}
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.ExitCode() == notSet {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimRight(out.String(), "\n"), nil
}

// Signature is the name and the mail address for a command's commits. It refuses a command that
// the person's own settings would sign, since the jail has no key: the person has to request an
// unsigned commit.
func (p Person) Signature(git string, c Call) (name, mail string, err error) {
	if name, err = p.setting(git, "user.name"); err != nil {
		return "", "", err
	}
	if mail, err = p.setting(git, "user.email"); err != nil {
		return "", "", err
	}
	key := c.signedBy()
	if key == "" || c.unsigned() {
		return name, mail, nil
	}
	sign, err := p.setting(git, key)
	if on, isBool := map[string]bool{"true": true, "yes": true, "on": true, "1": true}[strings.ToLower(sign)]; isBool && on {
		return "", "", refusal.New(refusal.Git, "your own settings have it signed (%s), and the jail has no key", key).
			WithRemedy("add --no-gpg-sign (git tag: --no-sign), and sign in a clone that is yours alone: `git clone --no-local DIR NEW`")
	}
	return name, mail, err
}
