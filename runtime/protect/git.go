package protect

import (
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// gitDir is a directory that git keeps a repository in.
type gitDir struct {
	rel  string
	work string // the directory that is worked in, "" where it is not known
	// linked says that it belongs to a further working directory (git-worktree(1))
	// and shares another one's hooks and config.
	linked bool
}

// isGitDir recognises a git directory by what git looks for (is_git_directory in
// its setup.c), whatever its name.
func isGitDir(list []dirent) bool {
	has := func(name string, types ...byte) bool {
		return slices.ContainsFunc(list, func(d dirent) bool { return d.name == name && slices.Contains(types, d.typ) })
	}
	return has("HEAD", unix.DT_REG, unix.DT_LNK) && has("objects", unix.DT_DIR, unix.DT_LNK) && has("refs", unix.DT_DIR, unix.DT_LNK)
}

// gitFile is what a ".git" is by itself, file or link: it leads git to the
// directory.
var gitFile = &Entry{Path: ".git", Why: "leads git to its directory, config and hooks (gitrepository-layout(5))"}

// setByConfig is what a repository's own config names.
var setByConfig = &Entry{Path: ".git/config", Why: "the repository's config names it (core.hooksPath, include.path)"}

// git looks at a ".git" in the directory work.
func (s *search) git(rel, work string, typ byte) error {
	switch typ {
	case unix.DT_DIR:
		return s.gitDir(gitDir{rel: rel, work: work})
	case unix.DT_LNK:
		s.keep(rel, typ, gitFile)
		return nil
	}
	s.keep(rel, typ, gitFile)
	text, _, err := s.read(rel, unix.PathMax+16)
	if err != nil {
		return nil //nolint:nilerr // no file that git would follow
	}
	to, ok := strings.CutPrefix(strings.TrimRight(text, "\r\n"), "gitdir: ")
	if !ok {
		return nil
	}
	if to = s.within(to, work); to != "" {
		return s.gitDir(gitDir{rel: to, work: work})
	}
	return nil
}

// within is a path that git reads in a file, absolute on the host or relative to
// a directory of the tree, as a path of the tree; "" where it is outside.
func (s *search) within(to, from string) string {
	if path.IsAbs(to) {
		below, ok := strings.CutPrefix(path.Clean(to), s.o.Source+"/")
		if !ok {
			return ""
		}
		return s.real(below)
	}
	return s.real(path.Join(from, to))
}

// gitDir protects what is there of a git directory.
func (s *search) gitDir(g gitDir) error {
	if s.gits[g.rel] || !s.o.Protect {
		return nil
	}
	list, err := s.names(g.rel)
	if err != nil {
		return err
	}
	has := func(name string) bool {
		return slices.ContainsFunc(list, func(d dirent) bool { return fold(d.name) == name })
	}
	if path.Base(g.rel) != ".git" && !has("head") {
		return nil // a path in a file that leads to something else
	}
	s.gits[g.rel] = true
	g.linked = g.linked || has("commondir") && !has("objects")
	s.gitDirs = append(s.gitDirs, g)
	for _, d := range list {
		for _, e := range repositories() {
			if ".git/"+fold(d.name) == e.Path {
				s.keep(path.Join(g.rel, d.name), d.typ, e)
			}
		}
		at := path.Join(g.rel, d.name)
		switch {
		case d.typ != unix.DT_DIR:
		case fold(d.name) == "info":
			s.attributes(at)
		case fold(d.name) == "modules":
			err = s.modules(at, 0)
		case fold(d.name) == "worktrees":
			err = s.worktrees(at)
		}
		if err != nil {
			return err
		}
	}
	s.named(g)
	return nil
}

// attributes protects a file of attributes that is there.
func (s *search) attributes(dir string) {
	at := path.Join(dir, "attributes")
	if st, err := s.stat(at); err == nil {
		for _, e := range repositories() {
			if e.Path == ".git/info/attributes" {
				s.keep(at, byte(st.Mode&unix.S_IFMT>>12), e)
			}
		}
	}
}

// maxModules bounds how deep submodules' names go ("lib/net/http").
const maxModules = 8

// modules looks for the git directories of submodules, whose names can have
// slashes in them.
func (s *search) modules(rel string, depth int) error {
	list, err := s.names(rel)
	if err != nil || depth > maxModules {
		return err
	}
	for _, d := range list {
		if d.typ != unix.DT_DIR {
			continue
		}
		at := path.Join(rel, d.name)
		if st, err := s.stat(path.Join(at, "HEAD")); err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
			if err := s.gitDir(gitDir{rel: at}); err != nil {
				return err
			}
			continue
		}
		if err := s.modules(at, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// worktrees looks at what git keeps for further working directories.
func (s *search) worktrees(rel string) error {
	list, err := s.names(rel)
	if err != nil {
		return err
	}
	for _, d := range list {
		if d.typ != unix.DT_DIR {
			continue
		}
		if err := s.gitDir(gitDir{rel: path.Join(rel, d.name), linked: true}); err != nil {
			return err
		}
	}
	return nil
}

// absentGit adds placeholders to a git directory.
func (s *search) absentGit(g gitDir) {
	for _, e := range repositories() {
		name := strings.TrimPrefix(e.Path, ".git/")
		if g.linked && name != "config.worktree" {
			continue // they are the other directory's
		}
		s.absent(path.Join(g.rel, name), e)
	}
}

// named protects files and directories of the tree that the repository's config
// names: git runs what is in core.hooksPath, and reads further settings.
func (s *search) named(g gitDir) {
	text, _, err := s.read(path.Join(g.rel, "config"), maxCopy)
	if err != nil {
		return
	}
	for _, n := range settings(text) {
		from := g.rel // include.path is relative to the file
		if n.ofWork {
			if from = g.work; from == "" {
				continue
			}
		}
		if to := s.within(n.path, from); to != "" {
			if st, err := s.stat(to); err == nil {
				s.keep(to, byte(st.Mode&unix.S_IFMT>>12), setByConfig)
			}
		}
	}
}

// A setting is a path that a config names.
type setting struct {
	path   string
	ofWork bool // relative to the directory that is worked in
}

// settings finds the paths in a config (git-config(1), Syntax). It takes too
// much rather than too little: what is named is only protected.
func settings(text string) []setting {
	var out []setting
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			head, rest, ok := strings.Cut(line[1:], "]")
			if !ok {
				continue
			}
			section, _, _ = strings.Cut(strings.ToLower(head), " ")
			line = strings.TrimSpace(rest)
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			continue
		}
		value = strings.Trim(strings.TrimSpace(value), `"`)
		switch key = strings.ToLower(strings.TrimSpace(key)); {
		case section == "core" && (key == "hookspath" || key == "fsmonitor" || key == "sshcommand"):
			out = append(out, setting{value, true})
		case (section == "include" || section == "includeif") && key == "path":
			out = append(out, setting{value, false})
		}
	}
	return out
}
