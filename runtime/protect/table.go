// Package protect finds, in a directory that a jail may write to, the files that the host runs by
// itself: hooks, settings of git, start-up files of shells, settings of editors and agents. It
// plans the protection of each, and keeps a ledger of the placeholders made for that. Package
// rootfs makes the mounts.
package protect

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"agentjail.dev/runtime/kernel/pathname"
)

// Scope reports where a path of the table counts.
type Scope int

// The scopes.
const (
	// Repository is a path within a repository's git directory.
	Repository Scope = iota
	// Project is a path in a directory that is worked in.
	Project
	// Home is a path in a home directory.
	Home
)

// Absent is the handling of a path that is missing at the start.
type Absent int

// Handling of missing paths.
const (
	// Leave does nothing: the path acts only with the consent of a person, or an
	// entry of that name would disturb git or the program that reads it.
	Leave Absent = iota
	// EmptyDir is an empty directory, which git does not show, and in place of
	// which nothing else can be made.
	EmptyDir
	// EmptyFile is an empty file, in a git directory or where a directory would end the program
	// that reads it: git shows it unless it ignores the name.
	EmptyFile
)

// An Entry is a protected path.
type Entry struct {
	// Path is relative to a git directory (written ".git/...") or to the directory
	// that is worked in.
	Path  string
	Scope Scope
	// Absent is the handling of the path if it is missing.
	Absent Absent
	// Text is the content of the file in its place; "" is an empty file.
	Text string
	// Beside has it kept absent only where one of these is there, too, in the directory.
	Beside []string
	// Own is the directory of an agent's or tool's that it lies in: in a home, the path is kept
	// absent only where that is there.
	Own string
	// Copy reports that the jail gets a copy of its own of the file, to change.
	Copy bool
	// Why describes the program that runs it.
	Why string
}

