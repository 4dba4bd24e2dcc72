// Package lint holds rules of this repository that no ready-made tool knows: the direction of imports.
package lint

import (
	"go/parser"
	"go/token"
	"path"
	"strconv"
	"strings"
	"testing"
)

// module is the import path of the repository's root, which is two directories up.
const (
	module = "agentjail.dev/"
	top    = "../.."
)

// A rule says which packages may be imported by few only.
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
	{"cmd/", nil, "a program is not a library"},
	{"runtime/install", []string{"runtime/install", "runtime/check", "cmd/agentjailctl", "hack/", "tests/"}, "no stage of a bundle depends on an installer, nor does the runtime"},
	{"runtime/check", []string{"runtime/check", "cmd/agentjailctl", "hack/", "tests/"}, "the runtime does not link what only people ask"},
	{"runtime/inspect", []string{"runtime/inspect", "cmd/agentjailctl", "hack/", "tests/"}, "the runtime does not link what only people ask"},
	{"runtime/journal/sources", []string{"runtime/journal/sources", "runtime/why", "runtime/learn", "runtime/receipt", "cmd/agentjailctl", "cmd/agentjail-journal", "hack/", "tests/"}, "the runtime does not link what only people ask"},
	{"runtime/receipt", []string{"runtime/receipt", "cmd/agentjailctl", "hack/", "tests/"}, "the runtime does not link what only people ask"},
	{"runtime/sandbox", []string{"runtime/sandbox", "cmd/agentjailctl"}, "the runtime does not link what only people ask"},
	{"runtime/bundle", []string{"runtime/", "cmd/", "shim", "hack/", "tests/"}, "a filter or a profile knows nothing of bundles"},
	{"runtime/harden", []string{"runtime/harden", "runtime/jail", "cmd/agentjailctl", "hack/", "tests/"}, "who mounts, seals or looks reads runtime/plan, and does not decide"},
	{"runtime/ebpf/collector", []string{"runtime/ebpf/collector", "cmd/agentjail-journal"}, "the collector is a program of its own"},
	{"runtime/credential/issue", []string{"cmd/agentjail-egress-keys"}, "agentjail does not link certificates"},
	{"runtime/network/none", []string{"runtime/network/modes", "runtime/network/names"}, "a network mode is asked by its name"},
	{"runtime/network/names", []string{"runtime/network/modes", "runtime/network/names", "runtime/policy", "runtime/credential", "runtime/check", "runtime/why", "runtime/journal/sources", "cmd/agentjail-egress", "cmd/agentjail-egress-keys", "cmd/agentjailctl", "tests/"}, "a network mode is asked by its name"},
	{"runtime/network/engine", []string{"runtime/network/modes"}, "a network mode is asked by its name"},
	{"shim", []string{"shim", "cmd/"}, "the life cycle does not know who calls it"},
	{"runtime/jail", []string{"runtime/jail", "runtime/verbs", "shim", "cmd/", "hack/", "tests/"}, "no stage of a bundle depends on the life cycle"},
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

// wrong lists the imports of a file that break a rule.
func wrong(t *testing.T, name, dir string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, spec := range f.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if rel, ours := strings.CutPrefix(imported, module); ours {
			out = append(out, broken(dir, rel)...)
		}
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

// below says whether path is prefix or lies below it.
func below(path, prefix string) bool {
	prefix = strings.TrimSuffix(prefix, "/")
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// TestRulesCanFail: the rules find what they forbid, and nothing else.
func TestRulesCanFail(t *testing.T) {
	for _, c := range []struct {
		dir, imported string
		bad           bool
	}{
		{"runtime/stage", "runtime/install", true},
		{"runtime/stage", "tests/engine", true},
		{"runtime/stage", "runtime/internal/testprograms", true},
		{"runtime/stage", "runtime/harden", true},
		{"runtime/inspect", "runtime/harden", true},
		{"runtime/jail", "runtime/harden", false},
		{"runtime/jail", "shim", true},
		{"runtime/stage", "runtime/jail", true},
		{"runtime/installer", "runtime/install", true},
		{"cmd/agentjail", "runtime/install", true},
		{"cmd/agentjailctl", "runtime/install", false},
		{"seccomp/kept", "runtime/bundle", true},
		{"runtime/jail", "runtime/network/engine", true},
		{"runtime/jail", "runtime/network/modes", false},
		{"hack/demo", "tests/engine", false},
		{"runtime/verbs", "runtime/jail", false},
		{"runtime/stage", "runtime/idmap", false},
	} {
		if got := broken(c.dir, c.imported); (len(got) > 0) != c.bad {
			t.Errorf("%s imports %s: %v", c.dir, c.imported, got)
		}
	}
}
