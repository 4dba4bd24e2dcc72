package flaws

import (
	"bufio"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/spec/lazyregexp"
)

// Bounds on what is read of the package manager's files, in bytes.
const (
	maxStatus    = 64 << 20
	maxList      = 4 << 20
	maxChangelog = 8 << 20
)

// debPackage is an installed Debian package (also Ubuntu's).
type debPackage struct {
	name, version string
	// fixes are the CVE numbers that its changelog names.
	fixes []string
}

// debianOwner finds the package that a program belongs to. Only packages are queried that are named
// like the program, as both runc and crun are. nil if it belongs to no package, as Docker's own
// runc is.
func debianOwner(e Packages, path, name string) *debPackage {
	list, err := atomicfile.Read(filepath.Join(e.Dpkg, "info", name+".list"), maxList)
	if err != nil {
		return nil
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	// /usr/sbin/runc may be listed as /sbin/runc where both are the same directory.
	short := strings.TrimPrefix(path, "/usr")
	owns := slices.ContainsFunc(strings.Split(string(list), "\n"), func(l string) bool {
		return strings.TrimPrefix(l, "/usr") == short
	})
	if !owns {
		return nil
	}
	p := &debPackage{name: name}
	if p.version = debianVersion(filepath.Join(e.Dpkg, "status"), name); p.version == "" {
		return nil
	}
	p.fixes = changelogFixes(filepath.Join(e.Doc, name, "changelog.Debian.gz"), p.version)
	return p
}

// debianVersion reads a package's version from dpkg's status file: stanzas with
// one field a line (deb822(5)).
func debianVersion(path, name string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, maxStatus))
	lines.Buffer(nil, 1<<20)
	in, installed, version := false, false, ""
	for lines.Scan() {
		l := lines.Text()
		switch {
		case l == "":
			if in && installed {
				return version
			}
			in, installed, version = false, false, ""
		case l == "Package: "+name:
			in = true
		case strings.HasPrefix(l, "Status: "):
			installed = strings.HasSuffix(l, " installed")
		case strings.HasPrefix(l, "Version: "):
			version = strings.TrimPrefix(l, "Version: ")
		}
	}
	if in && installed {
		return version
	}
	return ""
}

var (
	cvePattern = lazyregexp.New(`CVE-\d{4}-\d{4,7}`)
	rebuild    = lazyregexp.New(`\+b\d+$`)
)

// changelogFixes lists the CVE numbers in a Debian changelog, provided that it
// is that version's: its first entry names it (deb-changelog(5)).
func changelogFixes(path, version string) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(z, maxChangelog))
	if err != nil {
		return nil
	}
	first, _, _ := strings.Cut(string(text), "\n")
	// A rebuild without changes ("+b4") has the changelog of what was rebuilt.
	if !strings.Contains(first, "("+rebuild().ReplaceAllString(version, "")+")") {
		return nil
	}
	return cvePattern().FindAllString(string(text), -1)
}

// compareDebian compares version texts by deb-version(7): stretches of
// non-digits, where ~ sorts before everything and letters before other
// characters, alternate with numbers. Epochs are not looked at.
func compareDebian(a, b string) int {
	for a != "" || b != "" {
		for (a != "" && !digit(a[0])) || (b != "" && !digit(b[0])) {
			x, y := order(a), order(b)
			if x != y {
				return x - y
			}
			a, b = a[1:], b[1:]
		}
		var x, y string
		x, a = number(a)
		y, b = number(b)
		if len(x) != len(y) {
			return len(x) - len(y)
		}
		if c := strings.Compare(x, y); c != 0 {
			return c
		}
	}
	return 0
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// order is the rank of s's first character among non-digits.
func order(s string) int {
	switch {
	case s == "" || digit(s[0]):
		return 0
	case s[0] == '~':
		return -1
	case s[0]|0x20 >= 'a' && s[0]|0x20 <= 'z':
		return int(s[0])
	}
	return int(s[0]) + 256
}

// number cuts the digits off s's front, without leading zeros.
func number(s string) (digits, rest string) {
	i := 0
	for i < len(s) && digit(s[i]) {
		i++
	}
	return strings.TrimLeft(s[:i], "0"), s[i:]
}