// Table lists all protected paths: the union of the lists of sandbox-runtime (sandbox-utils.ts),
// code-on-incus (its wiki, 2026-09) and Codex (pull request 19852), and further paths from git's
// documentation (gitrepository-layout(5)). CVE-2026-25725 used an absent path.
var Table = []Entry{
	{Path: ".git/hooks", Scope: Repository, Absent: EmptyDir, Why: "git runs them (githooks(5))"},
	{
		Path: ".git/config", Scope: Repository, Absent: EmptyFile, Copy: true,
		Why: "names programs that git runs: core.fsmonitor, core.sshCommand, diff.external, filters (git-config(1))",
	},
	{
		Path: ".git/config.worktree", Scope: Repository, Absent: EmptyFile, Copy: true,
		Why: "as config, with extensions.worktreeConfig",
	},
	{
		Path: ".git/commondir", Scope: Repository, Absent: EmptyFile, Text: ".\n",
		Why: "leads git to another directory's config and hooks",
	},
	{Path: ".git/info/attributes", Scope: Repository, Absent: EmptyFile, Why: "picks the filters that git runs (gitattributes(5))"},

	{Path: ".git/rebase-merge", Scope: Repository, Why: "git rebase --continue runs the commands in it (git-rebase(1), exec)"},

	{Path: ".gitmodules", Scope: Project, Why: "lists the sources and the directories of submodules"},
	{Path: ".githooks", Scope: Project, Why: "hooks by a common setting of core.hooksPath"},
	{Path: ".hg/hgrc", Scope: Project, Absent: EmptyDir, Beside: []string{".hg"}, Why: "hooks and programs of Mercurial (hgrc(5))"},
	{Path: ".husky", Scope: Project, Absent: EmptyDir, Why: "hooks of husky"},
	{Path: ".pre-commit-config.yaml", Scope: Project, Why: "programs of pre-commit's hooks"},
	// lefthook reads the first of its own files that it finds, and the first of the local ones
	// over it; a directory in place of one ends it.
	{Path: "lefthook.yml", Scope: Project, Why: lefthook},
	{Path: "lefthook.yaml", Scope: Project, Why: lefthook},
	{Path: "lefthook.json", Scope: Project, Why: lefthook},
	{Path: "lefthook.toml", Scope: Project, Why: lefthook},
	{Path: ".lefthook.yml", Scope: Project, Why: lefthook},
	{Path: ".lefthook.yaml", Scope: Project, Why: lefthook},
	{Path: ".lefthook.json", Scope: Project, Why: lefthook},
	{Path: ".lefthook.toml", Scope: Project, Why: lefthook},
	{Path: "lefthook-local.yml", Scope: Project, Absent: EmptyFile, Beside: lefthooks, Why: lefthook},
	{Path: "lefthook-local.yaml", Scope: Project, Why: lefthook},
	{Path: "lefthook-local.json", Scope: Project, Why: lefthook},
	{Path: "lefthook-local.toml", Scope: Project, Why: lefthook},
	{Path: ".lefthook-local.yml", Scope: Project, Absent: EmptyFile, Beside: lefthooks, Why: lefthook},
	{Path: ".lefthook-local.yaml", Scope: Project, Why: lefthook},
	{Path: ".lefthook-local.json", Scope: Project, Why: lefthook},
	{Path: ".lefthook-local.toml", Scope: Project, Why: lefthook},
	{Path: ".lefthook", Scope: Project, Why: lefthook},
	{Path: ".lefthook-local", Scope: Project, Why: lefthook},
	{Path: ".agentjail.toml", Scope: Project, Why: "the project's own policy, which narrows the next jail's"},
	{Path: ".envrc", Scope: Project, Why: "direnv runs it on entry, once allowed"},
	{Path: ".vscode", Scope: Project, Absent: EmptyDir, Why: "tasks, interpreters and debuggers of the editor"},
	{Path: ".idea", Scope: Project, Absent: EmptyDir, Why: "run configurations and tools of the editor"},
	{Path: ".zed", Scope: Project, Absent: EmptyDir, Why: "language servers, context servers and tasks of the editor, which runs them in a trusted directory"},
	{Path: ".devcontainer", Scope: Project, Why: "commands that editors run on the host (initializeCommand)"},
	{Path: ".devcontainer.json", Scope: Project, Why: "commands that editors run on the host (initializeCommand)"},
	{Path: ".nvim.lua", Scope: Project, Why: "Neovim runs it where 'exrc' is set, once trusted"},
	{Path: ".nvimrc", Scope: Project, Why: "Neovim runs it where 'exrc' is set, once trusted"},
	{Path: ".exrc", Scope: Project, Why: "Vim runs it where 'exrc' is set"},
	{Path: ".vimrc", Scope: Project, Why: "Vim runs it where 'exrc' is set, and as a user's own"},
	{Path: ".dir-locals.el", Scope: Project, Why: "Emacs evaluates it, once allowed"},
	{Path: ".mcp.json", Scope: Project, Absent: EmptyDir, Why: "servers that agents start"},
	{Path: ".claude/settings.json", Scope: Project, Absent: EmptyDir, Why: "hooks and permissions of an agent (CVE-2026-25725)"},
	{Path: ".claude/settings.local.json", Scope: Project, Absent: EmptyDir, Why: "hooks and permissions of an agent"},
	{Path: ".claude/commands", Scope: Project, Absent: EmptyDir, Why: "commands of an agent"},
	{Path: ".claude/agents", Scope: Project, Absent: EmptyDir, Why: "agents with permissions of their own"},
	{Path: ".claude/hooks", Scope: Project, Absent: EmptyDir, Why: "hooks of an agent"},
	{Path: ".claude/skills", Scope: Project, Why: "programs that come with an agent's skills"},
	{Path: ".codex", Scope: Project, Absent: EmptyDir, Why: "settings and servers of an agent"},
	{Path: ".agents", Scope: Project, Absent: EmptyDir, Why: "settings and skills of agents"},
	{Path: ".cursor", Scope: Project, Absent: EmptyDir, Why: "servers and hooks of an editor"},
	{Path: ".gemini", Scope: Project, Absent: EmptyDir, Why: "settings, hooks and servers of an agent, which starts them"},
	{Path: ".qwen", Scope: Project, Absent: EmptyDir, Why: "settings, hooks and servers of an agent, which starts them"},
	{Path: ".opencode", Scope: Project, Absent: EmptyDir, Why: "plugins and settings of an agent, which loads them"},
	{Path: "opencode.json", Scope: Project, Why: "plugins and servers of an agent, which starts them"},
	{Path: "opencode.jsonc", Scope: Project, Why: "plugins and servers of an agent, which starts them"},
	{Path: ".opencode.json", Scope: Project, Why: "plugins and servers of an agent, which starts them"},
	{Path: ".kiro", Scope: Project, Absent: EmptyDir, Why: "servers and hooks of an editor"},
	{Path: ".windsurf", Scope: Project, Absent: EmptyDir, Why: "hooks and workflows of an editor"},
	{Path: ".continue", Scope: Project, Absent: EmptyDir, Why: "servers and settings of an agent in editors"},
	{Path: ".kilocode", Scope: Project, Absent: EmptyDir, Why: "servers of an agent in editors, which starts them"},
	{Path: ".roo", Scope: Project, Absent: EmptyDir, Why: "servers of an agent in editors, which starts them"},
	{Path: ".amazonq", Scope: Project, Why: "servers and agents of an assistant"},
	{Path: ".aider.conf.yml", Scope: Project, Why: "commands that an agent runs after each change (lint-cmd, test-cmd)"},
	{Path: ".coi", Scope: Project, Why: "settings of code-on-incus"},

	{Path: ".bashrc", Scope: Home, Absent: EmptyDir, Why: "shells run it (bash(1))"},
	{Path: ".bash_profile", Scope: Home, Absent: EmptyDir, Why: "login shells run it (bash(1))"},
	{Path: ".bash_login", Scope: Home, Absent: EmptyDir, Why: "login shells run it (bash(1))"},
	{Path: ".bash_aliases", Scope: Home, Absent: EmptyDir, Why: "Debian's .bashrc runs it"},
	{Path: ".bash_logout", Scope: Home, Absent: EmptyDir, Why: "login shells run it at their end (bash(1))"},
	{Path: ".profile", Scope: Home, Absent: EmptyDir, Why: "login shells run it (sh(1))"},
	{Path: ".zshenv", Scope: Home, Absent: EmptyDir, Why: "shells run it (zsh(1))"},
	{Path: ".zshrc", Scope: Home, Absent: EmptyDir, Why: "shells run it (zsh(1))"},
	{Path: ".zprofile", Scope: Home, Absent: EmptyDir, Why: "login shells run it (zsh(1))"},
	{Path: ".zlogin", Scope: Home, Absent: EmptyDir, Why: "login shells run it (zsh(1))"},
	{Path: ".config/fish", Scope: Home, Why: "shells run it (fish(1))"},
	{Path: ".config/git", Scope: Home, Why: "git's settings of a user (git-config(1))"},
	{Path: ".config/autostart", Scope: Home, Why: "desktops run it"},
	{Path: ".config/systemd", Scope: Home, Why: "units of a user"},
	{Path: ".gitconfig", Scope: Home, Absent: EmptyDir, Why: "git's settings of a user (git-config(1))"},
	{Path: ".ripgreprc", Scope: Home, Why: "can name a program that ripgrep runs (--pre)"},
	{Path: ".ssh", Scope: Home, Why: "keys, and programs that ssh runs (ProxyCommand)"},
	{Path: ".pam_environment", Scope: Home, Why: "environment of a user's sessions"},
	{Path: ".xprofile", Scope: Home, Why: "sessions run it"},
	{Path: ".xsessionrc", Scope: Home, Why: "sessions run it"},

	{Path: ".claude.json", Scope: Home, Why: "servers that an agent starts, and the directories that it trusts"},
	{Path: ".aider.model.settings.yml", Scope: Home, Why: "settings of an agent"},
	{Path: ".config/opencode", Scope: Home, Why: ofAgent},
	{Path: ".config/goose", Scope: Home, Why: ofAgent},
	{Path: ".config/crush", Scope: Home, Why: ofAgent},
	{Path: ".config/amp", Scope: Home, Why: ofAgent},
	{Path: ".config/agents", Scope: Home, Why: ofAgent},
	{Path: ".config/gemini", Scope: Home, Why: ofAgent},
	{Path: ".config/claude", Scope: Home, Why: ofAgent},
	{Path: ".config/codex", Scope: Home, Why: ofAgent},
	{Path: ".config/github-copilot", Scope: Home, Why: ofAgent},
	{Path: ".config/cursor", Scope: Home, Why: ofAgent},
	{Path: ".config/kilo", Scope: Home, Why: ofAgent},
	{Path: ".github/hooks", Scope: Project, Why: "hooks of an agent"},
	{Path: ".amp", Scope: Project, Why: ofAgent},
	{Path: ".pi", Scope: Project, Why: ofAgent},
	{Path: ".junie", Scope: Project, Why: ofAgent},
}

