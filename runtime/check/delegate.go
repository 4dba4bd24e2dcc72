package check

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentjail.dev/runtime/delegate"
	"agentjail.dev/runtime/enter/outside"
)

// lastStep looks for the program that goes into every jail first.
func lastStep(e *env) answer {
	dir := e.opts.Programs
	if dir == "" {
		path, err := outside.Path()
		if err != nil {
			return fail("start agentjail by its path", "%v", err)
		}
		dir = filepath.Dir(path)
	}
	if err := outside.Check(dir); err != nil {
		return fail("install "+outside.Name+" beside agentjail, from the same build", "%v", err)
	}
	return ok("%s", filepath.Join(dir, outside.Name))
}

// delegateFound looks for the delegate that jails are run with. It is asked
// directly: the file in which the way of a bundle keeps answers is not touched.
func delegateFound(e *env) answer {
	d, err := delegate.Resolve(e.policy.Delegate)
	if err != nil {
		return fail("install runc (Debian: apt-get install runc)", "%v", err)
	}
	out, err := d.Output("--version")
	if err != nil {
		return fail("reinstall it", "%v", err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	f, err := d.Features()
	if err != nil {
		return warn("a newer release (runc 1.1, crun 1.8) says more", "%s (%s), which does not tell its features", d.Path, line)
	}
	if f.Linux == nil || f.Linux.Seccomp == nil || f.Linux.Seccomp.Enabled == nil || !*f.Linux.Seccomp.Enabled {
		return fail("use a build with libseccomp", "%s (%s) is built without seccomp", d.Path, line)
	}
	return ok("%s (%s), specification %s", d.Path, line, f.OCIVersionMax)
}

// delegateFixes holds every delegate on the host against the table of flaws.
func delegateFixes(e *env) answer {
	var good, bad, remedies []string
	for _, d := range delegates(e) {
		a := fail("reinstall it", "%s does not tell its version", d.Path)
		if out, err := d.Output("--version"); err == nil {
			line, _, _ := strings.Cut(string(out), "\n")
			a = judge(d.Path, line, func(name string) *debPackage { return debianOwner(e, d.Path, name) })
		}
		if a.ok {
			good = append(good, a.detail)
			continue
		}
		bad = append(bad, a.detail)
		if !slices.Contains(remedies, a.remedy) {
			remedies = append(remedies, a.remedy)
		}
	}
	switch {
	case len(good)+len(bad) == 0:
		return fail("install runc", "there is no delegate")
	case len(bad) > 0:
		return fail(strings.Join(remedies, "; "), "%s", strings.Join(append(bad, good...), "; "))
	}
	return ok("%s", strings.Join(good, "; "))
}

// delegates are those that policy could name, once each whatever their names.
func delegates(e *env) []*delegate.Runtime {
	all := delegate.All()
	if d, err := delegate.Resolve(e.policy.Delegate); err == nil {
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

// judge holds one delegate's version against the tables.
// Its name is what it says itself: the file may have another.
func judge(path, versionLine string, packageOf func(name string) *debPackage) answer {
	name, r, text, known := versionOf(versionLine)
	if !known {
		return fail("ask whoever built it", "%s: version %q is not understood", path, versionLine)
	}
	if !slices.ContainsFunc(flaws, func(f flaw) bool { return f.in == name }) {
		return fail("ask whoever built it", "%s %s: nothing is known of %s's flaws here", path, text, name)
	}
	label := fmt.Sprintf("%s, %s %s", path, name, text)
	pkg := packageOf(name)
	if pkg != nil {
		label = fmt.Sprintf("%s, package %s %s", path, pkg.name, pkg.version)
	}
	var open, held, patched []string
	for _, f := range flaws {
		switch {
		case f.in != name || !f.open(r):
		case isPatched(f.cve, r, pkg):
			patched = append(patched, f.cve)
		case f.held != "":
			held = append(held, fmt.Sprintf("%s (%s)", f.cve, f.held))
		default:
			open = append(open, f.cve)
		}
	}
	notes := ""
	if len(patched) > 0 {
		notes += "; the distribution fixed " + strings.Join(patched, ", ")
	}
	if len(held) > 0 {
		notes += "; held by other means: " + strings.Join(held, ", ")
	}
	if len(open) == 0 {
		return ok("%s: no known flaw%s", label, notes)
	}
	var to []string
	for _, c := range closedBy(name, r) {
		to = append(to, c.String())
	}
	remedy := fmt.Sprintf("upgrade to %s %s or later", name, strings.Join(to, ", "))
	if pkg != nil || strings.ContainsAny(text, "+~-") {
		// Distributions fix without taking a new upstream version.
		remedy = "ask your distribution whether its package has the fixes, or " + remedy
	}
	return fail(remedy, "%s: without upstream's fixes of %s%s", label, strings.Join(open, ", "), notes)
}

func isPatched(cve string, r release, pkg *debPackage) bool {
	if pkg == nil {
		return false
	}
	if slices.Contains(pkg.fixes, cve) {
		return true
	}
	return slices.ContainsFunc(patches, func(p patch) bool {
		up, ok := parseRelease(p.upstream)
		return ok && p.cve == cve && p.pkg == pkg.name && up == r && debianAtLeast(pkg.version, p.version)
	})
}
