package journal

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
	"agentjail.dev/tests/journal/refusal"
)

// A shower is what shows a kind of refusal that the run does not have: why not, and the tests that show it, each with its package's directory.
type shower struct {
	why   string
	tests []string
}

// elsewhere are the kinds of refusals that the run does not have. The kernel's records are of kernels that this machine is not.
var elsewhere = map[string]shower{
	"approval.denied":    {"a person decides", []string{"tests/names TestApproval"}},
	"jail.refused":       {"there is no jail then", []string{"tests/journal TestJailCannotReachJournal"}},
	"publish.refused":    {"somebody outside has to connect", []string{"tests/names TestPublish", "runtime/observe/journal/sources TestNetwork"}},
	"credential.refused": {"it takes a server", []string{"tests/names TestCredentials", "runtime/observe/journal/sources TestNetwork"}},
	"syscall.killed":     {"the jail's first process is killed, by another policy", []string{"runtime/observe/journal/sources TestKernel"}},
	"landlock.denied":    {"the kernel reports it where a domain requests that, and agentjail's does not", []string{"runtime/observe/journal/sources TestKernel"}},
	"apparmor.denied":    {"a kernel with AppArmor", []string{"runtime/observe/journal/sources TestKernel"}},
	"selinux.denied":     {"a kernel with SELinux", []string{"runtime/observe/journal/sources TestKernel"}},
	"exec.blocked":       {"programs that block, and a policy that requests it", []string{"tests/ebpf TestPolicysBlocksAreReported"}},
	"trace.blocked":      {"programs that block, and a policy that requests it", []string{"tests/ebpf TestPolicysBlocksAreReported"}},
	"connect.blocked":    {"programs that block, and a policy that requests it", []string{"tests/ebpf TestPolicysBlocksAreReported"}},
	"bind.blocked":       {"programs that block, and a policy that requests it", []string{"tests/ebpf TestPolicysBlocksAreReported"}},
	"unix.blocked":       {"programs that block, and a socket of the host's", []string{"tests/ebpf TestHostSockets"}},
	"ring0.passed":       {"programs that block, and no filters", []string{"tests/ebpf TestProgramsHoldWithoutFilters"}},
	"module.refused":     {"programs that block, and a kernel that would load a module", []string{"runtime/observe/ebpf/collector TestDescribeRefused"}},
	"ptrace.refused":     {"programs that block, and the profile debug", []string{"runtime/observe/ebpf/collector TestDescribeRefused"}},
	"limit.memory":       {"control groups of version 2: those of version 1 kill before they count", []string{"runtime/observe/journal TestCounters"}},
	"limit.high":         {"control groups of version 2", []string{"runtime/observe/journal TestCounters"}},
}

// TestRefusalsComplete: every kind of refusal is in the run, or in a test elsewhere, which there is and which names the kind; there are forty
// refusals in the run, and each states for every driver how to provoke it, or why that cannot be done.
func TestRefusalsComplete(t *testing.T) {
	in := map[string]bool{}
	for _, r := range refusal.Rows {
		in[r.Kind] = true
	}
	for _, kind := range journal.Kinds() {
		k, e := kind.Info(), journal.Event{Kind: kind}
		env.Check(t, e.Complete())
		why, is := elsewhere[k.Name]
		if e.Refused() && in[k.Name] == is {
			t.Errorf("%s: in the run %v, elsewhere %+v", k.Name, in[k.Name], why)
		}
		if is && !e.Refused() {
			t.Errorf("%s is no refusal", k.Name)
		}
		if e.Refused() && k.Name != "jail.refused" && e.Decided() == "" {
			t.Errorf("%s: nothing decides it", k.Name)
		}
	}
	if len(refusal.Rows) < 40 {
		t.Errorf("%d refusals", len(refusal.Rows))
	}
	for _, d := range []refusal.Driver{refusal.CommandLine, refusal.Docker, refusal.Podman, refusal.Containerd, refusal.CRI, refusal.Kubernetes} {
		if names := refusal.Wanting(d); len(names) > 0 {
			t.Errorf("%s: neither provoked nor with a reason why not: %q", d, names)
		}
	}
	root := env.Get(t, engine.ModuleRoot)
	if own, _ := filepath.Glob(filepath.Join(root, "tests/journal/*_test.go")); len(own) == 0 {
		t.Log("the tests' sources are not here to be looked at, as in the virtual machines")
		return
	}
	for kind, s := range elsewhere {
		if !slices.ContainsFunc(s.tests, func(name string) bool {
			text := source(t, root, name)
			if text == "" {
				t.Errorf("%s: there is no test %s", kind, name)
			}
			constant := strings.ReplaceAll(kind, ".", "") // journal.JailStart of "jail.start"
			return strings.Contains(strings.ToLower(text), "journal."+constant) || strings.Contains(text, `"`+kind) || strings.Contains(text, kind+`"`) || strings.Contains(text, kind+" ")
		}) {
			t.Errorf("%s: none of %q names it", kind, s.tests)
		}
	}
}

// source is the text of a test function, given as directory and name; "" if there is none.
func source(t *testing.T, root, test string) string {
	t.Helper()
	dir, name, _ := strings.Cut(test, " ")
	files, _ := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	for _, path := range files {
		text := env.Read(t, path)
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
		env.Check(t, err)
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == name && fn.Recv == nil {
				return string(text[set.Position(fn.Pos()).Offset:set.Position(fn.End()).Offset])
			}
		}
	}
	return ""
}
