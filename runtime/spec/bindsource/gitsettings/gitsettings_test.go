package gitsettings

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCopy: what comes through, and what does not.
func TestCopy(t *testing.T) {
	for _, c := range []struct{ text, want, says string }{
		{"", "", ""},
		{
			"# a comment with ghp_0123456789abcdef\n[user]\n\tname = Ann Example ; and a remark\n\temail=ann@example.com\n",
			"[user]\n\tname = \"Ann Example\"\n\temail = \"ann@example.com\"\n", "",
		},
		{"\ufeff[Core]\r\n\tEditor = vi \\\r\n -n\r\n\tbare\r\n", "[core]\n\teditor = \"vi  -n\"\n\tbare\n", ""},
		{"[alias] lg = \"log --pretty=format:'%h \\\"%s\\\"'\"\n", "[alias]\n\tlg = \"log --pretty=format:'%h \\\"%s\\\"'\"\n", ""},
		{"[filter \"lfs\"]\nclean = git-lfs clean -- %f\nrequired = true", "[filter \"lfs\"]\n\tclean = \"git-lfs clean -- %f\"\n\trequired = \"true\"\n", ""},
		{"[url \"git@github.com:\"]\ninsteadOf = https://github.com/\n", "[url \"git@github.com:\"]\n\tinsteadof = \"https://github.com/\"\n", ""},
		{"[url \"ssh://ann@git.example.com/\"]\npushInsteadOf = https://git.example.com/\n", "[url \"ssh://ann@git.example.com/\"]\n\tpushinsteadof = \"https://git.example.com/\"\n", ""},
		{"[credential \"https://github.com\"]\nhelper =\nhelper = !/usr/bin/gh auth git-credential\n", "[credential \"https://github.com\"]\n\thelper = \"\"\n\thelper = \"!/usr/bin/gh auth git-credential\"\n", ""},
		{"[user]\nsigningkey = ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0123456789abcdefghijklmnopqrstuvwxyz012345 ann@example\n", "[user]\n\tsigningkey = \"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0123456789abcdefghijklmnopqrstuvwxyz012345 ann@example\"\n", ""},
		{"[user]\nsigningkey = 0123456789ABCDEF0123456789ABCDEF01234567\n", "[user]\n\tsigningkey = \"0123456789ABCDEF0123456789ABCDEF01234567\"\n", ""},
		{"[includeIf \"gitdir:~/work/\"]\npath = ~/.gitconfig-work\n", "[includeif \"gitdir:~/work/\"]\n\tpath = \"~/.gitconfig-work\"\n", ""},
		{"[http]\nsslVerify = false\n[http \"https://example.com/\"]\nproxy = http://proxy.example.com:3128\n", "[http]\n\tsslverify = \"false\"\n[http \"https://example.com/\"]\n\tproxy = \"http://proxy.example.com:3128\"\n", ""},

		{"[http]\nextraHeader = Authorization: Basic eDp5\n", "", "http.extraheader"},
		{"[http \"https://example.com/\"]\n\textraheader = X: y\n", "", "http.*.extraheader"},
		{"[http]\nproxy = http://ann:x@proxy:3128\n", "", "http.proxy"},
		{"[url \"https://ann:x@example.com/\"]\ninsteadOf = https://example.com/\n", "", "url.*"},
		{"[url \"https://x-oauth-basic@example.com/\"]\n", "", "url.*"},
		{"[url \"ssh://ann:x@example.com/\"]\n", "", "url.*"},
		{"[url.https://x@y/]\n", "", "SYNTAX"},
		{"[remote \"origin\"]\nurl = https://ghp_0123456789abcdef0123@github.com/a/b\n", "", "remote.*.url"},
		{"[github]\nuser = ann\noauth = abc\n", "", "github"},
		{"[credential]\nhelper = \"!f() { echo password=x; }; f\"\n", "", "credential.helper"},
		{"[credential]\nhelper = !printf x\n", "", "credential.helper"},
		{"[credential]\nhelper = store --file /x\n", "", "credential.helper"},
		{"[credential]\nwhatever = x\n", "", "credential.whatever"},
		{"[sendemail]\nsmtpPass = x\n", "", "sendemail.smtppass"},
		{"[alias]\nup = !curl -H 'PRIVATE-TOKEN: x' https://example.com\n", "", "alias.up"},
		{"[alias]\nup = !deploy 0123456789abcdef0123456789abcdef\n", "", "alias.up"},
		{"[user]\nsigningkey = github_pat_0123456789abcdef\n", "", "user.signingkey"},
		{"[core]\naskpass = \"echo gl\\\npat-0123456789\"\n", "", "core.askpass"},
		{"[core \"github_pat_0123456789\"]\n", "", "core.*"},
		{"name = x\n", "", "SYNTAX"},
		{"[user\nname = x\n", "", "SYNTAX"},
		{"[user]\nname = \"x\n", "", "SYNTAX"},
		{"[user]\n1 = x\n", "", "SYNTAX"},
		{"[user]\nname = \\x\n", "", "SYNTAX"},
		{"[user \"x]\n", "", "SYNTAX"},
		{"[core]\na = x\\", "", "SYNTAX"},
		{"[.core]\na=b\n", "", "SYNTAX"},
		{"[user \"x\" ]\n", "", "SYNTAX"},
		{"[]\n", "", "SYNTAX"},
		{"[user]\nna me = x\n", "", "SYNTAX"},
		{"[user]\nname = a\x00b\n", "", "SYNTAX"},
		{"[user]\n" + strings.Repeat("name = x\n", maxSettings+1), "", "too many"},
		{strings.Repeat("#", maxText+1), "", "larger"},
	} {
		got, err := Copy(c.text)
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%.80q: %v, %q, not %q", c.text, err, got, c.says)
			}
			for _, secret := range []string{"ghp_", "github_pat", "Basic", "ann:x", "x-oauth"} {
				if err != nil && strings.Contains(err.Error(), secret) {
					t.Errorf("%q: the message has the credential: %v", c.text, err)
				}
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%q: %v\ngot\n%s\nwant\n%s", c.text, err, got, c.want)
		}
		if again, err := Copy(got); err != nil || again != got {
			t.Errorf("%q: copied again: %q, %v", c.text, again, err)
		}
	}
}

