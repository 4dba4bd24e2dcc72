// Package git decides what `agentjail git` runs: the directories that a repository needs, whether
// a jail has what a git command needs, and the name under which a commit is made.
//
// A repository runs programs of its own choice with nearly every command (githooks(5),
// gitattributes(5), and the settings of git-config(1) that name programs), also those of a
// repository within it. So git itself runs in the jail.
package git

import (
	"slices"
	"strings"

	"agentjail.dev/runtime/refusal"
)

// A Call is a command line of git's, as far as it has to be understood.
type Call struct {
	Args []string // all, unchanged
	// Command is git's command, "" for none: `git --version`.
	Command string
	// Reads reports that the command changes nothing, so that the repository is mounted read-only.
	Reads bool
	// Own reports that it is one of git's own commands that this package knows. Others may be
	// aliases or programs.
	Own bool
}

// reading are commands that change nothing in a repository, whatever their arguments are.
var reading = []string{
	"annotate", "blame", "cat-file", "check-attr", "check-ignore", "check-mailmap", "check-ref-format", "cherry", "config",
	"count-objects",
	"describe", "diff", "diff-files", "diff-index", "diff-tree", "fmt-merge-msg", "for-each-ref", "get-tar-commit-id", "grep",
	"help", "log",
	"ls-files", "ls-tree", "merge-base", "name-rev", "patch-id", "range-diff", "remote", "rev-list", "rev-parse", "shortlog", "show",
	"show-branch", "show-ref", "status", "stripspace", "var", "verify-pack", "version", "whatchanged",
}

// writing are further commands of git's own.
var writing = []string{
	"add", "am", "apply", "archive", "bisect", "branch", "bundle", "checkout", "cherry-pick", "clean", "commit", "commit-tree",
	"fast-export",
	"fast-import", "format-patch", "fsck", "gc", "hash-object", "init", "maintenance", "merge", "merge-tree", "mergetool",
	"mktree", "mv",
	"notes", "prune", "read-tree", "rebase", "reflog", "repack", "replace", "rerere", "reset", "restore", "revert", "rm",
	"sparse-checkout", "stash", "submodule", "switch", "symbolic-ref", "tag", "update-index", "update-ref", "worktree", "write-tree",
}

// networked are commands that speak to another machine, or with the person's passwords.
var networked = []string{
	"clone", "credential", "credential-cache", "credential-store", "cvsexportcommit", "cvsimport", "cvsserver", "daemon", "fetch",
	"fetch-pack",
	"http-backend", "http-fetch", "http-push", "imap-send", "instaweb", "ls-remote", "p4", "pull", "push", "quiltimport",
	"remote-ext", "remote-fd",
	"remote-ftp", "remote-ftps", "remote-http", "remote-https", "request-pull", "send-email", "send-pack", "svn",
}

// signing are commands that take -S (--gpg-sign), with those of their short options that take a
// value.
var signing = map[string]string{
	"commit": "mFCct", "commit-tree": "mFp", "merge": "mFsX", "rebase": "CxXs", "cherry-pick": "mX", "revert": "mX", "am": "Cp",
	"pull": "sX", "push": "o",
}

const (
	clean = "from a repository that is yours alone: `git clone --no-local DIR NEW`, look at it, and do it in NEW"
	later = "leave the option away, and sign in a clone that is yours alone: `git clone --no-local DIR NEW`"
)

// Judge reads a command line and refuses commands that cannot work in a jail without a network
// and without the person's keys.
func Judge(args []string) (Call, error) {
	c := Call{Args: args}
	rest, err := global(args)
	if err != nil {
		return c, err
	}
	if len(rest) == 0 {
		c.Reads, c.Own = true, true
		return c, nil
	}
	c.Command, rest = rest[0], rest[1:]
	c.Reads = slices.Contains(reading, c.Command)
	c.Own = c.Reads || slices.Contains(writing, c.Command)
	if needsNetwork(c.Command, rest) {
		return c, refusal.New(refusal.Git, "git %s needs the network or your passwords, and the jail has neither", c.Command).WithRemedy(clean)
	}
	if signs(c.Command, rest) {
		return c, refusal.New(refusal.Git, "signing needs your keys, and the jail has none").WithRemedy(later)
	}
	return c, nil
}

