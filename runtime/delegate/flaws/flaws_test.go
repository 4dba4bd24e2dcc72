package flaws

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/spec/traits"
)

func TestParseRelease(t *testing.T) {
	for _, c := range []struct {
		in   string
		want traits.Version
		ok   bool
	}{
		{"1.1.5+ds1", traits.Version{1, 1, 5, traits.Final}, true},
		{"1.0.0-rc93", traits.Version{1, 0, 0, 93}, true},
		{"1.0.0~rc93+ds1", traits.Version{1, 0, 0, 93}, true},
		{"1.4.0-rc.2", traits.Version{1, 4, 0, 2}, true},
		{"1.8", traits.Version{1, 8, 0, traits.Final}, true},
		{"v1.21.0", traits.Version{1, 21, 0, traits.Final}, true},
		{"1.3.0-rc.1+dev", traits.Version{1, 3, 0, 1}, true},
		{"unknown", traits.Version{}, false},
		{"", traits.Version{}, false},
		{"99999999999999999999.1", traits.Version{}, false},
	} {
		if got, ok := traits.ParseVersion(c.in); got != c.want || ok != c.ok {
			t.Errorf("traits.ParseVersion(%q) = %v, %v; want %v, %v", c.in, got, ok, c.want, c.ok)
		}
	}
}

// TestFlawTable: every entry can be read and has a fix.
func TestFlawTable(t *testing.T) {
	for _, f := range flaws {
		if !cvePattern().MatchString(f.cve) || f.what == "" || f.in == "" || len(f.fixed) == 0 {
			t.Errorf("%s is incomplete", f.cve)
		}
		for _, v := range append(slices.Clone(f.fixed), f.since) {
			if _, ok := traits.ParseVersion(v); !ok && v != "" {
				t.Errorf("%s: %q is no release", f.cve, v)
			}
		}
		// A fix must close its own flaw.
		for _, v := range f.fixed {
			if r, _ := traits.ParseVersion(v); f.open(r) {
				t.Errorf("%s is open in its own fix %s", f.cve, v)
			}
		}
	}
	for _, p := range patches {
		if _, ok := traits.ParseVersion(p.upstream); !ok {
			t.Errorf("patch of %s: %q is no release", p.cve, p.upstream)
		}
		if !slices.ContainsFunc(flaws, func(f flaw) bool { return f.cve == p.cve }) {
			t.Errorf("patch of %s, which is no flaw of the table", p.cve)
		}
	}
}

func TestFlawOpen(t *testing.T) {
	for _, c := range []struct {
		cve, version string
		open         bool
	}{
		{"CVE-2019-5736", "1.0.0-rc.6", true},
		{"CVE-2019-5736", "1.0.0-rc.7", false},
		{"CVE-2019-5736", "1.0.0", false},
		{"CVE-2024-21626", "1.0.0-rc.92", false},
		{"CVE-2024-21626", "1.0.0-rc.93", true},
		{"CVE-2024-21626", "1.1.11", true},
		{"CVE-2024-21626", "1.1.12", false},
		{"CVE-2024-21626", "1.2.0", false},
		{"CVE-2025-31133", "1.1.15", true},
		{"CVE-2025-31133", "1.2.7", true},
		{"CVE-2025-31133", "1.2.8", false},
		{"CVE-2025-31133", "1.3.2", true},
		{"CVE-2025-31133", "1.3.3", false},
		{"CVE-2025-31133", "1.4.0-rc.2", true},
		{"CVE-2025-31133", "1.4.0-rc.3", false},
		{"CVE-2025-31133", "1.4.0", false},
		{"CVE-2026-41579", "1.2.9", true}, // its branch got no fix
		{"CVE-2026-41579", "1.3.5", true},
		{"CVE-2026-41579", "1.3.6", false},
		{"CVE-2026-41579", "1.4.2", true},
		{"CVE-2026-41579", "1.4.3", false},
		{"CVE-2026-41579", "1.5.0", false},
		{"CVE-2026-41579", "2.0.0", false},
		{"CVE-2022-27650", "1.4.3", true},
		{"CVE-2022-27650", "1.8.1", false},
	} {
		i := slices.IndexFunc(flaws, func(f flaw) bool { return f.cve == c.cve })
		r, _ := traits.ParseVersion(c.version)
		if got := flaws[i].open(r); got != c.open {
			t.Errorf("%s in %s %s: open is %v, want %v", c.cve, flaws[i].in, c.version, got, c.open)
		}
	}
}

