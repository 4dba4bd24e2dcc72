package inspect

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/rootfs"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/state"
)

// workspaceViews: what is written to a directory under review goes to the recorded view, whose
// layer is bounded.
func workspaceViews(d *demands, s *seen) outcome {
	const want = "each directory under review: the view that was made for it, writable, nosuid, nodev and bounded"
	var bad, how []string
	for _, r := range d.jail.Reviews {
		if fault := faultOf(r, topmost(s.mounts, r.At)); fault != "" {
			bad = append(bad, r.At+fault)
			continue
		}
		how = append(how, fmt.Sprintf("%s to view %s, %s, and not to %s", r.At, r.ID, policy.Size(r.Size), r.Source))
	}
	switch {
	case len(bad) > 0:
		return brokenList(want, bad)
	case len(how) == 0:
		return holds("no directory is under review")
	}
	return holds("writes go from %s", strings.Join(how, "; "))
}

// topmost returns the mount that covers a place; nil if it is no mount point.
func topmost(all []mount, at string) *mount {
	for i := range slices.Backward(all) {
		if all[i].Point == at {
			return &all[i]
		}
	}
	return nil
}

// isView reports whether a mount has the form of a view: an overlay whose layer is agentjail's.
func (m *mount) isView() bool {
	return m.FS == "overlay" && m.Source == "agentjail" && m.Value("upperdir") == rootfs.ReviewUpper
}

// faultOf reports in what a mount is not the view that was made; "" if it is.
func faultOf(r state.Review, m *mount) string {
	dev := fmt.Sprintf("%d:%d", unix.Major(r.Dev), unix.Minor(r.Dev))
	switch {
	case m == nil:
		return " is not mounted any more"
	case !m.isView():
		return fmt.Sprintf(" is %s %s of the host", m.FS, m.Root)
	case m.Dev != dev:
		return fmt.Sprintf(" is device %s, and the view is %s", m.Dev, dev)
	case m.size == 0 || m.size > uint64(r.Size):
		return fmt.Sprintf(" has a layer of %s, and the view %s", size(m.size), policy.Size(r.Size))
	case m.ReadOnly():
		return " is read-only"
	}
	if l := m.Lacks("nosuid", "nodev"); len(l) > 0 {
		return " is without " + strings.Join(l, " and ")
	}
	return ""
}

// reviewed reports whether a mount is one of the jail's views.
func reviewed(views []state.Review, m *mount) bool {
	return slices.ContainsFunc(views, func(r state.Review) bool { return m.Point == r.At && faultOf(r, m) == "" })
}
