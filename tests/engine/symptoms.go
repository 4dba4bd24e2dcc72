package engine

import (
	"fmt"
	"strings"
)

// A Symptom is what a program or an engine states of what is different in a jail, as docs/compatibility.md has it for those who search for
// the message.
type Symptom struct {
	Name    string
	Options []string // of docker run; WORK stands for a directory of uid 1000
	Command string   // a shell's
	Says    string   // a part of what is written
}

// Symptoms are those that the image Busybox is enough for.
var Symptoms = []Symptom{
	{"owner of a mounted file", []string{"-u", "1000", "-v", "WORK:/w"}, "touch /w/p; chown 0 /w/p", "Operation not permitted"},
	{"another than the owner", []string{"-v", "WORK:/w", "-u", "1000", "-l", "dev.agentjail.binds.owner=1001"}, "touch /w/p", "Permission denied"},
	{"exec as another user", []string{"-v", "WORK:/w"}, "su -s /bin/sh -c true app", "Operation not permitted"},
	{"chown as root", nil, "touch /tmp/x; chown 1000 /tmp/x", "Operation not permitted"},
	{"unshare", nil, "unshare -U true", "Function not implemented"},
	{"mount", nil, "mount -t tmpfs none /mnt", "Function not implemented"},
	{"chroot", nil, "chroot / true", "Function not implemented"},
	{"kernel's log", nil, "dmesg", "Function not implemented"},
	{"clock", nil, "date -s 00:00", "Function not implemented"},
	{"priority", nil, "ionice -c 1 true", "Operation not permitted"},
	{"secrets", []string{"-v", "/etc/shadow:/x:ro"}, "true", "it holds the host's configuration and secrets"},
	{"network", nil, "nslookup example.com", "Network is unreachable"},
	{"ping", nil, "ping -c 1 127.0.0.1", "permission denied (are you root?)"},
	{"disable_ipv6", []string{"--sysctl", "net.ipv6.conf.all.disable_ipv6=1"}, "cat /proc/sys/net/ipv6/conf/lo/disable_ipv6; wc -l < /proc/net/if_inet6", "1\n0"},
}

// Args are docker run's, behind those that choose the runtime. dir is the directory of uid 1000.
func (s Symptom) Args(dir string) []string {
	var args []string
	for _, o := range s.Options {
		args = append(args, strings.ReplaceAll(o, "WORK", dir))
	}
	return append(args, Busybox, "sh", "-c", s.Command)
}

// Met is nil where what docker run left has the message.
func (s Symptom) Met(r Result) error {
	if !strings.Contains(r.Stdout+r.Stderr, s.Says) {
		return fmt.Errorf("%s: not %q: %s", s.Name, s.Says, r)
	}
	return nil
}
