package rootfs

import (
	"fmt"
	"strings"

	"agentjail.dev/runtime/protect"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
)

// treatments are the ways in which paths are protected, for the report.
var treatments = []struct {
	t    protect.Treatment
	text string
}{
	{protect.ReadOnly, "read-only"},
	{protect.Private, "as private copies"},
	{protect.Placeholder, "absent and kept so"},
	{protect.Hidden, "hidden"},
	{protect.Covered, "sockets and pipes of the host's covered"},
}

// maxListed bounds how many names a line of the report has.
const maxListed = 5

// ReportProtected reports which paths of each mounted directory are protected, and which could not
// be.
func ReportProtected(rep *report.Report, dirs []Protected) {
	for _, d := range dirs {
		field := "mounts[" + d.Place + "]"
		var parts []string
		for _, t := range treatments {
			if n := d.Count(t.t); n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", n, t.text))
			}
		}
		if len(parts) > 0 {
			rep.Add(report.Change{
				Ring: rings.Access, Kind: report.Set, Field: field, Now: "protected paths: " + strings.Join(parts, ", "),
				Why: "the host runs them or policy hides them (binds.protect, binds.unprotect, binds.hide, binds.sockets)",
			})
		}
		if n := len(d.Unheld); n > 0 {
			rep.Add(report.Change{
				Ring: rings.Access, Kind: report.Missing, Field: field,
				Why: fmt.Sprintf("%d links in protected directories lead to directories that the jail is to write to: %s (remedy: remove them)", n,
					strings.Join(d.Unheld[:min(n, maxListed)], ", ")),
			})
		}
		if n := len(d.Linked); n > 0 {
			rep.Add(report.Change{
				Ring: rings.Access, Kind: report.Missing, Field: field,
				Why: fmt.Sprintf("%d protected files have a second name, by which they may be written to: %s (remedy: remove the other hard link)", n,
					strings.Join(d.Linked[:min(n, maxListed)], ", ")),
			})
		}
	}
}
