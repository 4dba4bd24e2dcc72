package flaws

import (
	"path/filepath"
	"slices"
	"strings"

	"agentjail.dev/runtime/spec/lazyregexp"
	"agentjail.dev/runtime/spec/traits"
)

// floors are flaws by which a container or an image attacks the host through the programs around a
// jail. The choice of the delegate does not depend on them: hardening keeps their preconditions
// from the delegate, or the flaw is in the engine itself. From the projects' advisories (moby,
// containerd, crun, runc on GitHub).
var floors = []flaw{
	{
		cve: "CVE-2026-41567", what: "docker cp of a compressed archive runs the container's xz or unpigz as host root", in: "dockerd", fixed: []string{"29.5.1"},
		held: "the engine's view of a jail's root is noexec, so that such a copy fails",
	},
	{cve: "CVE-2026-41568", what: "docker cp makes mount points where a link exchanged meanwhile leads", in: "dockerd", fixed: []string{"29.5.1"}},
	{
		cve: "CVE-2026-42306", what: "docker cp mounts where a link exchanged meanwhile leads", in: "dockerd",
		fixed: []string{"29.5.1"},
	},
	{
		cve: "CVE-2026-34040", what: "an authorization plugin is not shown an oversized request", in: "dockerd",
		fixed: []string{"29.3.1"},
	},
	{
		cve: "CVE-2026-53488", what: "an image's label has the shim run a program as host root", in: "containerd",
		fixed: []string{"1.7.33", "2.0.10", "2.1.9", "2.2.5", "2.3.2"},
		held:  "agentjail's shim runs none that policy does not list",
	},
	{
		cve: "CVE-2026-47262", what: "an image's list of groups uses up the daemon's memory", in: "containerd",
		fixed: []string{"1.7.33", "2.0.10", "2.1.9", "2.2.5", "2.3.2"},
	},
	{
		cve: "CVE-2026-41579", what: "an image's /dev is a symbolic link", in: "runc", fixed: []string{"1.3.6", "1.4.3", "1.5.0-rc.3"},
		held: "agentjail looks at where mount points lead",
	},
	{
		cve: "CVE-2026-47766", what: "an image's /dev is a symbolic link", in: "crun", fixed: []string{"1.28"},
		held: "agentjail looks at where mount points lead",
	},
	{
		cve: "CVE-2026-30892", what: "exec takes another user than was requested", in: "crun", fixed: []string{"1.27"},
		held: "agentjail passes the user's number",
	},
}

// packagesOf are the packages that may hold a program, where they are not named
// like it: the distributions', and those of the programs' own makers.
var packagesOf = map[string][]string{
	"dockerd":    {"docker.io", "docker-ce", "moby-engine"},
	"containerd": {"containerd", "containerd.io", "moby-containerd"},
}

// Engines are the programs that floors are known of.
func Engines() []string {
	var out []string
	for _, f := range floors {
		if !slices.Contains(out, f.in) {
			out = append(out, f.in)
		}
	}
	return out
}

// JudgeEngine compares one of Engines, with this first line of its --version, with the floors.
func JudgeEngine(path, versionLine string, where Packages) Judgement {
	return judgeEngine(path, versionLine, func(name string) *debPackage { return debianOwner(where, path, name) })
}

func judgeEngine(path, versionLine string, packageOf func(name string) *debPackage) Judgement {
	name := filepath.Base(path)
	r, text, known := engineVersion(versionLine)
	if !known {
		return fail("consult its builder", "%s: version %q is not understood", path, versionLine)
	}
	label := name + " " + text
	pkg := ownerOf(name, packageOf)
	if pkg != nil {
		label += " (package " + pkg.name + " " + pkg.version + ")"
	}
	open, holds, notes := divide(floors, name, r, pkg, "held in jails by other means")
	var texts []string
	for _, f := range open {
		texts = append(texts, f.cve+" ("+f.what+")")
	}
	list, remedy := strings.Join(texts, ", "), upgrade(floors, name, r)
	switch {
	case len(open) > 0 && pkg != nil && securityUpdate().MatchString(pkg.version):
		return fail("look them up in your distribution's security tracker, or "+remedy,
			"%s: a security update of the distribution's, whose changelog does not name these, so that it is unknown whether it has the fixes of %s%s", label, list, notes)
	case len(open) > 0:
		return fail(remedy, "%s: open: %s%s", label, list, notes)
	}
	j := ok("%s%s", label, notes)
	if holds {
		j.Remedy = "for containers that are no jails, " + remedy
	}
	return j
}

// securityUpdate matches the versions of packages that a distribution has fixed
// after its release: Debian's +deb12u1, Ubuntu's ubuntu0.22.04.1.
var securityUpdate = lazyregexp.New(`[+~]deb\d+u\d+|ubuntu\d`)

func ownerOf(name string, packageOf func(name string) *debPackage) *debPackage {
	names, ok := packagesOf[name]
	if !ok {
		names = []string{name}
	}
	for _, n := range names {
		if p := packageOf(n); p != nil {
			return p
		}
	}
	return nil
}

// engineVersion reads the first line of --version: "Docker version 20.10.24+dfsg1,
// build 5d6db84", "containerd github.com/containerd/containerd/v2 v2.4.2 3f1…",
// "runc version 1.1.5", "crun version 1.8.1".
func engineVersion(line string) (r traits.Version, text string, ok bool) {
	if _, rest, found := strings.Cut(line, " version "); found {
		text, _, _ = strings.Cut(rest, ",")
	} else if f := strings.Fields(line); len(f) > 2 && f[0] == "containerd" {
		text = f[2]
	}
	text = strings.TrimSpace(text)
	r, ok = traits.ParseVersion(text)
	return r, text, ok
}
