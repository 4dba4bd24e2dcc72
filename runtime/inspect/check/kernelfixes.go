package check

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/spec/lazyregexp"
)

// A kernelFlaw is a hole of the kernel whose entry point no profile closes, so that
// the kernel has to be patched.
type kernelFlaw struct {
	cve, what string
	since     kernelVersion
	// fixed is the first release of each line without it. Lines after the last have
	// never had it, lines before that are not named have no fix.
	fixed []kernelVersion
	// selinux reports that it matters where SELinux confines jails.
	selinux bool
}

// kernelFlaws are from the records of the kernel's CVE numbering authority. Of Bad
// Epoll the fix is in Linux 7.1; which releases of the lines before took it is not
// known here.
var kernelFlaws = []kernelFlaw{
	{
		cve: "CVE-2026-43074", what: "eventpoll is used after ep_free", since: kernelVersion{6, 4},
		fixed: []kernelVersion{{6, 6, 136}, {6, 12, 83}, {6, 18, 24}, {6, 19, 14}},
	},
	{
		cve: "CVE-2026-46242", what: "eventpoll is used after ep_remove", since: kernelVersion{6, 4},
		fixed: []kernelVersion{{7, 1, 0}},
	},
	{
		cve: "CVE-2026-46054", what: "SELinux does not look at the file below a mapped file of an overlay", since: kernelVersion{4, 19},
		fixed: []kernelVersion{{7, 0, 5}}, selinux: true,
	},
}

// kernelVersion is a release of the kernel's own numbers.
type kernelVersion [3]int

func (v kernelVersion) less(o kernelVersion) bool {
	for i := range v {
		if v[i] != o[i] {
			return v[i] < o[i]
		}
	}
	return false
}

func (v kernelVersion) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// open reports whether a release of these numbers has the flaw.
func (f kernelFlaw) open(v kernelVersion) bool {
	if v.less(f.since) {
		return false
	}
	last := kernelVersion{}
	for _, fix := range f.fixed {
		if fix[0] == v[0] && fix[1] == v[1] {
			return v.less(fix)
		}
		if last.less(fix) {
			last = fix
		}
	}
	return v.less(last)
}

var kernelNumbers = lazyregexp.New(`^(\d{1,5})\.(\d{1,5})(?:\.(\d{1,5}))?(.*)$`)

// debianNumbers are in the version of Debian's kernels (uname -v): their release has the number of
// the interface alone.
var debianNumbers = lazyregexp.New(`\bDebian (\d[0-9.]*)`)

// upstream is the kernel's own number from uname(2). own reports whether it can be one: a
// distribution counts its fixes otherwise, behind a number that stays.
func upstream(release, version string) (v kernelVersion, own bool) {
	if m := debianNumbers().FindStringSubmatch(version); m != nil {
		release = m[1]
	}
	m := kernelNumbers().FindStringSubmatch(release)
	if m == nil {
		return v, false
	}
	for i := range v {
		v[i], _ = strconv.Atoi(m[i+1])
	}
	// "5.14.0-427.el9", "6.8.0-45-generic": the third number is always 0.
	return v, v[2] > 0 || m[4] == ""
}

// kernelFixes compares the kernel's release with those that closed what a jail's
// program can reach. A number alone never shows that a kernel is without a flaw: no
// answer reports it.
func kernelFixes(e *env) answer {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return warn("report this line", "uname: %v", err)
	}
	return judgeKernel(unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Version[:]), e.host.SELinux)
}

func judgeKernel(release, version string, selinux bool) answer {
	v, own := upstream(release, version)
	var open, closed []string
	for _, f := range kernelFlaws {
		if f.selinux && !selinux {
			continue
		}
		if own && !f.open(v) {
			closed = append(closed, f.cve)
			continue
		}
		var in []string
		for _, fix := range f.fixed {
			in = append(in, fix.String())
		}
		open = append(open, fmt.Sprintf("%s (%s; fixed in %s)", f.cve, f.what, strings.Join(in, ", ")))
	}
	detail := "Linux " + release
	if own && v.String() != release {
		detail += ", by its number " + v.String()
	}
	if len(closed) > 0 {
		detail += "; its number is not one of those known to have " + strings.Join(closed, ", ")
	}
	if len(open) == 0 {
		return ok("%s", detail)
	}
	if !own {
		detail += ": its number does not show which fixes a distribution has taken back"
	}
	return warn("keep the kernel patched; the distribution's security tracker lists which of its packages have the fixes",
		"%s; may be open: %s", detail, strings.Join(open, ", "))
}
