package e2e

import (
	"os"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
)

// symptoms are what programs and engines say of what is different in a jail: docs/compatibility.md has each of these
// messages, for those who search for it.
var symptoms = []struct {
	name    string
	options []string // of docker run; WORK stands for a directory of uid 1000
	command string
	says    string // in the output
}{
	{"owner of a mounted file", []string{"-u", "1000", "-v", "WORK:/w"}, "touch /w/p; chown 0 /w/p", "Operation not permitted"},
	{"another than the owner", []string{"-v", "WORK:/w", "-u", "1000", "-l", "dev.agentjail.binds.owner=1001"}, "touch /w/p", "Permission denied"},
	{"exec as another user", []string{"-v", "WORK:/w"}, "su -s /bin/sh -c true app", "Operation not permitted"},
	{"chown as root", nil, "touch /tmp/x; chown 1000 /tmp/x", "Operation not permitted"},
	{"unshare", nil, "unshare -U true", "Function not implemented"},
	{"mount", nil, "mount -t tmpfs none /mnt", "Function not implemented"},
	{"network", nil, "nslookup example.com", "Network is unreachable"},
	{"ping", nil, "ping -c 1 127.0.0.1", "permission denied (are you root?)"},
	{"disable_ipv6", []string{"--sysctl", "net.ipv6.conf.all.disable_ipv6=1"}, "cat /proc/sys/net/ipv6/conf/lo/disable_ipv6; wc -l < /proc/net/if_inet6", "1\n0"},
}

// TestSymptoms: the messages that docs/compatibility.md lists are those that are met.
func TestSymptoms(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	text, err := os.ReadFile("../../docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := directory(t, 1000)
	for _, s := range symptoms {
		args := []string{"run", "--rm", jail}
		for _, o := range s.options {
			args = append(args, strings.ReplaceAll(o, "WORK", dir))
		}
		r := d.Docker(append(args, engine.Busybox, "sh", "-c", s.command)...)
		out := r.Stdout + r.Stderr
		t.Logf("%s: %s", s.name, out)
		if !strings.Contains(out, s.says) {
			t.Errorf("%s: not %q: %s", s.name, s.says, r)
		}
		if strings.Trim(s.says, "01\n") != "" && !strings.Contains(string(text), s.says) {
			t.Errorf("docs/compatibility.md does not have %q", s.says)
		}
	}
}