const ofAgent = "settings, servers and programs of an agent, which starts them"

// Entries returns all protected paths: the table's, and those of own directories.
func Entries() []*Entry { return allEntries() }

var allEntries = sync.OnceValue(func() (out []*Entry) {
	seen := map[string]bool{}
	for i := range Table {
		out = append(out, &Table[i])
		seen[Table[i].Path] = true
	}
	own := ownEntries()
	for i := range own {
		if !seen[own[i].Path] {
			out = append(out, &own[i])
		}
	}
	return out
})

const lefthook = "programs of lefthook's hooks"

// lefthooks are the configuration files of lefthook.
var lefthooks = []string{
	"lefthook.yml", "lefthook.yaml", "lefthook.json", "lefthook.toml", ".lefthook.yml", ".lefthook.yaml",
	".lefthook.json", ".lefthook.toml",
}

// homeMarks are files that identify a directory as a home directory.
var homeMarks = []string{".bashrc", ".bash_profile", ".profile", ".zshrc", ".zprofile"}

// rebuilt are directories that tools remove and recreate as a whole. Their content is neither
// searched nor protected: a mount there would hinder the tools, and packages contain editor
// settings that no program reads.
var rebuilt = []string{
	"node_modules", "bower_components", ".venv", "venv", "__pycache__", ".tox", ".nox", ".pnpm-store",
	"site-packages",
}

