package rootfs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/pathname"
)

// mountPoints are those of this thread.
func mountPoints(t *testing.T) []string {
	t.Helper()
	var out []string
	for line := range strings.Lines(threadMounts(t)) {
		out = append(out, strings.Fields(line)[4])
	}
	return out
}

// TestLeaveOut: what is not needed is not there, what is needed is, also by a name with a link in it, and the
// working directory stays.
func TestLeaveOut(t *testing.T) {
	onThread(t, func(t *testing.T) {
		must(t, unix.Unshare(unix.CLONE_NEWNS))
		must(t, unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""))
		dir := t.TempDir()
		put(t, dir, "container/1/", "container/2/", "disk/", "at/", "ns/file")
		must(t, os.Symlink(dir+"/disk", dir+"/link"))
		for _, at := range []string{"/container/1", "/container/2", "/disk", "/at"} {
			must(t, unix.Mount("test", dir+at, "tmpfs", 0, ""))
		}
		put(t, dir, "disk/deep/er/", "disk/deep/not/", "container/2/x")
		for _, at := range []string{"/disk/deep/er", "/disk/deep/not"} {
			must(t, unix.Mount("test", dir+at, "tmpfs", 0, ""))
		}
		must(t, unix.Mount("/proc/self/ns/uts", dir+"/ns/file", "", unix.MS_BIND, ""))
		must(t, unix.Chdir(dir+"/at"))
		before := mountPoints(t)
		must(t, isolate())
		must(t, keepMounts([]string{"", dir + "/link/deep/er/not/there/yet", dir + "/ns/file", "/proc/self/ns/mnt"}))
		got := mountPoints(t)
		for _, at := range []string{"/disk", "/disk/deep/er", "/at", "/ns/file"} {
			want(t, at, slices.Contains(got, dir+at), true)
		}
		for _, at := range []string{"/container/1", "/container/2", "/disk/deep/not"} {
			want(t, at, slices.Contains(got, dir+at), false)
		}
		for _, tree := range wholeTrees {
			for _, at := range before {
				if pathname.Within(at, tree) {
					want(t, at, slices.Contains(got, at), true)
				}
			}
		}
		if _, err := os.Lstat(dir + "/container/2/x"); !os.IsNotExist(err) {
			t.Errorf("a file of another container's: %v", err)
		}
		if at, err := os.Readlink("/proc/thread-self/cwd"); err != nil || at != dir+"/at" {
			t.Errorf("the working directory is %q, %v", at, err)
		}
		root, err := os.Readlink("/proc/thread-self/root")
		want(t, "root", root, "/")
		must(t, err)
		// Twice does no harm.
		must(t, keepMounts([]string{filepath.Join(dir, "disk")}))
		want(t, "again", slices.Contains(mountPoints(t), dir+"/disk"), true)
	})
}

// TestLeaveOutNothing: where a mount cannot be had in the new tree, or the root not be left, all stay.
func TestLeaveOutNothing(t *testing.T) {
	onThread(t, func(t *testing.T) {
		must(t, isolate())
		dir := t.TempDir()
		must(t, unix.Mount("test", dir, "tmpfs", 0, ""))
		must(t, unix.Chdir(dir))
		before := mountPoints(t)
		l := &sparse{seen: map[string]bool{"/": true}}
		defer l.close()
		want(t, "cloned", l.clone(nil), true)
		l.mounts = append(l.mounts, kept{dir + "/not/there", -1})
		must(t, l.enter())
		must(t, unix.Chdir(dir))
		want(t, "mounts", strings.Join(mountPoints(t), "\n"), strings.Join(before, "\n"))
		// Nor is one left behind that is in no namespace's root.
		must(t, keepMounts([]string{dir}))
		want(t, "now", len(mountPoints(t)) <= len(before), true)
	})
}
