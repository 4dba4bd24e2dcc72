package apparmor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// loadedProfile is one of the fake kernel's.
type loadedProfile struct{ name, mode, attach string }

// loadAll gives the fake kernel its list and its tree of profiles.
func loadAll(t *testing.T, s system, profiles ...loadedProfile) {
	t.Helper()
	var list strings.Builder
	for i, p := range profiles {
		fmt.Fprintf(&list, "%s (%s)\n", p.name, p.mode)
		dir := filepath.Join(s.securityfs, "policy/profiles", fmt.Sprintf("%s.%d", directoryName(p.name), i))
		for file, text := range map[string]string{"name": p.name, "mode": p.mode, "attach": p.attach} {
			write(t, filepath.Join(dir, file), text+"\n")
		}
	}
	write(t, filepath.Join(s.securityfs, "profiles"), list.String())
}

// TestAttachedTo: what the kernel's list states of a program's path, and whether a jail's start
// leaves it.
func TestAttachedTo(t *testing.T) {
	bin := t.TempDir()
	crun := filepath.Join(bin, "crun")
	write(t, crun, "")
	if err := os.Symlink("crun", filepath.Join(bin, "other")); err != nil {
		t.Fatal(err)
	}
	here, err := filepath.EvalSymlinks(crun)
	if err != nil {
		t.Fatal(err)
	}
	pattern := strings.Replace(here, "/crun", "/{crun,runc}", 1)
	for _, c := range []struct {
		what     string
		program  string
		profiles []loadedProfile
		want     []Attached
	}{
		{"none", crun, []loadedProfile{{"bash", "enforce", "/usr/bin/bash"}, {"docker-default", "enforce", "docker-default"}}, nil},
		{"Debian 13's", crun, []loadedProfile{{"crun", "unconfined", pattern}}, []Attached{{"crun", "unconfined", true}}},
		{"one that confines", crun, []loadedProfile{{"crun", "enforce", here}}, []Attached{{"crun", "enforce", false}}},
		{"one that complains", crun, []loadedProfile{{"crun", "complain", here}}, []Attached{{"crun", "complain", false}}},
		{"of another name", crun, []loadedProfile{{"oci", "unconfined", here}}, []Attached{{"oci", "unconfined", false}}},
		{"its name is the path", crun, []loadedProfile{{here, "enforce", here}}, []Attached{{here, "enforce", false}}},
		{"no path of it", crun, []loadedProfile{{"crun", "unconfined", "/elsewhere/crun"}}, nil},
		{"chosen by name only", crun, []loadedProfile{{"crun", "enforce", "crun"}}, nil},
		{"an unknown path", crun, []loadedProfile{{"crun", "unconfined", "<unknown>"}, {"man", "enforce", "<unknown>"}}, []Attached{{"crun", "unconfined", true}}},
		{"a wider one", crun, []loadedProfile{{"crun", "unconfined", here}, {"all", "enforce", "/**"}}, []Attached{{"crun", "unconfined", true}}},
		{"a wider one alone", crun, []loadedProfile{{"all", "enforce", "/**"}}, []Attached{{"all", "enforce", false}}},
		{"by a link", filepath.Join(bin, "other"), []loadedProfile{{"crun", "unconfined", here}}, []Attached{{"crun", "unconfined", false}}},
	} {
		s, _ := fake(t)
		loadAll(t, s, c.profiles...)
		if got, err := s.attachedTo(c.program); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v (%v), not %+v", c.what, got, err, c.want)
		}
	}
	s, _ := fake(t)
	if err := os.RemoveAll(filepath.Join(s.securityfs, "policy")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.attachedTo(crun); !errors.Is(err, errNoInterface) {
		t.Errorf("without securityfs: %v", err)
	}
	if _, err := s.attachedTo(crun + "-gone"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no file: %v", err)
	}
	write(t, s.enabled, "N\n")
	if got, err := s.attachedTo(crun); len(got) > 0 || err != nil {
		t.Errorf("without AppArmor: %v, %v", got, err)
	}
}

// TestMatches: AppArmor's patterns.
func TestMatches(t *testing.T) {
	for pattern, c := range map[string]struct{ yes, no string }{
		"/usr/bin/crun":             {"/usr/bin/crun", "/usr/bin/crun2"},
		"/usr/{bin,sbin}/crun":      {"/usr/sbin/crun", "/usr/lib/crun"},
		"/{usr/,}{s,}bin/{r,c}un*":  {"/bin/runc", "/bin/xun"},
		"/usr/*/crun":               {"/usr/bin/crun", "/usr/local/bin/crun"},
		"/usr/**/crun":              {"/usr/local/bin/crun", "/opt/crun"},
		"/usr/bin/*":                {"/usr/bin/crun", "/usr/bin/"},
		"/usr/bin/cru?":             {"/usr/bin/crun", "/usr/bin/cru/"},
		"/usr/bin/[cr]un":           {"/usr/bin/run", "/usr/bin/sun"},
		"/usr/bin/[^cr]un":          {"/usr/bin/sun", "/usr/bin/run"},
		`/usr/bin/a\*b`:             {"/usr/bin/a*b", "/usr/bin/aab"},
		"/usr/bin/a.b(c)+,":         {"/usr/bin/a.b(c)+,", "/usr/bin/axb(c)+,"},
		"/snap/{,x{1,2}}/bin/crun":  {"/snap/x2/bin/crun", "/snap/x/bin/crun"},
		"/**/{bin,sbin}/{,k}crun":   {"/a/b/bin/crun", "/a/b/crun"},
		"/usr/lib/x{,-[0-9]*}/crun": {"/usr/lib/x-12/crun", "/usr/lib/x-a/crun"},
	} {
		if !matches(pattern, c.yes) || matches(pattern, c.no) {
			t.Errorf("%s: %s %t, %s %t", pattern, c.yes, matches(pattern, c.yes), c.no, matches(pattern, c.no))
		}
	}
	for _, broken := range []string{"/{", "/[z-a]", "/{a,"} {
		if matches(broken, "/") || matches(broken, "/a") {
			t.Errorf("%s matches", broken)
		}
	}
}

// TestModesOneByOne: an ordinary user, whom the kernel denies the list, is shown each profile.
func TestModesOneByOne(t *testing.T) {
	s, _ := fake(t)
	loadAll(t, s, loadedProfile{"crun", "unconfined", "/usr/bin/crun"}, loadedProfile{"/usr/bin/crun", "enforce", "/usr/bin/crun"},
		loadedProfile{"crun.2", "enforce", "x"}, loadedProfile{"bash", "enforce", "x"})
	for _, c := range []struct {
		names []string
		want  []string
	}{
		{[]string{"crun"}, []string{"unconfined"}},
		{[]string{"crun", "/usr/bin/crun"}, []string{"unconfined", "enforce"}},
		{[]string{"usr.bin.crun"}, nil},
		{[]string{"runc"}, nil},
	} {
		listed, err := s.modes(c.names...)
		if err != nil || !reflect.DeepEqual(listed, c.want) {
			t.Errorf("%q: the list has %q (%v)", c.names, listed, err)
		}
		if got, err := s.modesOneByOne(c.names...); err != nil || len(got) != len(c.want) || len(got) == 1 && got[0] != c.want[0] {
			t.Errorf("%q: the tree has %q (%v), not %q", c.names, got, err, c.want)
		}
	}
	for name, want := range map[string]string{"crun": "crun", "/usr/bin/crun": "usr.bin.crun", "a b//&c{d}": "a_b..cd", "..x": "x"} {
		if got := directoryName(name); got != want {
			t.Errorf("%s is in %s, not %s", name, got, want)
		}
	}
}
