package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// module is agentjail's.
const module = "agentjail.dev"

// shellFiles are the places below /usr/share at which Debian's shells look for completions.
var shellFiles = map[string]string{
	"bash": "bash-completion/completions/agentjail",
	"zsh":  "zsh/vendor-completions/_agentjail",
	"fish": "fish/vendor_completions.d/agentjail.fish",
}

// prepare does what is the same for every architecture: the tool that writes packages, and the help
// of the programs.
func (r *release) prepare(ctx context.Context, work string) error {
	list, err := output(ctx, r.o.root, nil, "go", "list", "-f", `{{if eq .Name "main"}}{{.ImportPath}}{{end}}`, "./cmd/...")
	if err != nil {
		return err
	}
	for p := range strings.FieldsSeq(list) {
		r.mains = append(r.mains, path.Base(p))
	}
	if slices.ContainsFunc(r.o.formats, func(f string) bool { return f != "tar" }) {
		if r.nfpm, err = output(ctx, r.o.root, nil, filepath.Join(r.o.root, "hack/tools/build.sh"), "nfpm"); err != nil {
			return err
		}
	}
	native := filepath.Join(work, runtime.GOARCH, binDir) // where stage wants them, if it is among the architectures
	if err := r.build(ctx, runtime.GOARCH, native); err != nil {
		return err
	}
	if r.help, err = readHelp(ctx, filepath.Join(native, "agentjailctl"), nil); err != nil {
		return err
	}
	r.shells = map[string][]byte{}
	for shell, file := range shellFiles {
		text, err := output(ctx, r.o.root, nil, filepath.Join(native, "agentjailctl"), "completion", shell)
		if err != nil {
			return err
		}
		r.shells[file] = []byte(text + "\n")
	}
	r.others, err = otherPrograms(r.o.root, r.mains)
	return err
}

// build compiles the programs for an architecture, as `make build` does; nothing of this machine is
// in them.
func (r *release) build(ctx context.Context, arch, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(to, "agentjail")); err == nil {
		return nil // prepare was here
	}
	set := "-s -w -X " + module + "/runtime/version.Version=" + r.version + " -X " + module + "/runtime/version.Commit=" + r.commit
	_, err := output(ctx, r.o.root, []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + arch, "GOFLAGS=", "GOAMD64=", "GOARM64="}, "go",
		"build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-tags", "urfave_cli_no_docs", "-ldflags", set, "-o", to+"/", "./cmd/...")
	return err
}

// A dependency is a module that is in one of the programs.
type dependency struct {
	path, version, sum string
	programs           []string
}

// dependencies reads from the programs themselves what they were made from
// (runtime/debug.BuildInfo), the standard library first.
func dependencies(dir string, programs []string) ([]dependency, error) {
	all := map[string]*dependency{}
	add := func(path, version, sum, program string) {
		d := all[path]
		if d == nil {
			d = &dependency{path: path, version: version, sum: sum}
			all[path] = d
		}
		d.programs = append(d.programs, program)
	}
	for _, p := range programs {
		info, err := buildinfo.ReadFile(filepath.Join(dir, p))
		if err != nil {
			return nil, err
		}
		add(stdlib, info.GoVersion, "", p)
		for _, m := range info.Deps {
			if m.Replace != nil {
				return nil, fmt.Errorf("%s: module %s is replaced: the release would not be made of what it names", p, m.Path)
			}
			add(m.Path, m.Version, m.Sum, p)
		}
	}
	var out []dependency
	for _, d := range all {
		out = append(out, *d)
	}
	slices.SortFunc(out, func(a, b dependency) int {
		if (a.path == stdlib) != (b.path == stdlib) {
			return map[bool]int{true: -1, false: 1}[a.path == stdlib]
		}
		return strings.Compare(a.path, b.path)
	})
	return out, nil
}

// stdlib is Go's own library, which is in every program.
const stdlib = "std"
