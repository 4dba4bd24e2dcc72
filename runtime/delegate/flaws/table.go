package flaws

import (
	"slices"

	"agentjail.dev/runtime/spec/traits"
)

// A flaw is a hole of a delegate by which a container got out, or past a
// protection, and the releases that closed it.
type flaw struct {
	cve   string
	what  string
	in    string // the delegate's name
	since string // first release with the flaw, "" for all
	// fixed lists the first release without it on each branch that got a fix.
	// Branches after the last of them are without it, those before have it.
	fixed []string
	// held reports what agentjail does about it by itself, "" for nothing.
	held string
}

// flaws come from the projects' own advisories (opencontainers/runc and
// containers/crun, GitHub security advisories and release notes). crun's
// maintainer tried the flaws of November 2025 and found it without them
// (containers/crun issue 1906).
var flaws = []flaw{
	{cve: "CVE-2019-5736", what: "a container overwrites the host's runc", in: "runc", fixed: []string{"1.0.0-rc.7"}},
	{cve: "CVE-2021-30465", what: "a mount target is exchanged for a symbolic link", in: "runc", fixed: []string{"1.0.0-rc.95"}},
	{cve: "CVE-2023-27561", what: "/proc is exchanged by the image", in: "runc", since: "1.0.0-rc.95", fixed: []string{"1.1.5"}},
	{cve: "CVE-2023-28642", what: "security labels are written to a false /proc", in: "runc", fixed: []string{"1.1.5"}},
	{
		cve: "CVE-2024-21626", what: "the working directory leads out by a leaked file", in: "runc", since: "1.0.0-rc.93",
		fixed: []string{"1.1.12"}, held: "agentjail checks working directories itself",
	},
	{cve: "CVE-2024-45310", what: "empty files are made on the host", in: "runc", fixed: []string{"1.1.14", "1.2.0-rc.3"}},
	{
		cve: "CVE-2025-31133", what: "a masked path is exchanged by /dev/null", in: "runc",
		fixed: []string{"1.2.8", "1.3.3", "1.4.0-rc.3"},
	},
	{
		cve: "CVE-2025-52565", what: "/dev/console is exchanged", in: "runc", since: "1.0.0-rc.3",
		fixed: []string{"1.2.8", "1.3.3", "1.4.0-rc.3"},
	},
	{cve: "CVE-2025-52881", what: "writes to /proc are redirected", in: "runc", fixed: []string{"1.2.8", "1.3.3", "1.4.0-rc.3"}},
	{cve: "CVE-2026-41579", what: "an image's /dev is a symbolic link", in: "runc", fixed: []string{"1.3.6", "1.4.3", "1.5.0-rc.3"}},
	{cve: "CVE-2019-18837", what: "the image's links lead out while it is set up", in: "crun", fixed: []string{"0.10.5"}},
	{
		cve: "CVE-2026-88264", what: "where /dev is no mount, the console is made where an image's link leads", in: "crun",
		fixed: []string{"1.30"}, held: "no jail starts without a tmpfs at /dev",
	},
	{
		cve: "CVE-2026-88265", what: "where /dev is no mount, a file of the host changes its owner", in: "crun", fixed: []string{"1.30"},
		held: "no jail starts without a tmpfs at /dev",
	},
	{
		cve: "CVE-2022-27650", what: "processes inherit capabilities", in: "crun", fixed: []string{"1.4.4"},
		held: "a jail's inheritable capabilities are empty",
	},
}

// A patch is a distribution's package that closes a flaw in an older release.
type patch struct {
	cve, pkg string
	// version is the package version that has the fix, and upstream the release
	// that it is built from: only packages of that release are compared.
	version, upstream string
}

// patches are what distributions have taken back, from their security trackers. A package's own
// changelog is read as well: Debian's names each fix.
var patches = []patch{
	{"CVE-2024-21626", "runc", "1.1.5+ds1-1+deb12u1", "1.1.5"},
	{"CVE-2024-21626", "runc", "1.0.0~rc93+ds1-5+deb11u3", "1.0.0-rc.93"},
}

// open reports whether a release has the flaw, by upstream's numbers.
func (f flaw) open(r traits.Version) bool {
	if f.since != "" {
		if s, ok := traits.ParseVersion(f.since); ok && r.Less(s) {
			return false
		}
	}
	var last traits.Version
	for _, t := range f.fixed {
		fix, ok := traits.ParseVersion(t)
		if !ok {
			continue
		}
		if fix.Branch() == r.Branch() {
			return r.Less(fix)
		}
		if last.Less(fix) {
			last = fix
		}
	}
	return r.Less(last)
}

// releasesWithout lists the first release of each branch, from r on, that has none of a program's
// flaws.
func releasesWithout(flaws []flaw, name string, r traits.Version) []traits.Version {
	var out []traits.Version
	for _, f := range flaws {
		for _, t := range f.fixed {
			fix, ok := traits.ParseVersion(t)
			fix[3] = traits.Final // a release candidate is no remedy
			if !ok || f.in != name || fix.Less(r) || slices.ContainsFunc(flaws, func(o flaw) bool { return o.in == name && o.open(fix) }) {
				continue
			}
			i := slices.IndexFunc(out, func(o traits.Version) bool { return o.Branch() == fix.Branch() })
			switch {
			case i < 0:
				out = append(out, fix)
			case fix.Less(out[i]):
				out[i] = fix
			}
		}
	}
	slices.SortFunc(out, func(a, b traits.Version) int { return slices.Compare(a[:], b[:]) })
	return out
}
