package approver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// command is a program of a shell's, where root's programs are.
func command(t *testing.T, text string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: the program has to be root's, and is run by another user")
	}
	dir, err := os.MkdirTemp("/var/lib", "approver-test-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "decide")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestDecide: an answer decides, and whatever is none denies the name once, with the reason.
func TestDecide(t *testing.T) {
	q := Question{"jail", "a.example.org", 443}
	for _, c := range []struct{ what, text, want, why string }{
		{"allow", `echo '{"allow": true}'`, "true until the jail's end", ""},
		{"once", `echo '{"allow": true, "once": true}'`, "true once", ""},
		{"for", `echo '{"allow": true, "for": "30m"}'`, "true for 30m0s", ""},
		{"deny", `echo '{"allow": false, "for": "1h"}'`, "false for 1h0m0s", ""},
		{
			"the question", `read -r line; [ "$line" = '{"jail":"jail","name":"a.example.org","port":443}' ] && [ "$1" = -v ] && echo '{"allow":true}'`,
			"true until the jail's end", "",
		},
		{
			"a user without rights", `[ "$(id -u) $(id -g)" = "2147483648 2147483648" ] && grep -q "NoNewPrivs:.1" /proc/self/status && grep -q "CapEff:.0000000000000000" /proc/self/status && [ -z "$AGENTJAIL_TEST" ] && echo '{"allow":true}'`,
			"true until the jail's end", "",
		},

		{"nothing", ``, "false once", "EOF"},
		{"bad JSON", `echo yes`, "false once", "invalid character"},
		{"no decision", `echo '{}'`, "false once", "no allow"},
		{"another field", `echo '{"allow": true, "name": "b.example.org"}'`, "false once", "unknown field"},
		{"two answers", `echo '{"allow": true} {}'`, "false once", "more than one"},
		{"a bad time", `echo '{"allow": true, "for": "-1h"}'`, "false once", "more than 0"},
		{"once and for", `echo '{"allow": true, "once": true, "for": "1h"}'`, "false once", "not with once"},
		{"too long", `echo '{"allow": true}'; head -c 100000 /dev/zero | tr '\0' ' '`, "false once", "more than 4096 bytes"},
		{"status 1", `echo '{"allow": true}'; exit 1`, "false once", "exit status 1"},
		{"slow", `echo '{"allow": true}'; sleep 1000`, "false once", "not ended after"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Setenv("AGENTJAIL_TEST", "1")
			begun := time.Now()
			v, err := Decide(t.Context(), []string{command(t, c.text), "-v"}, q)
			got := fmt.Sprintf("%v %s", v.Allow, v.Span())
			if got != c.want || v.Name != q.Name || v.Port != q.Port || (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
				t.Errorf("%s, %v; want %s, %s", got, err, c.want, c.why)
			}
			if c.what == "slow" && time.Since(begun) > 10*patience {
				t.Errorf("it took %v", time.Since(begun))
			}
		})
	}
	path := command(t, `echo '{"allow": true}'`)
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	if v, err := Decide(t.Context(), []string{path}, q); v.Allow || err == nil {
		t.Errorf("a program that others may write: %+v", v)
	}
}
