package protect

import (
	"bytes"
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/refusal"
)

// A hookText is a protected file whose text names programs that the host runs with it. Its name is
// the host's where it lies outside of the tree.
type hookText struct {
	rel string
	// tops are the directories that it is run in, for which absent scripts count, too.
	tops  []string
	form  form
	entry *Entry
}

// form is how a text names programs.
type form int

const (
	shell  form = iota // lines of a shell, or of a program like it
	keyed              // YAML or TOML: values of keys, and blocks of lines
	quoted             // JSON: values of keys
)

// hookFiles are the files of the table with hooks in them, and hookDirs the directories, by name.
var (
	hookFiles = map[string]form{
		".pre-commit-config.yaml": keyed, ".aider.conf.yml": keyed, "config.toml": keyed, ".envrc": shell,
		"settings.json": quoted, "settings.local.json": quoted, "hooks.json": quoted, ".mcp.json": quoted, "mcp.json": quoted,
	}
	hookDirs = []string{".husky", ".githooks", ".lefthook", ".lefthook-local", "hooks"}
)

// Bounds of the hooks of one mounted directory: their files, and the words of them that are looked
// up. maxHookDepth is how deep directories of hooks are looked through (pre-commit.d).
const (
	maxHookTexts = 10_000
	maxHookWords = 100_000
	maxHookDepth = 2
)

// hookTexts protects the scripts of the tree that hooks run, by the hooks' texts, as named does it
// by settings of git's. Scripts that such a script runs in turn are not looked for.
func (s *search) hookTexts() error {
	var all []hookText
	for _, g := range s.order {
		if !g.linked {
			r := reading{search: s, g: g}
			// Some hooks run in the git directory (githooks(5)).
			all = append(all, s.hooksIn(below(g.rel, "hooks"), append(slices.Clip(r.from(command, "")), g.rel), gitHooks, 0)...)
		}
	}
	for _, g := range s.abroad {
		r := reading{search: s, g: g}
		all = append(all, s.hooksIn(g.common+"/hooks", append(slices.Clip(r.from(command, "")), g.common), gitHooks, 0)...)
	}
	for _, d := range s.hookDirs {
		all = append(all, s.hooksIn(d.rel, d.tops, d.entry, 0)...)
	}
	for _, p := range slices.Clone(s.found.Paths) {
		if p.Treatment == ReadOnly && !p.Link && len(all) <= maxHookTexts {
			all = append(all, s.hooksOf(p)...)
		}
	}
	words := 0
	for i, h := range all {
		if i >= maxHookTexts || words > maxHookWords {
			return s.tooManyHooks(h)
		}
		n, err := s.hookText(h)
		if words += n; err != nil {
			return err
		}
	}
	return nil
}

// hooksOf lists the hooks of a protected path of the table.
func (s *search) hooksOf(p Path) (out []hookText) {
	e := match(s.onHost(p.Rel))
	if e == nil {
		return nil
	}
	name, dir := Fold(path.Base(p.Rel)), path.Dir(p.Rel)
	top := []string{dir}
	if strings.Contains(e.Path, "/") {
		top[0] = path.Dir(dir)
	}
	switch how, is := formOf(name); {
	case is && !p.Dir:
		out = append(out, hookText{p.Rel, top, how, e})
	case p.Dir && slices.Contains(hookDirs, name):
		out = s.hooksIn(p.Rel, top, e, 0)
	case p.Dir: // an agent's directory
		l := s.list(p.Rel, s.buf, maxHookTexts, func(name []byte, _ byte) bool {
			_, is := hookFiles[Fold(string(name))]
			return is || Fold(string(name)) == "hooks"
		})
		for _, d := range l.names {
			at := below(p.Rel, d.name)
			if how, is := hookFiles[Fold(d.name)]; is {
				out = append(out, hookText{at, top, how, e})
			} else {
				out = append(out, s.hooksIn(at, top, e, 1)...)
			}
		}
	}
	return out
}