// TestAsGitReads: git reads the same settings of a copy as of what was copied.
func TestAsGitReads(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Log("no git here to compare with")
		return
	}
	list := func(text string) string {
		at := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(git, "config", "--null", "--file", at, "--list").CombinedOutput()
		if err != nil {
			return "error"
		}
		return strings.NewReplacer("\t", " ", "\r", " ").Replace(string(out)) // versions of git differ
	}
	for _, text := range []string{
		"[user]\n\tname = Ann   Example  ; x\n", "[core]bare\nautocrlf=\n", "[core]\na = \" x \" y # \"z\"\n", "[core]\na = x \\\n\t y\n", "[core]\na=\"b\"c\"d e\"  \n",
		"[alias]\na = \"!f() { printf '\\\\t%s\\\\n' \\\"$1\\\"; }; f\"\n", "[Branch \"Main\\\"\\\\x\"]\nRemote = o\n", "[branch.Main]\nx=y\n", "[core]\r\na = b\r\n", "[core]\na = b\rc\n", "\t[core] a = b\n[user]", "[core]\na = b\\tc\\nd\\be\n",
		"[core]\na = b\t \tc\n", "[core]\na = \"x\\\ny\"\n", "[core]\na =   \n", "[core]\na = \"\" b\n", "[core]\na = b \"\"\n", "[core]\na = \"b \"\n", "[core]\na-1 = é 日本\n", "[core]a=b[user]name=c\n", "[branch.A.b \"C\"]\nx=y\n", "[core]\na ; x\n", "[core.]\na=b\n", "[core..x]\na=b\n", "[-]\na=b\n",
	} {
		got, err := Copy(text)
		want := list(text)
		if want == "error" && err == nil || err == nil && list(got) != want {
			t.Errorf("%q\ncopied as %q, %v\ngit reads %q\nof the copy %q", text, got, err, want, list(got))
		}
		if err != nil && want != "error" && !strings.Contains(err.Error(), "known") {
			t.Errorf("%q: %v; git reads %q", text, err, want)
		}
	}
}

// FuzzCopy: a copy holds only what was judged, is copied again as itself, and has no
// comments; no message holds a value.
func FuzzCopy(f *testing.F) {
	for _, s := range []string{"[user]\n\tname = Ann # x\n", "[url \"https://a:b@c/\"]\ninsteadof=x", "[core]\na = \"x\\\ny\"\n", "[branch \"a\\\"b\"]\nx", "[http]extraheader=x", "\ufeff[a.b]\r\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		out, err := Copy(text)
		if err != nil {
			if out != "" || len(err.Error()) > 300 {
				t.Errorf("%q: %q, %v", text, out, err)
			}
			return
		}
		again, err := Copy(out)
		if err != nil || again != out {
			t.Errorf("%q copied as %q, again as %q, %v", text, out, again, err)
		}
		for line := range strings.Lines(out) {
			if !strings.HasPrefix(line, "[") && !strings.HasPrefix(line, "\t") {
				t.Errorf("%q copied as %q", text, out)
			}
		}
		if strings.Contains(out, "extraheader") || issued().MatchString(out) {
			t.Errorf("%q copied as %q", text, out)
		}
	})
}