// global reads git's own options, which stand before the command, and returns the rest.
func global(args []string) ([]string, error) {
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name, _, valued := strings.Cut(args[0], "=")
		n := 1
		switch name {
		case "--git-dir", "--work-tree":
			return nil, refusal.New(refusal.Git, "%s would name another repository than that of DIR",
				name).WithRemedy("agentjail git DIR, with the directory that is meant")
		case "-C":
			return nil, refusal.New(refusal.Git, "-C would leave DIR").WithRemedy("agentjail git DIR, with the directory that is meant")
		case "-c", "--namespace", "--config-env", "--attr-source", "--super-prefix":
			if n = 2; valued && name != "-c" {
				n = 1
			}
		}
		args = args[min(n, len(args)):]
	}
	return args, nil
}

// needsNetwork reports whether a command connects to another machine.
func needsNetwork(command string, args []string) bool {
	first := ""
	if i := slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") }); i >= 0 {
		first = args[i]
	}
	switch {
	case slices.Contains(networked, command):
		return true
	case command == "remote":
		return slices.Contains([]string{"update", "prune"}, first) || first == "show" && !slices.Contains(args, "-n") && len(args) > 1
	case command == "archive":
		return slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--remote") })
	case command == "lfs":
		return slices.Contains([]string{"clone", "fetch", "pull", "push", "lock", "unlock", "locks"}, first)
	}
	return false
}

// signs reports whether the arguments have a command sign. A missed case fails by itself: the
// jail has no key.
func signs(command string, args []string) bool {
	values, known := signing[command]
	sign, long := "S", []string{"gpg-sign"}
	if command == "tag" {
		known, values, sign, long = true, "mFn", "su", []string{"sign", "local-user"}
	}
	if !known {
		return false
	}
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		word := args[i]
		if name, is := strings.CutPrefix(word, "--"); is {
			name, _, valued := strings.Cut(name, "=")
			// git takes the beginning of a long option for it (gitcli(7)).
			if slices.ContainsFunc(long, func(l string) bool { return len(name) > 2 && strings.HasPrefix(l, name) }) {
				return true
			}
			if !valued && (name == "message" || name == "file") {
				i++
			}
			continue
		}
		if !strings.HasPrefix(word, "-") {
			continue
		}
		for j, letter := range word[1:] {
			if strings.ContainsRune(sign, letter) {
				return true
			}
			if strings.ContainsRune(values, letter) {
				if j == len(word)-2 {
					i++ // its value is the next word
				}
				break
			}
		}
	}
	return false
}

// unsigned reports whether the arguments turn off signing by a setting for a command that makes a
// commit or a tag.
func (c Call) unsigned() bool {
	return slices.Contains(c.Args, "--no-gpg-sign") || slices.Contains(c.Args, "--no-sign")
}

// signedBy is the person's setting that has the command sign; "" for none.
func (c Call) signedBy() string {
	switch {
	case c.Command == "tag":
		return "tag.gpgSign"
	case c.Command != "push" && signing[c.Command] != "":
		return "commit.gpgSign"
	}
	return ""
}

// Environment are the variables of git in the jail. safe.directory (git-config(1)) is needed
// since read-only mounts belong to users other than the jail's.
func (c Call) Environment(name, mail string) []string {
	env := []string{
		"GIT_PAGER=cat", "GIT_TERMINAL_PROMPT=0",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
	}
	if c.Reads {
		env = append(env, "GIT_OPTIONAL_LOCKS=0") // no index is written (git(1))
	}
	env = append(env, Identity(name, mail)...)
	slices.Sort(env)
	return env
}

// Identity are the variables of git with the person's name in commits, as far as it is known.
func Identity(name, mail string) (env []string) {
	for key, value := range map[string]string{"NAME": name, "EMAIL": mail} {
		if value != "" {
			env = append(env, "GIT_AUTHOR_"+key+"="+value, "GIT_COMMITTER_"+key+"="+value)
		}
	}
	return env
}