// formOf returns the form of a file of the table; is reports that it has hooks.
func formOf(name string) (how form, is bool) {
	how, is = hookFiles[name]
	if slices.Contains(lefthooks, strings.Replace(name, "-local", "", 1)) {
		how, is = keyed, true
		if strings.HasSuffix(name, ".json") {
			how = quoted
		}
	}
	return how, is
}

var gitHooks = &Entry{Path: ".git/hooks"}

// A hookDir is a directory of hooks that a setting names.
type hookDir struct {
	rel   string // the host's name of one outside of the tree
	tops  []string
	entry *Entry
}

// hooksIn lists the hooks in a directory, and in those below it. Examples are none.
func (s *search) hooksIn(rel string, tops []string, e *Entry, depth int) (out []hookText) {
	how, at := s.how(), int(s.root.Fd())
	if path.IsAbs(rel) {
		how, at = openat.Real, unix.AT_FDCWD
	}
	fd, err := openat.Open(at, rel, how, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil // none, or none that this process may read
	}
	defer unix.Close(fd)
	for _, d := range list(fd, s.buf, maxHookTexts+1, func([]byte, byte) bool { return true }).names {
		at := below(rel, d.name)
		switch {
		case d.typ == unix.DT_DIR && depth < maxHookDepth:
			out = append(out, s.hooksIn(at, tops, e, depth+1)...)
		case d.typ != unix.DT_DIR && !strings.HasSuffix(d.name, ".sample"):
			how := shell
			if strings.HasSuffix(d.name, ".json") {
				how = quoted
			}
			out = append(out, hookText{at, tops, how, e})
		}
	}
	return out
}

// hookText protects the scripts that one text names. It returns how many words were looked up.
func (s *search) hookText(h hookText) (n int, err error) {
	if s.unprotected(h.entry, h.rel) {
		return 0, nil
	}
	t, err := s.follow(".", h.rel) // a hook may be a link
	if err != nil {
		return 0, err
	}
	text := ""
	switch {
	case t.outside != "":
		text, err = s.outsideText(&outsideFile{at: t.outside})
	case !t.there || t.typ != unix.DT_REG:
		return 0, nil
	default:
		text, _, err = s.read(t.end, maxCopy)
	}
	switch {
	case errors.Is(err, atomicfile.ErrTooLong) && t.outside == "" && s.isCompiled(t.end), strings.IndexByte(text, 0) >= 0:
		return 0, nil
	case errors.Is(err, atomicfile.ErrTooLong):
		return 0, s.tooManyHooks(h)
	case err != nil && !gone(err):
		return 0, err
	}
	e := &Entry{Path: h.entry.Path, Absent: EmptyDir, Why: "a hook runs it: " + s.onHost(h.rel)}
	r := reading{search: s}
	from := slices.Clone(h.tops)
	if !path.IsAbs(h.rel) {
		from = append(from, path.Dir(h.rel))
	}
	for _, w := range hookWords(text, h.form) {
		if slices.ContainsFunc(strings.Split(w.path, "/"), func(name string) bool { return slices.Contains(made, Fold(name)) }) {
			continue
		}
		for _, p := range s.expand(w.path) {
			for i, dir := range from {
				n++
				at := word{path: p, sure: w.sure, make: w.make && i < len(h.tops)}
				if err := r.holdNamed(dir, at, naming{what: command}, e); err != nil {
					return n, err
				}
			}
		}
	}
	return n, nil
}