func TestJudge(t *testing.T) {
	deb := func(version string, fixes ...string) *debPackage {
		return &debPackage{name: "runc", version: version, fixes: fixes}
	}
	for _, c := range []struct {
		name, line string
		pkg        *debPackage
		ok         bool
		has, lacks []string // in the detail and the remedy
	}{
		{"newest", "runc version 1.5.2", nil, true, []string{"no known flaw"}, nil},
		{
			"old upstream build", "runc version 1.1.11", nil, false,
			[]string{"CVE-2025-31133", "CVE-2024-45310", "held by other means: CVE-2024-21626", "upgrade to runc 1.3.6, 1.4.3, 1.5.0 or later"},
			[]string{"your distribution", "the distribution fixed"},
		},
		{"Debian 12 before its fix", "runc version 1.1.5+ds1", deb("1.1.5+ds1-1"), false, []string{"CVE-2024-21626", "your distribution"}, []string{"the distribution fixed"}},
		{"Debian 12 with its fix", "runc version 1.1.5+ds1", deb("1.1.5+ds1-1+deb12u1"), false, []string{"the distribution fixed CVE-2024-21626", "CVE-2025-52881"}, nil},
		{"Debian 12 with a later one", "runc version 1.1.5+ds1", deb("1.1.5+ds1-1+deb12u2", "CVE-2025-31133", "CVE-2025-52565", "CVE-2025-52881", "CVE-2024-45310", "CVE-2026-41579"), true, []string{"the distribution fixed CVE-2024-21626"}, nil},
		{"another distribution's", "runc version 1.2.5-0ubuntu1", nil, false, []string{"your distribution"}, nil},
		{"crun", "crun version 1.8.1", nil, true, []string{"crun 1.8.1: no known flaw"}, nil},
		{"crun with an open /dev", "crun version 1.29.1", nil, true, []string{"no known flaw; held by other means: CVE-2026-88264 (no jail starts without a tmpfs at /dev), CVE-2026-88265"}, nil},
		{"crun without", "crun version 1.30", nil, true, []string{"crun 1.30: no known flaw"}, []string{"CVE"}},
		{"old crun", "crun version 0.10.4", nil, false, []string{"CVE-2019-18837"}, nil},
		{"other runtime", "youki version 0.5.0", nil, false, []string{"nothing is known"}, nil},
		{"nonsense", "hello", nil, false, []string{"not understood"}, nil},
		{"empty", "", nil, false, []string{"not understood"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := judge("/usr/bin/x", c.line, func(string) *debPackage { return c.pkg })
			text := a.Detail + " -> " + a.Remedy
			if a.OK != c.ok {
				t.Errorf("ok is %v: %s", a.OK, text)
			}
			for _, h := range c.has {
				if !strings.Contains(text, h) {
					t.Errorf("%q is not in %q", h, text)
				}
			}
			for _, l := range c.lacks {
				if strings.Contains(text, l) {
					t.Errorf("%q is in %q", l, text)
				}
			}
		})
	}
}

func TestCompareDebian(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"1.1.5+ds1-1+deb12u1", "1.1.5+ds1-1", 1},
		{"1.1.5+ds1-1+deb12u1", "1.1.5+ds1-1+deb12u1", 0},
		{"1.1.5+ds1-1+deb12u2", "1.1.5+ds1-1+deb12u1", 1},
		{"1.1.5+ds1-1+deb12u10", "1.1.5+ds1-1+deb12u9", 1},
		{"1.1.5+ds1-1~bpo11+1", "1.1.5+ds1-1", -1},
		{"1.1.5", "1.1.15", -1},
		{"1.01", "1.1", 0},
		{"1.0~rc93", "1.0", -1},
		{"1.0a", "1.0+", -1},
	} {
		got := compareDebian(c.a, c.b)
		if got > 0 != (c.want > 0) || got < 0 != (c.want < 0) {
			t.Errorf("compareDebian(%q, %q) = %d, want sign of %d", c.a, c.b, got, c.want)
		}
		if back := compareDebian(c.b, c.a); back > 0 != (got < 0) {
			t.Errorf("compareDebian is not symmetric for %q, %q", c.a, c.b)
		}
	}
}

func TestDebianOwner(t *testing.T) {
	const version = "1.1.5+ds1-1+deb12u1"
	const log = "runc (" + version + ") bookworm-security; urgency=high\n\n  * CVE-2024-21626: leaked fds\n\nrunc (1.1.5+ds1-1) unstable\n\n    + CVE-2023-25809\n"
	const status = "Package: other\nStatus: install ok installed\nVersion: 9\n\nPackage: runc\nStatus: install ok installed\nVersion: " + version + "\nDescription: x\n continued\n\nPackage: crun\nStatus: deinstall ok config-files\nVersion: 1.8.1-1\n\n"
	dir := t.TempDir()
	write := func(name, text string, zip bool) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		data := []byte(text)
		if zip {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			z.Write(data)
			z.Close()
			data = b.Bytes()
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("dpkg/status", status, false)
	write("dpkg/info/runc.list", "/.\n/usr\n/sbin/runc\n/usr/bin/runc-tool\n", false)
	write("dpkg/info/crun.list", "/usr/bin/crun\n", false)
	write("doc/runc/changelog.Debian.gz", log, true)
	e := Packages{filepath.Join(dir, "dpkg"), filepath.Join(dir, "doc")}

	p := debianOwner(e, "/usr/sbin/runc", "runc")
	if p == nil || p.version != version || !slices.Equal(p.fixes, []string{"CVE-2024-21626", "CVE-2023-25809"}) {
		t.Errorf("package of /usr/sbin/runc is %+v", p)
	}
	if p := debianOwner(e, "/usr/local/bin/runc", "runc"); p != nil {
		t.Errorf("a program outside the package is taken for %+v", p)
	}
	if p := debianOwner(e, "/usr/bin/crun", "crun"); p != nil {
		t.Errorf("a removed package is taken for installed: %+v", p)
	}
	if p := debianOwner(e, "/usr/bin/none", "none"); p != nil {
		t.Errorf("no package, but %+v", p)
	}
	// A rebuild by the distribution's machines has the same changelog.
	write("dpkg/status", strings.Replace(status, version, version+"+b4", 1), false)
	if p := debianOwner(e, "/usr/sbin/runc", "runc"); p == nil || p.version != version+"+b4" || len(p.fixes) != 2 {
		t.Errorf("package of a rebuild is %+v", p)
	}
	write("dpkg/status", status, false)
	// A changelog of another version proves nothing of this one.
	write("doc/runc/changelog.Debian.gz", strings.Replace(log, version, "1.1.5+ds1-2", 1), true)
	if p := debianOwner(e, "/usr/sbin/runc", "runc"); p == nil || len(p.fixes) != 0 {
		t.Errorf("fixes from another version's changelog: %+v", p)
	}
}
