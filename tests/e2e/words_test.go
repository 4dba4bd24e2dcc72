package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestNumberedGroups: an additional group that is the process's own is no matter, whatever the image calls by that number. Where the
// delegate takes another number for a name of the image, the jail does not start, and the reason is reported.
func TestNumberedGroups(t *testing.T) {
	for name, groups := range map[string][]uint32{"own": {3000}, "another": {3000, 4000}} {
		t.Run(name, func(t *testing.T) {
			id := "e2e-groups-" + name
			b, c := bare(t, id)
			env.Check(t, os.WriteFile(filepath.Join(b.Rootfs, "etc/group"), []byte("root:x:0:\n3000:x:5:\n4000:x:6:\n"), 0o644))
			b.Spec.Process.User = specs.User{UID: 1000, GID: 3000, AdditionalGids: groups}
			b.Spec.Process.Args = []string{"id", "-G"}
			out, errOut, err := b.Call(t, c, "run", "--bundle", b.Dir, id)
			if err == nil {
				env.Equal(t, "groups", strings.TrimSpace(out), strings.Trim(strings.Join([]string{"3000", "4000"}[:len(groups)], " "), " "))
			} else if name == "own" || !strings.Contains(errOut, "(remedy: the number of a group without such a name)") {
				t.Errorf("%v: %s", err, errOut)
			}
		})
	}
}

// TestWrongKinds: a mount that cannot be made is refused with its own source and place, by each delegate, and in the words by which Docker
// recognises a directory over a file.
func TestWrongKinds(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	dir := directory(t, 1000)
	env.Put(t, filepath.Join(dir, "f"), "", 0o644, 1000)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"-v", dir + ":/etc/passwd"}, "mount of " + dir + " at /etc/passwd: refused: not a directory: a directory would cover a file"},
		{[]string{"-v", dir + "/f:/etc"}, "mount of " + dir + "/f at /etc: refused: not a directory: a file would cover a directory"},
		{[]string{"-v", dir + ":/w", "-v", dir + "/f:/w/d"}, ""},
		{[]string{"-v", dir + ":/w", "-v", dir + ":/w/f"}, "mount of " + dir + " at /w/f: refused: not a directory: a directory would cover a file"},
		{[]string{"-v", dir + ":/etc/passwd/x"}, "mount of " + dir + " at /etc/passwd/x: refused: not a directory: a file is on the way"},
		{[]string{"--tmpfs", "/etc/passwd"}, "mount of tmpfs at /etc/passwd: refused: not a directory: a directory would cover a file"},
		{[]string{"-v", dir + ":/w", "--tmpfs", "/w/f/x"}, "mount of tmpfs at /w/f/x: refused: not a directory: a file is on the way"},
		{[]string{"-v", "/etc/localtime:/etc"}, "mount of /etc/localtime at /etc: refused: not a directory: a file would cover a directory"},
		{[]string{"-v", "/dev/null:/etc"}, "mount of /dev/null at /etc: refused: not a directory: a file would cover a directory"},
		{[]string{"--tmpfs", "/sys"}, "mount at /sys: refused: it would cover the jail's own /sys (remedy: leave it out)"},
	} {
		r := runJail(d, append(c.args, engine.Busybox, "true")...)
		if (r.Code == 0) != (c.says == "") || !strings.Contains(r.Stderr, c.says) {
			t.Errorf("%q: want %q: %s", c.args, c.says, r)
		}
		if strings.Contains(c.says, "not a directory") && !strings.Contains(r.Stderr, "Are you trying to mount a directory onto a file") {
			t.Errorf("%q: Docker adds no advice: %s", c.args, r)
		}
	}
}
