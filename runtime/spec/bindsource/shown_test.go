package bindsource

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/kernel/users"
	"agentjail.dev/runtime/spec/policy"
)

// TestShown: a source is judged by each place of the host's tree that shows it or a part of it.
func TestShown(t *testing.T) {
	all := &Mounts{fd: -1, list: parsed(t, `20 1 8:1 /@ / rw - btrfs /dev/sda1 rw
21 20 8:1 /@home /home rw - btrfs /dev/sda1 rw
22 20 8:1 / /mnt/top rw - btrfs /dev/sda1 rw
30 20 8:2 / /mnt/data rw - ext4 /dev/sda2 rw
31 20 8:2 /people /export/home rw - ext4 /dev/sda2 rw
32 20 8:2 /docker /var/lib/docker rw - ext4 /dev/sda2 rw
33 20 8:2 /ws /srv/ws rw - ext4 /dev/sda2 rw
34 20 8:2 /ws/src /srv/again rw - ext4 /dev/sda2 rw
35 20 8:2 /ws /var/lib/kubelet/pods/1/volume-subpaths/v/c/0 rw - ext4 /dev/sda2 rw
36 20 8:2 /ws /run/host/ws rw - ext4 /dev/sda2 rw
40 20 8:1 /@home/u/.ssh /srv/other/keys rw - btrfs /dev/sda1 rw
41 20 8:2 /ws/src /srv/other/src rw - ext4 /dev/sda2 rw
`)}
	for _, c := range []struct{ id, path, names, parts, refused string }{
		{"22", "/mnt/top", "", "/ /home /srv/other/keys", "a part of it is mounted at /,"},
		{"22", "/mnt/top/@home/u", "/home/u", "/srv/other/keys", "it is /home/u, mounted there, and it holds /home/u/.ssh where there is one"},
		{"22", "/mnt/top/@/etc", "/etc", "", "it is /etc, mounted there"},
		{"30", "/mnt/data", "", "/export/home /var/lib/docker /srv/ws /srv/again /var/lib/kubelet/pods/1/volume-subpaths/v/c/0 /run/host/ws /srv/other/src", "a part of it is mounted at /var/lib/docker, and an engine keeps"},
		{"30", "/mnt/data/people/u/p", "/export/home/u/p", "", ""},
		{"30", "/mnt/data/people/u/.ssh", "/export/home/u/.ssh", "", "a user's keys"},
		{"30", "/mnt/data/docker", "/var/lib/docker", "", ""},
		{"30", "/mnt/data/ws/src", "/srv/ws/src /srv/again /var/lib/kubelet/pods/1/volume-subpaths/v/c/0/src /run/host/ws/src /srv/other/src", "", ""},
		{"33", "/srv/ws", "/mnt/data/ws /var/lib/kubelet/pods/1/volume-subpaths/v/c/0 /run/host/ws", "/srv/again /srv/other/src", ""},
	} {
		f := Fact{Path: c.path, Kind: Dir, UID: 1000}
		var err error
		f.Also, f.Shown, err = all.elsewhere(c.id, c.path, true)
		if names, parts := strings.Join(f.Shown.Names, " "), strings.Join(f.Shown.Parts, " "); err != nil || names != c.names || parts != c.parts {
			t.Errorf("%s: names %q, parts %q, %v", c.path, names, parts, err)
		}
		f.Also = ""
		if why := text(Refusal(f, false, policy.Binds{})); !strings.Contains(why, c.refused) || (why == "") != (c.refused == "") {
			t.Errorf("%s: %q", c.path, why)
		}
	}
	_, forbidden, reached, err := all.below("/srv/other", users.New())
	if err != nil || strings.Join(forbidden, " ") != "/home/u/.ssh" || !slices.Contains(reached, "/srv/ws/src") || !slices.Contains(reached, "/srv/other/src") {
		t.Errorf("below /srv/other: forbidden %q, reached %q, %v", forbidden, reached, err)
	}
}

// TestFollowReview: a pattern stands for what links on its way lead to, and no other.
func TestFollowReview(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(err)
	for _, dir := range []string{"home/a/src", "home/b", "data/b*", "data/c/x", "deep/y"} {
		check(os.MkdirAll(filepath.Join(top, dir), 0o755))
	}
	for link, to := range map[string]string{
		"home/b/src": "../../data/b*", "home/c": "../data/c", "data/c/src": "/none/yet", "name": "home", "home/file": "/etc/passwd", "deep/y/link": "/etc",
	} {
		check(os.Symlink(to, filepath.Join(top, link)))
	}
	for pattern, want := range map[string]string{
		"home/*/src/**":  "/etc/passwd/src/** /none/yet/** " + top + `/data/b\*/** ` + top + "/data/c/src/**",
		"home/a/src/**":  "",
		"name/[ab]/src":  top + `/data/b\* ` + top + "/home/[ab]/src",
		"deep/**/x":      "",
		"none/at/all/**": "",
	} {
		got, err := FollowReview([]string{filepath.Join(top, pattern)})
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v, not %q", pattern, got, err, want)
		}
	}
	if _, err := (&follower{room: 2}).fitting(filepath.Join(top, "home"), "*"); err == nil || !strings.Contains(err.Error(), "remedy") {
		t.Errorf("beyond the bound: %v", err)
	}
}
