package harden

import (
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
)

// TestProtectedSources: what is searched, and what is read-only since the host runs it.
func TestProtectedSources(t *testing.T) {
	off, leave, hide := policy.Default(), policy.Default(), policy.Default()
	off.Binds.Protect = false
	leave.Binds.Unprotect = []string{".vscode"}
	hide.Binds.Hide = []string{".env"}
	for _, c := range []struct {
		name, path, options           string
		fact                          bindsource.Fact
		pol                           policy.Policy
		readOnly, protect, absent, hd bool
	}{
		{"a project", "/home/dev/p", "rbind", bindsource.Fact{}, policy.Default(), false, true, true, false},
		{"a read-only one", "/home/dev/p", "rbind ro", bindsource.Fact{}, policy.Default(), true, false, false, false},
		{"unprotected", "/home/dev/p", "rbind", bindsource.Fact{}, off, false, false, false, false},
		{"with secrets", "/home/dev/p", "rbind", bindsource.Fact{}, hide, false, true, true, true},
		{"read-only with secrets", "/home/dev/p", "rbind ro", bindsource.Fact{}, hide, true, false, false, true},
		{"a volume", "/v/_data", "rbind", bindsource.Fact{Role: bindsource.Volume}, policy.Default(), false, true, false, false},
		{"an editor's settings", "/home/dev/p/.vscode", "rbind", bindsource.Fact{}, policy.Default(), true, false, false, false},
		{"in an editor's settings", "/home/dev/p/.VSCode/x", "rbind", bindsource.Fact{}, policy.Default(), true, false, false, false},
		{"an editor's settings by policy", "/home/dev/p/.vscode", "rbind", bindsource.Fact{}, leave, false, true, true, false},
		{"hooks", "/home/dev/p/.git/hooks", "rbind", bindsource.Fact{}, policy.Default(), true, false, false, false},
		{"hooks, unprotected", "/home/dev/p/.git/hooks", "rbind", bindsource.Fact{}, off, false, false, false, false},
		{"a file", "/home/dev/p/.mcp.json", "rbind", bindsource.Fact{Kind: bindsource.File}, policy.Default(), true, false, false, false},
	} {
		f := c.fact
		f.Path, f.UID, f.GID = c.path, 1000, 1000
		if f.Kind == "" {
			f.Kind = bindsource.Dir
		}
		m, b, rep, err := one(t, specs.Mount{Destination: "/w", Type: "bind", Source: c.path, Options: strings.Fields(c.options)}, &f, c.pol)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if b.ReadOnly != c.readOnly || has(m.Options, "ro") != c.readOnly || b.Protect != c.protect || b.Absent != c.absent || b.Hide != c.hd {
			t.Errorf("%s: %+v with %v", c.name, *b, m.Options)
		}
		if told := len(find(rep, report.Lowered, "mounts*")) > 0; told != (c.readOnly && !strings.Contains(c.options, "ro")) {
			t.Errorf("%s: reported: %v", c.name, rep.Changes)
		}
	}
}
