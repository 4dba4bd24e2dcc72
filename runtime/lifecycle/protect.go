package lifecycle

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/protect"
	"agentjail.dev/runtime/rootfs"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/state"
)

// ledgerDir holds the ledger of the placeholders of root's jails. Like the placeholders, it
// outlives a boot.
const ledgerDir = "/var/lib/agentjail/placeholders"

// ledger returns the ledger of placeholders.
func (r *Runtime) ledger() protect.Ledger {
	l := protect.Ledger{Dir: filepath.Join(r.Store.Root, "placeholders"), Boot: state.BootID(), User: os.Geteuid() != 0 || rootless.Inside()}
	if r.Store.Root == state.DefaultRoot {
		l.Dir = ledgerDir
	}
	var st unix.Stat_t
	if unix.Stat(r.Store.Root, &st) == nil {
		l.Store = fmt.Sprintf("%d:%d", st.Dev, st.Ino)
	}
	return l
}

// treatments are the ways in which paths are protected, for the report.
var treatments = []struct {
	t    protect.Treatment
	text string
}{
	{protect.ReadOnly, "read-only"}, {protect.Private, "as private copies"}, {protect.Placeholder, "absent and kept so"}, {protect.Hidden, "hidden"},
}

// maxListed bounds how many names a line of the report has.
const maxListed = 5

// reportProtected reports which paths of each mounted directory are protected, and which could not
// be.
func reportProtected(rep *report.Report, dirs []rootfs.Protected) {
	for _, d := range dirs {
		field := "mounts[" + d.Place + "]"
		var parts []string
		for _, t := range treatments {
			if n := d.Count(t.t); n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", n, t.text))
			}
		}
		if len(parts) > 0 {
			rep.Add(report.Change{Ring: report.Access, Kind: report.Set, Field: field, Now: "protected paths: " + strings.Join(parts, ", "), Why: "the host runs them or policy hides them (binds.protect, binds.unprotect, binds.hide)"})
		}
		if n := len(d.Unheld); n > 0 {
			rep.Add(report.Change{Ring: report.Access, Kind: report.Missing, Field: field, Why: fmt.Sprintf("%d links in protected directories lead to directories that the jail is to write to: %s (remedy: remove them)", n, strings.Join(d.Unheld[:min(n, maxListed)], ", "))})
		}
		if n := len(d.Linked); n > 0 {
			rep.Add(report.Change{Ring: report.Access, Kind: report.Missing, Field: field, Why: fmt.Sprintf("%d protected files have a second name, by which they may be written to: %s (remedy: remove the other hard link)", n, strings.Join(d.Linked[:min(n, maxListed)], ", "))})
		}
	}
}
