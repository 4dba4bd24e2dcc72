package e2e

import (
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// differences are all the ways in which a jail is known to behave unlike a container of runc, each with its reason. What
// is not in this table is expected to be the same.
var differences = []struct {
	name    string
	options []string
	script  string // run by sh; what it prints is compared
	runc    string
	jail    string
	why     string
}{
	{
		"chown", nil, "touch /tmp/x; chown 1000 /tmp/x 2>/dev/null; stat -c %u /tmp/x", "1000", "0",
		"container root has no capability, CAP_CHOWN among them",
	},
	{
		"su", nil, "su app -c 'id -u' 2>/dev/null || echo no", "1000", "no",
		"nor CAP_SETUID: what an image starts as root stays root; docker run -u starts it as a user",
	},
	{
		"another user's files", nil, "touch /home/app/x 2>/dev/null && echo yes || echo no", "yes", "no",
		"nor CAP_DAC_OVERRIDE: container root is bound by modes like anybody; the image's /home/app belongs to 1000",
	},
	{
		"ping", nil, "ping -c 1 -W 1 127.0.0.1 >/dev/null 2>&1 && echo yes || echo no", "yes", "no",
		"nor CAP_NET_RAW, and the filter knows no raw sockets",
	},
	{
		"mknod", nil, "mknod /tmp/n c 1 3 2>/dev/null && echo yes || echo no", "yes", "no",
		"nor CAP_MKNOD; devices are what the runtime put into /dev",
	},
	{"chroot", nil, "chroot / true 2>/dev/null && echo yes || echo no", "yes", "no", "nor CAP_SYS_CHROOT"},
	{
		"set-user-id bit", nil, "cp /bin/busybox /tmp/b; chmod u+s /tmp/b 2>/dev/null; stat -c %a /tmp/b", "4755", "755",
		"the filter refuses modes with set-id bits: such a file in a workspace would be run by the host",
	},
	{
		"interfaces", nil, "ls /sys/class/net 2>/dev/null | grep -c eth0; grep -q eth0 /proc/net/route && echo route || echo none", "1\nroute", "0\nnone",
		"no network: an interface that the engine plugs in is down, without address or route, and sysfs does not show it",
	},
	{
		"disk", nil, "[ $(df -m / | tail -n 1 | awk '{print $2}') -le 1024 ] && echo capped || echo disk", "disk", "capped",
		"changes go to an ephemeral layer in memory, at most 1 GiB",
	},
	{
		"memory", nil, "f=/sys/fs/cgroup/memory/memory.limit_in_bytes; [ -e $f ] || f=/sys/fs/cgroup/memory.max; [ $(cat $f | tr -d max) -le 4294967296 ] 2>/dev/null && echo capped || echo host", "host", "capped",
		"policy limits memory to 4 GiB where the bundle requests more or nothing",
	},
	{
		"uid map", nil, "awk '{print $2 == 0 ? \"host ids\" : \"own ids\"}' /proc/self/uid_map", "host ids", "own ids",
		"container root is an unprivileged id of the host",
	},
	{
		"uptime", nil, "[ $(cut -d. -f1 /proc/uptime) -lt 60 ] && echo fresh || echo machine", "machine", "fresh",
		"a time namespace",
	},
}

// TestEveryDocumentedDifference holds both sides of every difference: one that is gone has to leave the table.
func TestEveryDocumentedDifference(t *testing.T) {
	needAgentjail(t)
	for _, c := range differences {
		t.Run(c.name, func(t *testing.T) {
			d := d(t)
			for rt, want := range map[string]string{"runc": c.runc, engine.Name: c.jail} {
				if rt == "runc" && len(d.Degraded) > 0 && c.name == "interfaces" {
					continue
				}
				args := append([]string{"run", "--rm", "--runtime=" + rt}, c.options...)
				r := d.Docker(append(args, engine.Busybox, "sh", "-c", c.script)...)
				if got := strings.TrimSpace(r.Stdout); got != want {
					t.Errorf("under %s: got %q, want %q (%s)", rt, got, want, c.why)
				}
			}
		})
	}
}

// TestRestartForgets: what a jail changed in its image is gone when it starts again. (Volumes and directories stay.)
func TestRestartForgets(t *testing.T) {
	needAgentjail(t)
	for rt, want := range map[string]string{"runc": "kept", engine.Name: "fresh"} {
		d := docker.For(t)
		id := d.Detached("--runtime="+rt, engine.Busybox, "sh", "-c", "[ -e /mark ] && echo kept || echo fresh; touch /mark; sleep 3600")
		env.Eventually(d, "the mark", func() bool { return d.Docker("exec", id, "test", "-e", "/mark").Code == 0 })
		d.Must("restart", "-t", "0", id)
		env.Eventually(d, "the second start", func() bool { return strings.Count(d.Must("logs", id), "\n") >= 1 })
		env.Equal(t, "second start under "+rt, engine.LastLine(d.Must("logs", id)), want)
	}
}

// TestCommitIsImage: docker commit takes the engine's own layer, which a jail never writes.
func TestCommitIsImage(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	id := startJail(d, engine.Busybox, "sh", "-c", "touch /made; sleep 3600")
	env.Eventually(d, "the file", func() bool { return d.Docker("exec", id, "test", "-e", "/made").Code == 0 })
	d.Must("commit", id, "e2e-committed")
	t.Cleanup(func() { d.Docker("rmi", "e2e-committed") })
	env.Equal(t, "the jail's change", mustRunJail(d, "e2e-committed", "sh", "-c", "[ -e /made ] && echo there || echo not there"), "not there")
	env.Equal(t, "owners", mustRunJail(d, "e2e-committed", "stat", "-c", "%u", "/bin/busybox", "/home/app"), "0\n1000")
}
