package flaws

import (
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/spec/traits"
)

// TestFloors: every row can be read, and has a fix that closes it.
func TestFloors(t *testing.T) {
	for _, f := range floors {
		if !cvePattern().MatchString(f.cve) || f.what == "" || f.in == "" || len(f.fixed) == 0 {
			t.Errorf("%s is incomplete", f.cve)
		}
		for _, v := range f.fixed {
			if r, ok := traits.ParseVersion(v); !ok || f.open(r) {
				t.Errorf("%s is open in its own fix %s", f.cve, v)
			}
		}
	}
	if e := Engines(); !slices.Equal(e, []string{"dockerd", "containerd", "runc", "crun"}) {
		t.Errorf("engines %v", e)
	}
}

func TestJudgeEngine(t *testing.T) {
	deb := func(name, version string, fixes ...string) *debPackage {
		return &debPackage{name: name, version: version, fixes: fixes}
	}
	for _, c := range []struct {
		path, line string
		pkg        *debPackage
		ok         bool
		has, lacks []string
	}{
		{"/usr/bin/dockerd", "Docker version 29.5.1, build abc", deb("docker-ce", "5:29.5.1-1~debian.12~bookworm"), true, []string{"dockerd 29.5.1"}, []string{"CVE"}},
		{
			"/usr/bin/dockerd", "Docker version 29.5.0, build abc", deb("docker-ce", "5:29.5.0-1~debian.12~bookworm"), false,
			[]string{"open: CVE-2026-41568", "noexec", "upgrade to dockerd 29.5.1"},
			[]string{"CVE-2026-34040", "it is unknown"},
		},
		{"/usr/bin/dockerd", "Docker version 29.2.0, build abc", nil, false, []string{"CVE-2026-34040 (an authorization plugin"}, nil},
		{
			"/usr/sbin/dockerd", "Docker version 20.10.24+dfsg1, build 5d6db84", deb("docker.io", "20.10.24+dfsg1-1+deb12u1+b6"), false,
			[]string{"it is unknown", "CVE-2026-42306", "security tracker"},
			[]string{"open:"},
		},
		{"/usr/sbin/dockerd", "Docker version 20.10.24+dfsg1, build 5d6db84", deb("docker.io", "20.10.24+dfsg1-1"), false, []string{"open: CVE-2026-41568"}, []string{"it is unknown"}},
		{
			"/usr/sbin/dockerd", "Docker version 26.1.5+dfsg1, build x", deb("docker.io", "26.1.5+dfsg1-9+deb13u1", "CVE-2026-41567", "CVE-2026-41568", "CVE-2026-42306", "CVE-2026-34040"), true,
			[]string{"the distribution fixed CVE-2026-41567"},
			[]string{"it is unknown"},
		},
		{"/usr/bin/containerd", "containerd github.com/containerd/containerd/v2 v2.4.2 3f1", nil, true, []string{"containerd v2.4.2"}, []string{"CVE"}},
		{"/usr/bin/containerd", "containerd github.com/containerd/containerd/v2 v2.2.4 3f1", nil, false, []string{"open: CVE-2026-47262", "held in jails by other means: CVE-2026-53488", "containerd 2.2.5, 2.3.2"}, nil},
		{"/usr/bin/containerd", "containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3", deb("containerd", "1.6.20~ds1-1+deb12u3"), false, []string{"it is unknown", "CVE-2026-47262"}, nil},
		{"/usr/bin/crun", "crun version 1.28", nil, true, nil, []string{"CVE"}},
		{"/usr/bin/crun", "crun version 1.26", nil, true, []string{"CVE-2026-47766 (agentjail", "CVE-2026-30892", "upgrade to crun 1.28.0"}, nil},
		{"/usr/sbin/runc", "runc version 1.3.5", nil, true, []string{"CVE-2026-41579"}, nil},
		{"/usr/bin/dockerd", "hello", nil, false, []string{"not understood"}, nil},
		{"/usr/bin/containerd", "", nil, false, []string{"not understood"}, nil},
	} {
		j := judgeEngine(c.path, c.line, func(name string) *debPackage {
			if c.pkg != nil && c.pkg.name == name {
				return c.pkg
			}
			return nil
		})
		text := j.Detail + " -> " + j.Remedy
		if j.OK != c.ok {
			t.Errorf("%s, %s: ok is %v: %s", c.path, c.line, j.OK, text)
		}
		for _, h := range c.has {
			if !strings.Contains(text, h) {
				t.Errorf("%s: %q is not in %q", c.line, h, text)
			}
		}
		for _, l := range c.lacks {
			if strings.Contains(text, l) {
				t.Errorf("%s: %q is in %q", c.line, l, text)
			}
		}
	}
}
