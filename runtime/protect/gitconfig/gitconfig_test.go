package gitconfig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestScan: what is read of a text with faults, beside what git reads of one without.
func TestScan(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"[core]\n\thooksPath = a\\\nb\n", "core..hookspath=ab"},
		{"[Core] HooksPath=a # c\n", "core..hookspath=a"},
		{"[include]\npath = \\\n  ../x ; y\n", "include..path=../x"},
		{"[includeIf \"gitdir:~/w/\"]path=\"a b\"\n", "includeif.gitdir:~/w/.path=a b"},
		{"[filter.LFS]\nclean=x\n", "filter.lfs.clean=x"},
		{"[core]\nbroken line\nhookspath = a\n", "core..hookspath=a"},
		{"[core\nhookspath = a\n", ""},
		{"[core]\nx = \\q\nhookspath = a\n", "core..hookspath=a"},
		{"[core]\nx = \"a\nhookspath = a\n", "core..hookspath=a"},
		{"[core]\x00hookspath = a\x00b", "core..hookspath=a core..b="},
		{"[core]\nhookspath = a", "core..hookspath=a"},
		{"]]]][[[\n\n[a]b=c", "a..b=c"},
	} {
		var got []string
		for _, s := range Scan(c.text) {
			if s.Key != "" {
				got = append(got, s.Section+"."+s.Sub+"."+s.Key+"="+s.Value)
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%q: %q, want %q", c.text, text, c.want)
		}
	}
}

// TestLongNames: names as long as the text take no longer than others.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("a", 1<<20)
	for _, text := range []string{"[" + long + "]\nx=y", "[a]\n" + long, "[a \"" + long + "\"]", "[a]\nb=" + long, strings.Repeat("[", 1<<20), strings.Repeat("x\n", 1<<19)} {
		Scan(text)
	}
}

// TestAsGit: git reads the same settings.
func TestAsGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("no git on this machine")
	}
	for _, text := range []string{
		"[core]\n\thooksPath = a\\\n\tb\n[include \"x\"] path=../y\n", "[Alias]\n A-1 = \"!f() { ./x \\\"$@\\\"; }; f\" # y\n", "[diff \"A \\\" \\\\b\"]\r\n\ttextconv = ./x\r\n", "[core]\nbare\n",
	} {
		at := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(git, "config", "--null", "--file", at, "--list").Output()
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for _, s := range Scan(text) {
			if s.Key == "" {
				continue
			}
			got.WriteString(s.Section)
			if s.HasSub {
				got.WriteString("." + s.Sub)
			}
			got.WriteString("." + s.Key)
			if s.HasValue {
				got.WriteString("\n" + s.Value)
			}
			got.WriteByte(0)
		}
		plain := strings.NewReplacer("\t", " ") // versions of git differ
		if a, b := plain.Replace(got.String()), plain.Replace(string(out)); a != b {
			t.Errorf("%q: %q, git reads %q", text, a, b)
		}
	}
}

// FuzzScan: no text stops it, and of a text without a fault it reads what Parse does.
func FuzzScan(f *testing.F) {
	for _, s := range []string{"[core]\n\thooksPath = .husky/_\n", "[include \"x\"] path=\"../y\n[", "[a]\nb=\\\n\\", "\ufeff[a.b]\r\n", "[a]b=\"c\"\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Scan(text)
		want, err := Parse(text, len(text)+1)
		if err == nil && fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q: %v, parsed %v", text, got, want)
		}
		if len(got) > len(text) {
			t.Errorf("%q: %d settings", text, len(got))
		}
	})
}
