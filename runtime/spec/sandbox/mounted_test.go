package sandbox

import (
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/kernel/mountinfo"
)

// TestMounted: file systems of this machine are shown at their places, and by none of them what a sandbox hides.
func TestMounted(t *testing.T) {
	const root = "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:5 / /proc rw - proc proc rw\n"
	for _, c := range []struct{ name, table, shown, left string }{
		{
			"disks, memory, volumes", "3 1 8:2 / /opt rw - ext4 /dev/b rw\n4 3 0:7 / /opt/x rw - tmpfs none rw\n5 1 0:8 /@var /var rw - btrfs /dev/c rw\n6 1 0:9 / /etc ro - overlay overlay rw",
			"/etc /opt /opt/x /var", "",
		},
		{"a network, a program", "3 1 0:7 / /srv rw - nfs4 host:/x rw\n4 1 0:8 / /data rw - fuse.sshfs u@h: rw\n5 1 8:3 / /win rw - fuseblk /dev/c rw\n6 1 0:9 / /share rw - cifs //h/s rw", "", "/srv /data /win /share"},
		{"the kernel's own", "3 1 0:7 / /srv/pipefs rw - rpc_pipefs sunrpc rw\n4 1 0:8 / /net rw - autofs auto rw\n5 1 0:9 / /creds rw - ramfs none rw", "", ""},
		{"empty directories, the kernel's, services'", "3 1 8:2 / /home rw - ext4 /dev/b rw\n4 1 0:7 / /run rw - tmpfs tmpfs rw\n5 1 8:3 / /boot/efi rw - vfat /dev/c rw\n6 1 8:4 / /mnt/usb rw - ext4 /dev/d rw\n" +
			"7 1 0:8 / /dev/shm rw - tmpfs x rw\n8 1 0:9 / /var/lib/docker/overlay2/x/merged rw - overlay overlay rw\n9 1 8:5 / /var/log rw - ext4 /dev/e rw\n10 1 8:6 / /root rw - ext4 /dev/f rw\n11 1 8:7 / /media/cd ro - iso9660 /dev/g ro", "", ""},
		{"their files elsewhere", "3 1 8:2 / /home rw - ext4 /dev/b rw\n4 1 8:2 /alice /srv/alice rw - ext4 /dev/b rw\n5 1 8:1 / /opt/all rw - ext4 /dev/a rw\n6 1 8:1 /root/x /opt/x rw - ext4 /dev/a rw\n" +
			"7 1 8:1 /var/lib/docker /opt/docker rw - ext4 /dev/a rw\n8 1 8:1 /var/lib /opt/lib rw - ext4 /dev/a rw\n9 1 8:1 /srv/y /opt/y rw - ext4 /dev/a rw", "/opt/y", "/srv/alice /opt/all /opt/x /opt/docker /opt/lib"},
		{"a parent of theirs, at its place", "3 1 8:2 / /var rw - ext4 /dev/b rw\n4 3 8:2 /tmp /var/tmp rw - ext4 /dev/b rw", "/var", ""},
		{"the same, at another", "3 1 8:2 / /var rw - ext4 /dev/b rw\n4 1 8:2 / /opt rw - ext4 /dev/b rw", "/var", "/opt"},
		{"covered", "3 1 8:2 / /opt/x rw - ext4 /dev/b rw\n4 1 0:7 / /opt rw - nfs h:/ rw", "", "/opt"},
		{"an image-based system", "3 1 8:1 / /sysroot ro - ext4 /dev/a rw\n4 1 8:1 /ostree/deploy/os/var /var rw - ext4 /dev/a rw\n5 1 8:1 /ostree/x/usr /usr ro - ext4 /dev/a rw", "/usr /var", ""},
	} {
		first := root
		if c.name == "an image-based system" {
			first = "1 0 8:1 /ostree/x / rw - ext4 /dev/a rw\n"
		}
		all, err := mountinfo.Parse(first + c.table)
		if err != nil {
			t.Fatal(err)
		}
		shown, left := Mounted(all)
		if !slices.Equal(shown, strings.Fields(c.shown)) || !slices.Equal(left, strings.Fields(c.left)) {
			t.Errorf("%s: %v and without %v, want %s and %s", c.name, shown, left, c.shown, c.left)
		}
	}
	var many string
	for i := range maxMounted + 1 {
		many += "9 1 9:1 / /snap/" + strings.Repeat("a", i+1) + " ro - squashfs /dev/loop ro\n"
	}
	all, err := mountinfo.Parse(root + many)
	if err != nil {
		t.Fatal(err)
	}
	if shown, left := Mounted(all); len(shown) != maxMounted || len(left) != 1 {
		t.Errorf("of many: %d, %d", len(shown), len(left))
	}
}
