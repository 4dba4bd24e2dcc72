// Package presets has the entries that "@name" stands for in a policy.
//
// A preset is, in this order: a file NAME.txt in the administrator's directory; a file of this
// package, which name APIs of models and hosts of code; or the configuration of a tool of the host:
//
//	npm    registry and @scope:registry of npm's global, built-in and user's configuration
//	       (npmrc(5))
//	go     GOPROXY and GOSUMDB of the user's and the toolchain's file (go help environment)
//	pypi   index-url and extra-index-url of pip's global and user's configuration
//	       (pip configuration)
//	apt    the URIs of sources.list(5), one line or deb822
//
// No registry's host is listed here: the right one depends on the host's configuration. A tool that
// is not configured is an error with a remedy.
//
// A file has one entry a line, in the grammar of package netrules; "#" begins a comment. Of a URL
// only scheme, host and port are taken: all else in it, such as a password, is neither kept nor
// printed. Files are read to 1 MiB and a preset has at most 256 entries. The caller makes sure that
// the files are root's own, by the fs.FS that it passes.
package presets

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/spec/netrules"
)

const (
	maxFile    = 1 << 20
	maxEntries = 256
	maxFiles   = 256 // of apt's directory
)

//go:embed *.txt
var embedded embed.FS

// A Source resolves presets. It implements netrules.Presets. A nil field disables its kind of
// preset.
type Source struct {
	// Dir is the administrator's directory.
	Dir fs.FS
	// Root is the host's root directory.
	Root fs.FS
	// Home is the home directory whose configuration is read, below Root, such as "root"; "" reads
	// none.
	Home string
	// Getenv reads the environment, which comes before the user's files for npm, go and pip. It is
	// nil if the environment is not trusted.
	Getenv func(string) string
}

// tools read the configuration of the host's tools. configure is the remedy if a tool has none.
var tools = map[string]struct {
	urls      func(*host) []string
	configure string
}{
	"npm":  {npm, "npm config set --location=global registry URL"},
	"go":   {golang, "go env -w GOPROXY=URL as root"},
	"pypi": {pip, "pip config --global set global.index-url URL"},
	"apt":  {apt, "a file in /etc/apt/sources.list.d"},
}

// Preset returns the entries of a preset.
func (s *Source) Preset(name string) ([]string, error) {
	if !netrules.PresetName(name) {
		return nil, fmt.Errorf("%q is no preset's name", name)
	}
	for _, dir := range []fs.FS{s.Dir, embedded} {
		if dir == nil {
			continue
		}
		text, err := read(dir, name+".txt")
		if err == nil {
			return lines(text)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("reading its file: %w", err)
		}
	}
	tool, ok := tools[name]
	if !ok {
		return nil, fmt.Errorf("there is none (remedy: one of %s, or a file %s.txt in the directory of presets)", strings.Join(names(), ", "), name)
	}
	h := &host{Source: s}
	urls := tool.urls(h)
	if h.err != nil {
		return nil, fmt.Errorf("reading the tool's configuration: %w", h.err)
	}
	out, err := entries(urls)
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("the tool is not configured on this host (remedy: %s, or a file %s.txt in the directory of presets)", tool.configure, name)
	}
	return out, err
}

// names lists the presets that this package knows, the tools' too.
func names() []string {
	files, _ := fs.Glob(embedded, "*.txt")
	out := slices.Collect(maps.Keys(tools))
	for _, f := range files {
		out = append(out, strings.TrimSuffix(f, ".txt"))
	}
	slices.Sort(out)
	return out
}

// read returns a whole file, or an error if the file is too long.
func read(dir fs.FS, name string) (string, error) {
	f, err := dir.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := atomicfile.ReadAll(f, maxFile)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path.Base(name), err)
	}
	return string(b), nil
}

// lines returns the entries of a preset's file.
func lines(text string) ([]string, error) {
	var out []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if len(out) == maxEntries {
			return nil, fmt.Errorf("more than %d entries", maxEntries)
		}
		if _, err := netrules.ParseEntry(line, false); err != nil {
			return nil, err
		}
		out = append(out, line)
	}
	if len(out) == 0 {
		return nil, errors.New("its file has no entry")
	}
	return out, nil
}
