// Package flaws knows the holes of OCI runtimes by which containers got out, and
// the releases and distributions' packages that closed them.
package flaws

import (
	"fmt"
	"slices"
	"strings"

	"agentjail.dev/runtime/spec/traits"
)

// Packages reports where the package manager keeps its files.
type Packages struct {
	Dpkg string // /var/lib/dpkg
	Doc  string // /usr/share/doc
}

// Debian is where Debian and its descendants have them.
var Debian = Packages{Dpkg: "/var/lib/dpkg", Doc: "/usr/share/doc"}

// Judgement is what is known of a delegate.
type Judgement struct {
	// OK reports that no flaw is known to be open.
	OK     bool
	Detail string
	Remedy string
}

func ok(format string, args ...any) Judgement {
	return Judgement{OK: true, Detail: fmt.Sprintf(format, args...)}
}

func fail(remedy, format string, args ...any) Judgement {
	return Judgement{Remedy: remedy, Detail: fmt.Sprintf(format, args...)}
}

// Judge compares the delegate at path, with this first line of its --version, with the tables.
func Judge(path, versionLine string, where Packages) Judgement {
	return judge(path, versionLine, func(name string) *debPackage { return debianOwner(where, path, name) })
}

// judge compares a delegate's version with the tables. The delegate's name is taken from its
// --version: the file may have another name.
func judge(path, versionLine string, packageOf func(name string) *debPackage) Judgement {
	name, r, text, known := Version(versionLine)
	if !known {
		return fail("consult its builder", "%s: version %q is not understood", path, versionLine)
	}
	if !slices.ContainsFunc(flaws, func(f flaw) bool { return f.in == name }) {
		return fail("consult its builder", "%s %s: nothing is known of %s's flaws here", path, text, name)
	}
	label := fmt.Sprintf("%s, %s %s", path, name, text)
	pkg := packageOf(name)
	if pkg != nil {
		label = fmt.Sprintf("%s, package %s %s", path, pkg.name, pkg.version)
	}
	open, _, notes := divide(flaws, name, r, pkg, "held by other means")
	if len(open) == 0 {
		return ok("%s: no known flaw%s", label, notes)
	}
	var numbers []string
	for _, f := range open {
		numbers = append(numbers, f.cve)
	}
	remedy := upgrade(flaws, name, r)
	if pkg != nil || strings.ContainsAny(text, "+~-") {
		// Distributions fix without taking a new upstream version.
		remedy = "look up whether your distribution's package has the fixes, or " + remedy
	}
	return fail(remedy, "%s: without upstream's fixes of %s%s", label, strings.Join(numbers, ", "), notes)
}

// divide returns the flaws of a program's release that are open, whether agentjail holds others,
// and a note on those that it holds, begun by heldHow, and that the distribution has fixed.
func divide(table []flaw, name string, r traits.Version, pkg *debPackage, heldHow string) (
	open []flaw, holds bool, notes string,
) {
	var held, patched []string
	for _, f := range table {
		switch {
		case f.in != name || !f.open(r):
		case isPatched(f.cve, r, pkg):
			patched = append(patched, f.cve)
		case f.held != "":
			held = append(held, f.cve+" ("+f.held+")")
		default:
			open = append(open, f)
		}
	}
	if len(patched) > 0 {
		notes += "; the distribution fixed " + strings.Join(patched, ", ")
	}
	if len(held) > 0 {
		notes += "; " + heldHow + ": " + strings.Join(held, ", ")
	}
	return open, len(held) > 0, notes
}

// upgrade names the first release of each branch from r on that has none of a program's flaws.
func upgrade(table []flaw, name string, r traits.Version) string {
	var to []string
	for _, c := range releasesWithout(table, name, r) {
		to = append(to, c.String())
	}
	return fmt.Sprintf("upgrade to %s %s or later", name, strings.Join(to, ", "))
}

func isPatched(cve string, r traits.Version, pkg *debPackage) bool {
	if pkg == nil {
		return false
	}
	if slices.Contains(pkg.fixes, cve) {
		return true
	}
	return slices.ContainsFunc(patches, func(p patch) bool {
		up, ok := traits.ParseVersion(p.upstream)
		return ok && p.cve == cve && p.pkg == pkg.name && up == r && compareDebian(pkg.version, p.version) >= 0
	})
}
