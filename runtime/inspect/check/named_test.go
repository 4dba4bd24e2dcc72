package check

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/kernel/thread"
)

func TestNamed(t *testing.T) {
	const text = `30 20 0:26 / /sys/fs/cgroup rw - tmpfs cgroup rw,mode=755
31 30 0:27 / /sys/fs/cgroup/systemd rw,nosuid shared:1 - cgroup systemd rw,xattr,name=systemd
32 30 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct
33 30 0:29 / /sys/fs/cgroup/elogind rw - cgroup elogind rw,name=elogind
34 30 0:29 / /srv/again rw - cgroup elogind rw,name=elogind
35 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,name=no
36 30 0:31 / /srv/name=x rw - ext4 /dev/vda rw,name=y
`
	mounts, err := mountinfo.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := named(mounts), []string{"name=elogind at /sys/fs/cgroup/elogind"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestNamedHere mounts one where no one else sees it.
func TestNamedHere(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	name := "agentjail" + filepath.Base(dir) + "named"
	err := thread.Own(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return err
		}
		if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
			return err
		}
		if err := unix.Mount("cgroup", dir, "cgroup", 0, "none,name="+name); err != nil {
			return err
		}
		mounts, err := mountinfo.Read(mountinfo.OfThread)
		if err != nil {
			return err
		}
		if got := named(mounts); !strings.Contains(strings.Join(got, " "), "name="+name+" at "+dir) {
			t.Errorf("%q does not hold %s", got, name)
		}
		return unix.Unmount(dir, 0)
	})
	if err != nil {
		t.Skip("this kernel has no control groups of version 1:", err)
	}
}
