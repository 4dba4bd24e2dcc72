package agents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/openat"
)

// A Program is an agent's program on this machine.
type Program struct {
	Path    string // without links
	Version string // of its package; "" if it has none
	// Needs are the files and directories that it needs, itself among them, and Dirs the
	// directories of programs that it finds by PATH.
	Needs []string
	Dirs  []string
}

// errNoProgram is wrapped where no directory has the program.
var errNoProgram = errors.New("there is no such program")

// Bounds of a package's description, of the first line of a script, and of a package's
// dependencies.
const (
	maxPackage  = 1 << 20
	maxLine     = 256
	maxPackages = 64
)

// Find returns the program of that name in the first of dirs that has it. The files may be any
// user's: they are read, and not run.
func Find(name string, dirs []string) (Program, error) {
	path, err := lookUp(name, dirs)
	if err != nil {
		return Program{}, err
	}
	p := Program{Path: path}
	p.addPackage(path)
	interpreter, err := interpreterOf(path)
	if err != nil {
		return p, err
	}
	if interpreter == "" {
		return p, nil
	}
	at, err := lookUp(interpreter, append([]string{filepath.Dir(path)}, dirs...))
	if err != nil {
		return p, fmt.Errorf("%s is a script of %s: %w", path, interpreter, err)
	}
	p.Needs = append(p.Needs, at)
	p.Dirs = append(p.Dirs, filepath.Dir(at))
	return p, nil
}

// lookUp returns the path of an executable file without links.
func lookUp(name string, dirs []string) (string, error) {
	tries := []string{name}
	if !filepath.IsAbs(name) {
		tries = nil
		for _, d := range dirs {
			tries = append(tries, filepath.Join(d, name))
		}
	}
	for _, t := range tries {
		path, err := filepath.EvalSymlinks(t)
		if err != nil {
			continue
		}
		if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, errNoProgram)
}

// interpreterOf returns the program that executes a script: the argument of env(1), or a path; ""
// for a file that is no script.
func interpreterOf(path string) (string, error) {
	head, err := openat.Head(path, maxLine)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	line, _, _ := bytes.Cut(head, []byte("\n"))
	text, ok := bytes.CutPrefix(line, []byte("#!"))
	words := strings.Fields(string(text))
	switch {
	case !ok || len(words) == 0:
		return "", nil
	case filepath.Base(words[0]) != "env":
		return words[0], nil
	}
	for _, w := range words[1:] {
		if !strings.HasPrefix(w, "-") && !strings.Contains(w, "=") {
			return w, nil
		}
	}
	return "", nil
}

// A manifest is what is read of a package.json.
type manifest struct {
	Name                 string
	Version              string
	Dependencies         map[string]string
	OptionalDependencies map[string]string
}

// addPackage adds the package of npm's that a file belongs to, with those that it depends on; for
// a file of none, the file.
func (p *Program) addPackage(path string) {
	dir := path
	for filepath.Base(filepath.Dir(dir)) != "node_modules" && filepath.Base(filepath.Dir(filepath.Dir(dir))) != "node_modules" {
		if dir = filepath.Dir(dir); dir == "/" || dir == "." {
			p.Needs = append(p.Needs, path)
			return
		}
	}
	// The outermost directory below node_modules is a package, or a scope of packages.
	for _, at := range []string{dir, filepath.Dir(dir)} {
		if m, err := readManifest(at); err == nil && m.Version != "" {
			p.Version = m.Version
			p.addTree(at)
			return
		}
	}
	p.Needs = append(p.Needs, path)
}

// addTree adds a package's directory, and those of packages beside it that it depends on.
func (p *Program) addTree(dir string) {
	todo := []string{dir}
	for len(todo) > 0 && len(p.Needs) < maxPackages {
		at := todo[0]
		todo = todo[1:]
		if slices.Contains(p.Needs, at) {
			continue
		}
		p.Needs = append(p.Needs, at)
		m, err := readManifest(at)
		if err != nil {
			continue
		}
		modules := at[:strings.LastIndex(at, "/node_modules/")+len("/node_modules")]
		for _, name := range slices.Concat(slices.Sorted(maps.Keys(m.Dependencies)), slices.Sorted(maps.Keys(m.OptionalDependencies))) {
			beside := filepath.Join(modules, name)
			if !filepath.IsLocal(name) {
				continue
			}
			if fi, err := os.Lstat(beside); err == nil && fi.IsDir() {
				todo = append(todo, beside)
			}
		}
	}
}

func readManifest(dir string) (m manifest, err error) {
	text, err := atomicfile.Read(filepath.Join(dir, "package.json"), maxPackage)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	return m, err
}

// version parses the first version in a text, such as "codex-cli 0.169.0".
func version(text string) ([3]int, error) {
	var v [3]int
	for word := range strings.FieldsSeq(text) {
		word, _, _ = strings.Cut(strings.TrimPrefix(word, "v"), "-")
		parts := strings.Split(word, ".")
		if len(parts) != len(v) {
			continue
		}
		ok := true
		for i, p := range parts {
			n, err := strconv.Atoi(p)
			v[i], ok = n, ok && err == nil && n >= 0
		}
		if ok {
			return v, nil
		}
	}
	return v, fmt.Errorf("%q has no version of three numbers", text)
}

// CheckVersion returns the version in a text, or an error for one that is lower than the preset's
// minimum. Without a minimum any text is right.
func (a *Agent) CheckVersion(text string) (string, error) {
	v, err := version(text)
	if err != nil && a.Minimum == "" {
		return text, nil
	}
	if err != nil {
		return "", err
	}
	has := fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2])
	if a.Minimum == "" {
		return has, nil
	}
	least, err := version(a.Minimum)
	if err == nil && slices.Compare(v[:], least[:]) < 0 {
		err = fmt.Errorf("%s, and the preset needs %s (remedy: %s)", has, a.Minimum, a.Install)
	}
	return has, err
}
