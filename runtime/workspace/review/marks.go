package review

import (
	"path"
	"slices"
	"strings"
	"sync"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/protect"
)

// A Mark is a reason to look at a change before others.
type Mark struct {
	Kind string `json:"kind"`
	Why  string `json:"why"`
}

// Kinds of marks. An apply leaves out changes with the first three: Protected and Out unless they
// are requested, Never always.
const (
	Protected  = "protected" // by the list of protected paths
	Out        = "link out"
	Never      = "special"
	Run        = "run" // a tool of the host runs it, or takes it for instructions
	Executable = "executable"
	SetID      = "set-id"
	Writable   = "writable" // by others than before
	Name       = "name"
)

// runs lists names of files that tools on the host run or take instructions from, and that binds
// do not protect, since agents have to change them. A name with a slash counts at any depth, too.
var runs = []struct{ name, why string }{
	{".github/workflows", "continuous integration runs it, with the repository's secrets"},
	{".github/actions", "continuous integration runs it"},
	{".gitlab-ci.yml", "continuous integration runs it"},
	{".gitlab/ci", "continuous integration runs it"},
	{".circleci", "continuous integration runs it"},
	{".buildkite", "continuous integration runs it"},
	{".travis.yml", "continuous integration runs it"},
	{".drone.yml", "continuous integration runs it"},
	{".woodpecker*", "continuous integration runs it"},
	{".forgejo/workflows", "continuous integration runs it"},
	{".gitea/workflows", "continuous integration runs it"},
	{"azure-pipelines.y*ml", "continuous integration runs it"},
	{"bitbucket-pipelines.yml", "continuous integration runs it"},
	{"cloudbuild.y*ml", "continuous integration runs it"},
	{"jenkinsfile", "continuous integration runs it"},
	{"package.json", "npm runs its scripts, some at install"},
	{".npmrc", "settings of npm: registries, shells that run scripts"},
	{".yarnrc*", "settings of yarn, which runs what yarnPath names"},
	{".pnpmfile.*js", "pnpm runs it"},
	{"pnpm-workspace.yaml", "settings of pnpm: which packages run scripts"},
	{"binding.gyp", "npm builds it at install"},
	{"deno.json*", "tasks of deno"},
	{"pyproject.toml", "names the program that builds the package"},
	{"setup.py", "pip runs it at install"},
	{"setup.cfg", "settings of Python's build and test programs"},
	{"conftest.py", "pytest runs it"},
	{"noxfile.py", "nox runs it"},
	{"tox.ini", "commands of tox"},
	{"sitecustomize.py", "Python runs it at its start"},
	{"usercustomize.py", "Python runs it at its start"},
	{"*.pth", "Python runs its import lines at its start"},
	{"build.rs", "cargo runs it before a build"},
	{".cargo", "settings of cargo: programs that it runs"},
	{"build.gradle*", "gradle runs it"},
	{"settings.gradle*", "gradle runs it"},
	{"gradle/wrapper", "gradle's wrapper runs it"},
	{"pom.xml", "plugins that maven runs"},
	{".mvn", "settings and extensions of maven"},
	{"composer.json", "composer runs its scripts"},
	{"gemfile", "bundler evaluates it"},
	{"*.gemspec", "bundler evaluates it"},
	{"rakefile", "rake runs it"},
	{"mix.exs", "mix evaluates it"},
	{"makefile", "make runs it"},
	{"gnumakefile", "make runs it"},
	{"makefile.*", "make runs it"},
	{"*.mk", "make runs it"},
	{"justfile", "just runs it"},
	{"taskfile.y*ml", "task runs it"},
	{"cmakelists.txt", "cmake runs its commands"},
	{"*.cmake", "cmake runs its commands"},
	{"meson.build", "meson runs its commands"},
	{"configure", "a build runs it"},
	{"build.bazel", "bazel runs its rules"},
	{".bazelrc", "settings of bazel"},
	{"dockerfile*", "a build runs its commands"},
	{"containerfile*", "a build runs its commands"},
	{"docker-compose*.y*ml", "which containers run, and with which mounts"},
	{"compose*.y*ml", "which containers run, and with which mounts"},
	{"vagrantfile", "vagrant runs it"},
	{"flake.nix", "nix evaluates it"},
	{"shell.nix", "nix evaluates it"},
	{"default.nix", "nix evaluates it"},
	{".gitattributes", "picks the filters that git runs"},
	{".tool-versions", "which programs run by a name"},
	{".mise.toml", "tasks, and which programs run by a name"},
	{"mise.toml", "tasks, and which programs run by a name"},
	{".env*", "environment of programs"},
	{"*.code-workspace", "tasks and settings of an editor"},
	{".gdbinit", "gdb runs it, where trusted"},
	{".lldbinit", "lldb runs it, where trusted"},
	{".rprofile", "R runs it at its start"},
	{".eslintrc.*js", "eslint runs it"},
	{"*.config.js", "a build or test program runs it"},
	{"*.config.mjs", "a build or test program runs it"},
	{"*.config.cjs", "a build or test program runs it"},
	{"*.config.ts", "a build or test program runs it"},
	{"agents.md", "instructions to agents"},
	{"agents.override.md", "instructions to agents"},
	{"claude.md", "instructions to agents"},
	{"claude.local.md", "instructions to agents"},
	{"gemini.md", "instructions to agents"},
	{"qwen.md", "instructions to agents"},
	{"copilot-instructions.md", "instructions to agents"},
	{".github/instructions", "instructions to agents"},
	{".github/prompts", "instructions to agents"},
	{".cursorrules", "instructions to agents"},
	{".windsurfrules", "instructions to agents"},
	{".clinerules", "instructions to agents"},
	{".aider*", "settings of an agent"},
	{"skill.md", "instructions to agents"},
}

