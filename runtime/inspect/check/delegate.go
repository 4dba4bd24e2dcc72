package check

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentjail.dev/runtime/delegate"
	"agentjail.dev/runtime/delegate/flaws"
	"agentjail.dev/runtime/jailinit/host"
)

// lastStep looks for the program that goes into every jail first.
func lastStep(e *env) answer {
	dir, err := e.programs()
	if err != nil {
		return fail("start agentjail by its path", "%v", err)
	}
	return tried(host.Check(dir), "install "+host.Name+" beside agentjail, from the same build", "%s", filepath.Join(dir, host.Name))
}

// delegateFound looks for the delegate that jails are run with. It is queried directly: the file in
// which the life cycle of a bundle keeps answers is not touched.
func delegateFound(e *env) answer {
	d, err := e.delegate()
	if err != nil {
		return fail("install runc (Debian: apt-get install runc)", "%v", err)
	}
	chosen := ""
	if c := d.Choice; c != nil {
		chosen = fmt.Sprintf("; the best of %d for auto: %s", 1+len(c.Not)+len(c.Also), c.Why)
		for _, no := range slices.Concat(c.Not, c.Also) {
			chosen += "; not " + no
		}
	}
	line, err := d.VersionLine()
	if err != nil {
		return fail("reinstall it", "%v", err)
	}
	if d.Choice != nil && d.Choice.Doubt {
		return warn("read each one's reason; name one as delegate in the policy file if jails start", "%s (%s)%s", d.Path, line, chosen)
	}
	f, err := d.Features()
	if err != nil {
		return warn("a newer release (runc 1.1, crun 1.8.6) reports more", "%s (%s), which does not report its features%s", d.Path,
			line, chosen)
	}
	if f.Linux == nil || f.Linux.Seccomp == nil || f.Linux.Seccomp.Enabled == nil || !*f.Linux.Seccomp.Enabled {
		return fail("use a build with libseccomp", "%s (%s) is built without seccomp", d.Path, line)
	}
	return ok("%s (%s), specification %s%s", d.Path, line, f.OCIVersionMax, chosen)
}

// delegateFixes holds every delegate on the host against the table of flaws.
func delegateFixes(e *env) answer {
	var all []flaws.Judgement
	for _, d := range delegates(e) {
		line, err := d.VersionLine()
		all = append(all, e.judge(flaws.Judge, d.Path, line, err))
	}
	if len(all) == 0 {
		return fail("install runc", "there is no delegate")
	}
	return answerOfAll(all)
}

// delegates are those that policy could name, once each whatever their names.
func delegates(e *env) []*delegate.Runtime {
	all := delegate.All()
	if d, err := delegate.Resolve(e.policy.Delegate); err == nil && d.Traits().Sandbox == "" { // All has what auto may mean
		all = append([]*delegate.Runtime{d}, all...)
	}
	var out []*delegate.Runtime
	var seen []os.FileInfo
	for _, d := range all {
		st, err := os.Stat(d.Path)
		if err != nil || slices.ContainsFunc(seen, func(o os.FileInfo) bool { return os.SameFile(o, st) }) {
			continue
		}
		seen = append(seen, st)
		out = append(out, d)
	}
	return out
}

// boundary reports where the delegate's protections are held.
func boundary(e *env) answer {
	d, err := e.delegate()
	if err != nil {
		return fail("first as for the delegate", "there is no delegate")
	}
	return ok("%s", strings.Join(d.Traits().Boundary.Lines(), "; "))
}
