package accounts

import (
	"strings"
	"testing"
)

const passwd = `root:$6$hash:0:0:Root of Example Ltd:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
backup-svc:x:998:998:the nightly backup:/srv/backup:/bin/sh
ann:x:1000:1000:Ann Example,Room 5,555-0100:/home/ann:/bin/zsh
bob:x:1001:1001:Bob Example:/home/bob:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
+@admins::::::
#x:x:0:0::/:/bin/sh
short:x:0:0
bad:x:-1:0::/:/bin/sh
last:x:1000:5:Second of that id:/home/last:/bin/sh`

func TestUsers(t *testing.T) {
	want := `root:x:0:0::/root:/bin/bash
daemon:x:1:1::/usr/sbin:/usr/sbin/nologin
ann:x:1000:1000::/home/ann:/bin/zsh
nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin
last:x:1000:5::/home/last:/bin/sh
`
	if got := Users(passwd, 1000); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := Users(want, 1000); got != want {
		t.Errorf("reduced again it is\n%s", got)
	}
	if got := Users(passwd, 0); strings.Contains(got, "ann") || !strings.Contains(got, "root:x:0:") {
		t.Errorf("for root:\n%s", got)
	}
}

func TestGroups(t *testing.T) {
	got := Groups("root:x:0:ann\nsudo:*:27:ann,bob\nann:x:1000:\ndocker:x:997:ann\nteam:!:2000:ann,bob\nnogroup:x:65534:\n", []uint32{1000, 2000})
	want := "root:x:0:\nsudo:x:27:\nann:x:1000:\nteam:x:2000:\nnogroup:x:65534:\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// FuzzUsers: whatever the table is, no password, comment or other account of it
// comes through, and what comes through does so again.
func FuzzUsers(f *testing.F) {
	f.Add(passwd, uint32(1000))
	f.Add("a:b:0:0:c:d:e\r\n:::::::\n\x00", uint32(0))
	f.Fuzz(func(t *testing.T, text string, uid uint32) {
		out := Users(text, uid)
		for line := range strings.Lines(out) {
			if p := strings.Split(strings.TrimSuffix(line, "\n"), ":"); len(p) != 7 || p[1] != "x" || p[4] != "" {
				t.Errorf("%q", line)
			}
		}
		if again := Users(out, uid); again != out {
			t.Errorf("%q again is %q", out, again)
		}
	})
}