// tableNames are the paths that Options.Unprotect can name beside absolute ones: those
// of the table and the directories on the way to them.
func tableNames() []string {
	var out []string
	for _, e := range Entries() {
		for p := e.Path; p != "."; p = path.Dir(p) {
			out = append(out, Fold(p))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Fold returns the form in which names and paths are compared: some file systems ignore the case of
// letters, the form of composed ones, characters that are not shown (casefold in ext4(5)), or dots
// and blanks at the end of a name. A directory may be shared with one that does.
func Fold(name string) string {
	name = foldCase(name)
	if !slices.ContainsFunc([]string{"./", " /"}, func(end string) bool { return strings.Contains(name+"/", end) }) {
		return name
	}
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = cmp.Or(strings.TrimRight(p, ". "), p)
	}
	return strings.Join(parts, "/")
}

func foldCase(name string) string {
	if strings.IndexFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
		return strings.ToLower(name)
	}
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
			return -1
		}
		return r
	}, norm.NFD.String(cases.Fold().String(norm.NFD.String(name))))
}

// byName finds the entries of the table by the folded name of their first part.
var byName = sync.OnceValue(func() map[string][]*Entry {
	out := map[string][]*Entry{}
	for _, e := range Entries() {
		if e.Scope == Repository {
			continue
		}
		first, _, _ := strings.Cut(e.Path, "/")
		out[first] = append(out[first], e)
	}
	return out
})

// firsts are the first parts of the entries outside git directories, each once.
var firsts = sync.OnceValue(func() []string {
	var out []string
	for name := range byName() {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
})

// repositories are the entries within git directories, without ".git/".
var repositories = sync.OnceValue(func() []*Entry {
	var out []*Entry
	for i := range Table {
		if Table[i].Scope == Repository {
			out = append(out, &Table[i])
		}
	}
	return out
})

// inGit are the folded names of files that a search recognises in a git directory.
var inGit = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{"modules": true, "worktrees": true}
	for _, e := range repositories() {
		first, _, _ := strings.Cut(strings.TrimPrefix(e.Path, ".git/"), "/")
		out[first] = true
	}
	return out
})

// notables are the folded names by which a search recognises anything but a directory.
var notables = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{".git": true, "head": true, "objects": true, "refs": true, ignoreFile: true}
	for _, e := range Entries() {
		first, _, _ := strings.Cut(e.Path, "/")
		out[Fold(path.Base(e.Path))], out[first] = true, true
		for _, name := range e.Beside {
			out[name] = true
		}
	}
	for _, m := range homeMarks {
		out[m] = true
	}
	return out
})

// notableMax is longer than any of them.
const notableMax = 32