// isCompiled reports whether a file begins as no text does.
func (s *search) isCompiled(rel string) bool {
	fd, err := s.open(rel, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var head [1024]byte
	n, err := unix.Read(fd, head[:])
	return err == nil && bytes.IndexByte(head[:max(n, 0)], 0) >= 0
}

// made are directories that tools fill: nothing there is kept for a hook.
var made = slices.Concat(rebuilt, []string{"vendor", "target", "build", "dist", "out", "_build"})

func (s *search) tooManyHooks(h hookText) error {
	at := s.onHost(h.rel)
	return refusal.New(refusal.BindSearch, "%s has more than %d bytes, or there are more than %d hooks, or %d words in them: "+
		"scripts that they run cannot be protected", at, maxCopy, maxHookTexts, maxHookWords).
		WithRemedy("shorten them, or policy: binds.unprotect = [%q]", at)
}

// Patterns of hooks' texts. A variable or a command's output before a slash stands for the top of
// the work tree, or the directory of the hook.
var (
	homeVariable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$(?:HOME|\{HOME\})"?/`) })
	variable     = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile("\"?(?:\\$\\([^()]*\\)|\\$\\{[^{}]*\\}|\\$\\w+|`[^`]*`)\"?/")
	})
	comment = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)(?:^|\s)#.*$`) })
	value   = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^\s*(?:-\s+)?["']?([\w.-]+)["']?\s*[:=](?:\s+|$)[|>]?[-+]?\s*(.*)$`)
	})
	member = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`"(\w+)"\s*:\s*("(?:[^"\\]|\\.)*"|\[[^][{}]*\])`)
	})
	changed = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?:\bcd|\bpushd|-C)\s+["']?([^\s"';&|$` + "`" + `]+)`)
	})
	unescaped = strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\n`, "\n", `\t`, " ")
)

// commandKeys are the keys of hooks' files whose values are commands, or a part of them.
var commandKeys = []string{"run", "entry", "command", "cmd", "bash", "script", "args", "lint-cmd", "test-cmd", "notify"}

// hookWords lists the words of a text that may be scripts of the tree.
func hookWords(text string, how form) (out []word) {
	switch how {
	case keyed:
		var lines []string
		for line := range strings.Lines(text) {
			if m := value().FindStringSubmatch(strings.TrimRight(line, "\n")); m == nil {
				lines = append(lines, strings.Trim(line, " \t\r\n-"))
			} else if slices.Contains(commandKeys, m[1]) {
				lines = append(lines, strings.Trim(m[2], `"'[]`))
			}
		}
		text = strings.Join(lines, "\n")
	case quoted:
		var b bytes.Buffer
		for _, m := range member().FindAllStringSubmatch(text, -1) {
			if !slices.Contains(commandKeys, m[1]) {
				continue
			}
			if m[1] != "args" { // they follow their command
				b.WriteByte('\n')
			}
			b.WriteString(unescaped.Replace(strings.Trim(m[2], `"[] `)) + " ")
		}
		text = b.String()
	}
	text = homeVariable().ReplaceAllString(comment().ReplaceAllString(text, ""), "~/")
	for range 3 { // one in another
		text = variable().ReplaceAllString(text, "./")
	}
	dirs := []string{""}
	for _, m := range changed().FindAllStringSubmatch(text, 8) {
		dirs = append(dirs, m[1])
	}
	seen := map[word]bool{}
	for line := range strings.Lines(text) {
		for _, w := range commandWords(line) {
			ext := path.Ext(w.path)
			script := slices.Contains(scripts, ext)
			switch {
			case len(w.path) >= unix.PathMax || strings.ContainsAny(w.path, "*?[") || strings.HasPrefix(w.path, "-"):
				continue
			case !w.make: // an argument: it is run if it is a program
				w.sure = false
			case ext != "" && !script && !w.runs: // a file that a program reads
				w.sure, w.make = false, false
			}
			if !strings.Contains(w.path, "/") && !(w.runs && script) {
				continue // found by PATH
			}
			for _, dir := range dirs {
				at := w
				if dir != "" && !path.IsAbs(w.path) && w.path[0] != '~' {
					at.path = dir + "/" + w.path
				}
				if !seen[at] {
					seen[at] = true
					out = append(out, at)
				}
			}
		}
	}
	return out
}
