// Package lint holds rules of this repository that no ready-made tool knows: the direction of
// imports.
package lint

import (
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/tests/env"
)

// module is the import path of the repository's root, which is two directories up.
const (
	module = "agentjail.dev/"
	top    = "../.."
)

// A rule reports which packages may be imported by few only.
type rule struct {
	imported string   // prefix of the import path below the module
	by       []string // prefixes of the directories whose packages may import it
	why      string
}

// rules hold for all code but tests.
var rules = []rule{
	{"tests/", []string{"tests/", "hack/"}, "the product does not link the tests"},
	{"hack/", []string{"hack/"}, "the product does not link its tools"},
	{"runtime/internal/testprograms", nil, "the product does not link what only tests need"},
	{"runtime/internal/docpage", nil, "the product does not link what only tests need"},
	{"cmd/", nil, "a program is not a library"},
	{"runtime/install", []string{"runtime/install", "runtime/inspect/check", "cmd/agentjailctl", "hack/", "tests/"}, "no stage of a bundle depends on an installer, nor does the runtime"},
	{"runtime/inspect/check", []string{"runtime/inspect/check", "cmd/agentjailctl", "hack/", "tests/"}, "the runtime does not link what only commands for people need"},
	{"runtime/inspect", []string{"runtime/inspect", "cmd/agentjailctl", "hack/", "tests/"}, "the runtime does not link what only commands for people need"},
	{"runtime/observe/journal/sources", []string{"runtime/observe/journal/sources", "runtime/observe/why", "runtime/observe/learn", "runtime/observe/receipt", "cmd/agentjailctl", "cmd/agentjail-journal", "hack/", "tests/"}, "the runtime does not link what only commands for people need"},
	{"runtime/observe/receipt", []string{"runtime/observe/receipt", "cmd/agentjailctl", "hack/", "tests/"}, "the runtime does not link what only commands for people need"},
	{"runtime/rootfs/changes", []string{"runtime/rootfs/changes", "runtime/observe/account", "cmd/agentjailctl"}, "the life cycle does not read what a jail changed"},
	{"runtime/spec/sandbox", []string{"runtime/spec/sandbox", "cmd/agentjailctl"}, "the runtime does not link what only commands for people need"},
	{"runtime/spec/bundle", []string{"runtime/", "cmd/", "shim", "hack/", "tests/"}, "a filter or a profile knows nothing of bundles"},
	{"runtime/harden", []string{"runtime/harden", "runtime/facts", "runtime/lifecycle", "cmd/agentjailctl", "hack/", "tests/"}, "who mounts, seals or looks reads runtime/spec/plan, and does not decide"},
	{"runtime/observe/ebpf/collector", []string{"runtime/observe/ebpf/collector", "cmd/agentjail-journal"}, "the collector is a program of its own"},
	{"runtime/network/names/egress", []string{"runtime/network/names/terminate", "cmd/agentjail-egress", "cmd/agentjail-egress-keys"}, "agentjail does not link certificates"},
	{"runtime/network/names/terminate", []string{"cmd/agentjail-egress-keys"}, "helpers without a credential do not link HTTP/2 and ssh"},
	{"runtime/network/none", []string{"runtime/network/modes", "runtime/network/names"}, "code compares a network mode's name"},
	{"runtime/network/names", []string{"runtime/network/modes", "runtime/network/names", "runtime/observe/journal/sources", "cmd/agentjail-egress", "cmd/agentjail-egress-keys", "cmd/agentjailctl"}, "code compares a network mode's name"},
	{"runtime/network/engine", []string{"runtime/network/modes"}, "code compares a network mode's name"},
	{"shim", []string{"shim", "cmd/"}, "the life cycle does not know who calls it"},
	{"runtime/lifecycle", []string{"runtime/lifecycle", "runtime/runccli", "shim", "cmd/", "hack/", "tests/"}, "no stage of a bundle depends on the life cycle"},
}

// floors are the rooms of the product, from those that are called first down to those that all
// others stand on. A room imports rooms that stand below it, and none above. Within a room the
// order is that of Go, which has no circles.
var floors = []string{
	"shim", "runtime/runccli", "runtime/inspect", "runtime/install", "runtime/lifecycle", "runtime/facts", "runtime/harden", "runtime/observe", "runtime/rootfs",
	"apparmor", "runtime/delegate", "runtime/network", "runtime/workspace", "runtime/state", "runtime/internal", "runtime/jailinit", "runtime/spec", "runtime/protect", "runtime/gitrepo", "seccomp",
	"runtime/kernel", "runtime/refusal", "runtime/version",
}

