package mountinfo

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	got, err := Parse("36 35 98:0 /a /a\\040b rw,nosuid shared:1 master:1 - ext4 /dev/x ro,errors=continue\n" +
		"37 36 0:1 / /proc ro - proc proc rw\n38 36 0:2 / /c rw - tmpfs  rw,size=4k\n")
	want := []Mount{
		{ID: "36", Parent: "35", Dev: "98:0", Root: "/a", Point: "/a b", Options: "rw,nosuid", Tags: "shared:1 master:1", FS: "ext4", Source: "/dev/x", Super: "ro,errors=continue"},
		{ID: "37", Parent: "36", Dev: "0:1", Root: "/", Point: "/proc", Options: "ro", FS: "proc", Source: "proc", Super: "rw"},
		{ID: "38", Parent: "36", Dev: "0:2", Root: "/", Point: "/c", Options: "rw", FS: "tmpfs", Super: "rw,size=4k"}, // an empty source
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v, want %+v", got, err, want)
	}
	if !got[0].ReadOnly() || !got[1].ReadOnly() || got[2].ReadOnly() {
		t.Error("a mount is read-only, or its file system, or neither")
	}
	if got[2].Value("size") != "4k" || got[2].Value("siz") != "" || got[0].Value("errors") != "continue" {
		t.Error("values of options")
	}
	if l := got[0].Lacks("nosuid", "nodev", "rw"); !reflect.DeepEqual(l, []string{"nodev"}) {
		t.Errorf("lacks %v", l)
	}
}

func TestParseBad(t *testing.T) {
	for _, bad := range []string{"nonsense", "36 35 98:0 /a /b rw ext4 /dev/x rw", "36 35 98:0 /a - ext4 /dev/x rw", "36 35 98:0 /a /b rw - ext4", "36 35 98:0 /a /b rw - ext4 /dev/x"} {
		if got, err := Parse("37 36 0:1 / /proc ro - proc proc rw\n" + bad + "\n"); !errors.Is(err, ErrNotMount) || !strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %+v, %v", bad, got, err)
		}
	}
}

func TestListed(t *testing.T) {
	for _, c := range []struct {
		list, word string
		ok         bool
	}{{"rw,nosuid", "nosuid", true}, {"nosuid", "nosuid", true}, {"rw,nosuidx", "nosuid", false}, {"", "ro", false}, {"errors=ro", "ro", false}, {"ro,x", "ro", true}} {
		if got := listed(c.list, c.word); got != c.ok {
			t.Errorf("listed(%q, %q) is %v", c.list, c.word, got)
		}
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{`/a\040b`: "/a b", `\134`: `\`, `\9`: `\9`, `\04`: `\04`, "": "", `\777`: `\777`, `a\011b\012`: "a\tb\n", `\134040`: `\040`} {
		if got := Unescape(in); got != want {
			t.Errorf("Unescape(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("36 35 98:0 /a /a\\040b rw,nosuid shared:1 - ext4 /dev/x ro\n")
	f.Fuzz(func(t *testing.T, text string) {
		ms, err := Parse(text)
		if err == nil && len(ms) != len(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })) {
			t.Errorf("%d mounts of %q", len(ms), text)
		}
	})
}
