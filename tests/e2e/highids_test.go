package e2e

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// highImage makes an image with users and files of ids from 65536 on: of "high" in its account files, and of 400000.
func highImage(t *testing.T, d *engine.T) string {
	t.Helper()
	id := strings.TrimSpace(d.Must("create", "--runtime", "runc", engine.Busybox, "sh", "-c", `
		echo high:x:100000:100001::/h:/bin/sh >>/etc/passwd; echo team:x:300000: >>/etc/group
		mkdir /h /o; echo mine >/h/f; chown -R 100000:100001 /h; chmod 750 /h
		for f in read remove replace; do echo open >/o/$f; chown 400000:400000 /o/$f; done`))
	d.Must("start", "-a", id)
	image := "high-ids"
	d.Must("commit", id, image)
	d.Must("rm", id)
	t.Cleanup(func() { d.Docker("rmi", image) })
	return image
}

// TestHighIDs: users and groups from 65536 on are a process's, a further process's, an image's and a mount's, where the
// container or its image names them. Others are refused, and their files are as any other user's.
func TestHighIDs(t *testing.T) {
	d := d(t)
	image := highImage(t, d)
	work := t.TempDir()
	env.Check(t, unix.Chown(work, 1000, 1000))
	for _, c := range []struct {
		name    string
		options []string
		script  string
		want    string
	}{
		{"a user", []string{"-u", "100000:100001"}, "id -u; id -g; cat /h/f; touch /h/new; stat -c %u:%g /h /h/new", "100000\n100001\nmine\n100000:100001\n100000:100001"},
		{"by name", []string{"-u", "high"}, "id -un; cat /h/f", "high\nmine"},
		{"a user that no file names", []string{"-u", "200000:200000"}, "id -u; touch /tmp/x; stat -c %u:%g /tmp/x", "200000\n200000:200000"},
		{"the highest", []string{"-u", "2147483647"}, "id -u", "2147483647"},
		{"further groups", []string{"-u", "5:6", "--group-add", "70000", "--group-add", "300000"}, "id -G", "6 70000 300000"},
		{"beside the last ones", []string{"-u", "65519:65535", "--group-add", "70000"}, "id -u; id -G", "65519\n65535 70000"},
		{"owners in the image", nil, "stat -c %u:%g /h /o/read; cat /o/read", "100000:100001\n" + map[bool]string{true: "65534:65534", false: "400000:400000"}[engine.UnderTestIsAgentjail()] + "\nopen"},
		{"files of others", nil, "rm /o/remove && echo new >/o/x && mv /o/x /o/replace && cat /o/replace", "new"},
		{"a tmpfs", []string{"-u", "100000", "--tmpfs", "/t:uid=100000,mode=700"}, "touch /t/x; stat -c %u /t/x", "100000"},
		{"a volume", []string{"-u", "100000:100001", "-v", "/h/v"}, "touch /h/v/x; stat -c %u:%g /h/v /h/v/x", "100000:100001\n100000:100001"},
	} {
		env.Equal(t, c.name, mustRunJail(d, append(c.options, image, "sh", "-c", c.script)...), c.want)
	}
	id := startJail(d, image, "sleep", "3600")
	env.Equal(t, "exec", d.Must("exec", "-u", "high", id, "sh", "-c", "id -u; id -g; cat /h/f"), "100000\n100001\nmine")
	env.Equal(t, "exec, a group", d.Must("exec", "-u", "5:300000", id, "id", "-g"), "300000")
	if !engine.UnderTestIsAgentjail() {
		return
	}
	if r := d.Docker("exec", "-u", "200000", id, "true"); r.Code == 0 || !strings.Contains(r.Stderr+r.Stdout, `userns.ids = ["200000"]`) {
		t.Errorf("exec of a user that the jail lacks: %d %s%s", r.Code, r.Stdout, r.Stderr)
	}
	if out, code := ownVerb(t, "inspect", id); code != 0 {
		t.Errorf("inspect: %d, %s", code, out)
	}
	env.Equal(t, "in a mounted directory", mustRunJail(d, "-u", "100000:100001", "-v", work+":/w", image, "sh", "-c", "echo x >/w/f; stat -c %u:%g /w /w/f"), "100000:100001\n100000:100001")
	var st unix.Stat_t
	if err := unix.Stat(work+"/f", &st); err != nil || st.Uid != 1000 || st.Gid != 1000 {
		t.Errorf("on the host: %d:%d, %v", st.Uid, st.Gid, err)
	}
}