// floorOf is the place of a directory's room in floors, -1 for none.
func floorOf(dir string) int {
	return slices.IndexFunc(floors, func(room string) bool { return below(dir, room) })
}

// TestFloors: each package of the product is in a room, and no import leads upward.
func TestFloors(t *testing.T) {
	for _, f := range goFiles(t, []string{"runtime", "shim", "seccomp", "apparmor"}, false, 200) {
		dir := path.Dir(f.rel)
		own := floorOf(dir)
		if own < 0 {
			t.Errorf("%s is in no room of floors", dir)
			continue
		}
		for _, imported := range imports(t, f.path) {
			if at := floorOf(imported); at < 0 {
				t.Errorf("%s imports %s, which is in no room", f.rel, imported)
			} else if at < own {
				t.Errorf("%s imports %s: %s stands above %s", f.rel, imported, floors[at], floors[own])
			}
		}
	}
}

// TestImports: packages import each other in one direction.
func TestImports(t *testing.T) {
	// hack/tools is a module of its own.
	for _, f := range goFiles(t, everywhere, false, 200, "hack/tools") {
		for _, problem := range wrong(t, f.path, path.Dir(f.rel)) {
			t.Errorf("%s: %s", f.rel, problem)
		}
	}
}

// TestModesAreRuled: each network mode has a row in rules.
func TestModesAreRuled(t *testing.T) {
	for _, mode := range imports(t, filepath.Join(top, "runtime/network/modes/modes.go")) {
		if below(mode, "runtime/network") && !slices.ContainsFunc(rules, func(r rule) bool { return r.imported == mode }) {
			t.Errorf("%s has no row in rules: any package may import it", mode)
		}
	}
}

// imports are the packages of the module that a file imports, below the module.
func imports(t *testing.T, name string) (out []string) {
	t.Helper()
	for _, imported := range allImports(t, name) {
		if rel, ours := strings.CutPrefix(imported, module); ours {
			out = append(out, rel)
		}
	}
	return out
}

// allImports are the packages that a file imports.
func allImports(t *testing.T, name string) (out []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
	env.Check(t, err)
	for _, spec := range f.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		env.Check(t, err)
		out = append(out, imported)
	}
	return out
}

// wrong lists the imports of a file that break a rule.
func wrong(t *testing.T, name, dir string) (out []string) {
	t.Helper()
	for _, imported := range imports(t, name) {
		out = append(out, broken(dir, imported)...)
	}
	return out
}

// broken lists the rules that forbid a package below dir to import another.
func broken(dir, imported string) []string {
	var out []string
	for _, r := range rules {
		if !below(imported, r.imported) {
			continue
		}
		allowed := false
		for _, by := range r.by {
			allowed = allowed || below(dir, by)
		}
		if !allowed {
			out = append(out, "imports "+imported+": "+r.why)
		}
	}
	return out
}

// below reports whether path is prefix or lies below it.
func below(path, prefix string) bool {
	return pathname.Within(path, strings.TrimSuffix(prefix, "/"))
}

// TestRulesCanFail: the rules find what they forbid, and nothing else.
func TestRulesCanFail(t *testing.T) {
	for _, c := range []struct {
		dir, imported string
		bad           bool
	}{
		{"runtime/rootfs", "runtime/install", true},
		{"runtime/rootfs", "tests/engine", true},
		{"runtime/rootfs", "runtime/internal/testprograms", true},
		{"runtime/rootfs", "runtime/harden", true},
		{"runtime/inspect", "runtime/harden", true},
		{"runtime/lifecycle", "runtime/harden", false},
		{"runtime/lifecycle", "shim", true},
		{"runtime/rootfs", "runtime/lifecycle", true},
		{"runtime/installer", "runtime/install", true},
		{"cmd/agentjail", "runtime/install", true},
		{"cmd/agentjailctl", "runtime/install", false},
		{"seccomp/cache", "runtime/spec/bundle", true},
		{"runtime/lifecycle", "runtime/network/engine", true},
		{"runtime/lifecycle", "runtime/network/modes", false},
		{"runtime/lifecycle", "runtime/network/names", true},
		{"runtime/lifecycle", "runtime/observe/receipt", true},
		{"runtime/lifecycle", "runtime/rootfs/changes", true},
		{"runtime/lifecycle/jailnet", "runtime/rootfs/changes", true},
		{"hack/demo", "tests/engine", false},
		{"runtime/runccli", "runtime/lifecycle", false},
		{"runtime/rootfs", "runtime/kernel/idmap", false},
	} {
		if got := broken(c.dir, c.imported); (len(got) > 0) != c.bad {
			t.Errorf("%s imports %s: %v", c.dir, c.imported, got)
		}
	}
}