// notable reports whether a search has to look at a name. Of names that are not
// ASCII it reports it of each: folding them is not for a function that is called for
// every file.
func notable(name []byte) bool {
	name = bytes.TrimRight(name, ". ")
	var folded [notableMax]byte
	for i, c := range name {
		if c >= utf8.RuneSelf {
			return true
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if i < len(folded) {
			folded[i] = c
		}
	}
	return len(name) <= len(folded) && notables()[string(folded[:len(name)])]
}

// byLast finds the entries outside git directories by the last part of their names.
var byLast = sync.OnceValue(func() map[string][]*Entry {
	out := map[string][]*Entry{}
	for _, e := range Entries() {
		if e.Scope != Repository {
			last := Fold(path.Base(e.Path))
			out[last] = append(out[last], e)
		}
	}
	return out
})

// match finds the entry that protects a path by its last parts; nil for none.
func match(name string) *Entry {
	found := byLast()[Fold(path.Base(name))]
	if len(found) == 0 {
		return nil
	}
	folded := "/" + Fold(name)
	for _, e := range found {
		if strings.HasSuffix(folded, "/"+Fold(e.Path)) {
			return e
		}
	}
	return nil
}

// Within finds the entry that protects an absolute path of the host, or
// something that the path lies in, judging by names alone: a mount of such a
// path would otherwise be a way around. at is the part that the entry names; nil
// where none does. home is the user's home that the path lies in, "" for none: an agent's own
// directory there holds data, too (ownDirs).
func Within(p, home string, unprotect []string) (e *Entry, at string) {
	parts := strings.Split(strings.Trim(path.Clean(p), "/"), "/")
	for i := range parts {
		at = "/" + strings.Join(parts[:i+1], "/")
		if below, in := pathname.Rel(at, home); in && home != "" && hasData(below) {
			continue
		}
		if e = entryOf(at, parts[:i+1], unprotect); e != nil {
			return e, at
		}
	}
	return nil, ""
}

// entryOf finds the entry that protects a path of the host, which has the last of these parts; nil
// for none, or for one that policy leaves to jails.
func entryOf(at string, parts, unprotect []string) *Entry {
	e := match(at)
	if e == nil {
		e = matchRepository(parts)
	}
	if e == nil || unprotected(unprotect, e, at) {
		return nil
	}
	return e
}

// Inside finds the entry that protects a path below a directory of the host, or that the path lies
// in, judging by names alone. Directories that package managers make as a whole are not protected.
func Inside(dir, rel string, unprotect []string) *Entry {
	parts := strings.Split(rel, "/")
	at := dir
	for i, name := range parts {
		at += "/" + name
		if e := entryOf(at, parts[:i+1], unprotect); e != nil {
			return e
		}
		if slices.Contains(rebuilt, name) {
			return nil
		}
	}
	return nil
}

// InPackages reports whether a path lies in a directory that package managers make as a whole.
func InPackages(rel string) bool {
	return slices.ContainsFunc(strings.Split(path.Dir(rel), "/"), func(name string) bool {
		return slices.Contains(rebuilt, name)
	})
}

// matchRepository finds the entry of a path that goes through a ".git".
func matchRepository(parts []string) *Entry {
	i := slices.IndexFunc(parts, func(p string) bool { return Fold(p) == ".git" })
	if i < 0 {
		return nil
	}
	rest := Fold(strings.Join(parts[i:], "/"))
	for _, e := range repositories() {
		if e.Path == rest {
			return e
		}
	}
	return nil
}

// unprotected reports whether policy leaves an entry, or the path at on the host,
// to jails.
func unprotected(list []string, e *Entry, at string) bool {
	return slices.ContainsFunc(list, func(u string) bool {
		if path.IsAbs(u) {
			return pathname.Within(at, u)
		}
		u = Fold(u)
		return pathname.Within(Fold(e.Path), u)
	})
}

// CheckUnprotect refuses an entry that names no protected path: with a misspelt name, the
// intended path would stay protected.
func CheckUnprotect(list []string) error {
	names := tableNames()
	for _, u := range list {
		if path.IsAbs(u) && path.Clean(u) == u && u != "/" {
			continue
		}
		if !slices.Contains(names, Fold(u)) {
			return fmt.Errorf("%q is neither a clean absolute path nor a protected one, as .git/config", u)
		}
	}
	return nil
}

// CheckHide refuses patterns that are none for a single name, or that fit every
// name.
func CheckHide(list []string) error {
	for _, h := range list {
		if _, err := path.Match(h, "x"); err != nil || strings.Contains(h, "/") || strings.Trim(h, "*?") == "" {
			return fmt.Errorf("%q is no pattern for the names of some files, as *.pem (path.Match)", h)
		}
	}
	return nil
}

// IsHidden reports whether a name is to be covered.
func IsHidden(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(foldCase(p), foldCase(name))
		trimmed, _ := path.Match(foldCase(p), Fold(name))
		return ok || trimmed
	})
}