// lastNames are runs by its last name: whole names, and patterns.
var lastNames = sync.OnceValues(func() (map[string][]int, []int) {
	exact, patterns := map[string][]int{}, []int(nil)
	for i, r := range runs {
		if last := path.Base(r.name); strings.Contains(last, "*") {
			patterns = append(patterns, i)
		} else {
			exact[last] = append(exact[last], i)
		}
	}
	return exact, patterns
})

// runBy returns why a tool runs a file, by each part of its path; "" where none does.
func runBy(at string) string {
	parts := strings.Split(protect.Fold(at), "/")
	exact, patterns := lastNames()
	for i, name := range parts {
		for _, k := range exact[name] {
			if first, _, two := strings.Cut(runs[k].name, "/"); !two || i > 0 && parts[i-1] == first {
				return runs[k].why
			}
		}
		for _, k := range patterns {
			if ok, _ := path.Match(runs[k].name, name); ok {
				return runs[k].why
			}
		}
	}
	return ""
}

// mark adds the marks that a change has by itself: Judge adds those of what it leads to.
func (w *walker) mark(c *Change) {
	add := func(kind, why string) { c.Marks = append(c.Marks, Mark{kind, why}) }
	if c.Type == Special && c.Kind != Deleted {
		add(Never, "devices, sockets and pipes are never applied")
	}
	if e := protect.Inside(w.o.Path, c.Path, w.o.Unprotect); e != nil {
		add(Protected, e.Why)
	}
	if c.Kind != Deleted && c.Type == Link && leadsOut(c.Path, c.Target) {
		add(Out, "the link can lead out of the directory")
	}
	if protect.InPackages(c.Path) {
		return
	}
	if why := runBy(c.Path); why != "" {
		add(Run, why)
	}
	if c.Kind != Deleted && c.Type == File {
		if c.New.Mode&0o111 != 0 {
			add(Executable, "a program")
		}
		if c.New.Mode&0o7000 != 0 {
			add(SetID, "set-id and sticky bits are never applied")
		}
	}
	if printable.Line(c.Path, 0) != c.Path {
		add(Name, "the name has characters that a terminal does not show")
	}
}

// leadsOut reports whether a link at a path can lead out of the directory. Of a ".." after a name,
// which may be a link itself, it is not known where it leads.
func leadsOut(at, target string) bool {
	depth := strings.Count(at, "/")
	named := false
	for i, part := range strings.Split(target, "/") {
		switch {
		case part == "" && i == 0:
			return true // absolute, or empty
		case part == "..":
			if depth--; named || depth < 0 {
				return true
			}
		case part != "" && part != ".":
			named = true
		}
	}
	return false
}

// Has reports whether a change has a mark.
func (c *Change) Has(kind string) bool {
	return slices.ContainsFunc(c.Marks, func(m Mark) bool { return m.Kind == kind })
}
