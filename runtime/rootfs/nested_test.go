package rootfs

import (
	"os"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// TestNestedInNested: what lies in a nested mount is mounted in that one, and its
// mount point is made there and not in what that covers.
func TestNestedInNested(t *testing.T) {
	onThread(t, func(t *testing.T) {
		top := t.TempDir()
		put(t, top, "outer/:1000", "inner/:1001", "deep/x:1002", "deep/:1002", "ro/point/:1000", "ro/:1000")
		r := request(t, image(t),
			bindMount(top+"/outer", "/w", "bind"),
			bindMount(top+"/inner", "/w/sub", "rbind"),
			bindMount(top+"/deep", "/w/sub/a/b", "rbind", "ro"),
			specs.Mount{Destination: "/w/tmp", Type: "tmpfs", Source: "tmpfs", Options: []string{"noexec", "nosuid", "nodev", "size=65536", "mode=750", "uid=5"}},
			bindMount(top+"/deep", "/w/tmp/c/d", "rbind"),
			bindMount(top+"/ro", "/ro", "rbind", "rro", "rnosuid", "rrelatime"), bindMount(top+"/deep", "/ro/point", "rbind"),
			specs.Mount{Destination: "/t", Type: "tmpfs", Source: "tmpfs"}, bindMount(top+"/deep", "/t/x", "rbind"))
		staged(t, r)
		var names []string
		for _, m := range r.Spec.Mounts {
			names = append(names, m.Destination+" "+m.Type)
		}
		want(t, "what the delegate mounts", strings.Join(names, ", "), "/w bind, /ro bind, /t tmpfs, /t/x bind")
		want(t, "the outer's options", strings.Join(r.Spec.Mounts[1].Options, " "), "rbind ro nosuid relatime ro")
		at := r.Spec.Mounts[0].Source
		want(t, "deep", content(t, at+"/sub/a/b/x"), "deep/x")
		want(t, "in a tmpfs", content(t, at+"/tmp/c/d/x"), "deep/x")
		want(t, "in a read-only mount", content(t, r.Spec.Mounts[1].Source+"/point/x"), "deep/x")
		want(t, "a point in the inner directory", owner(top+"/inner/a/b"), "1001:1001")
		if _, err := os.Lstat(top + "/outer/sub/a"); err == nil {
			t.Error("a point in what the inner directory covers")
		}
		var st unix.Stat_t
		must(t, unix.Stat(at+"/tmp", &st))
		if st.Uid != base+5 || st.Gid != base || st.Mode&0o7777 != 0o750 {
			t.Errorf("the tmpfs is %d:%d, mode %o", st.Uid, st.Gid, st.Mode)
		}
		for path, flags := range map[string]int64{"/sub/a/b": unix.ST_RDONLY | unix.ST_NOSUID | unix.ST_NODEV, "/tmp": unix.ST_NOEXEC | unix.ST_NOSUID | unix.ST_NODEV, "/sub": unix.ST_NOSUID | unix.ST_NODEV} {
			var fs unix.Statfs_t
			must(t, unix.Statfs(at+path, &fs))
			if got := int64(fs.Flags) & (unix.ST_RDONLY | unix.ST_NOEXEC | unix.ST_NOSUID | unix.ST_NODEV); got != flags {
				t.Errorf("%s has flags %x, not %x", path, got, flags)
			}
		}
		_, err := Stage(*request(t, image(t), bindMount(top+"/ro", "/ro", "rbind", "ro"), bindMount(top+"/deep", "/ro/absent", "rbind")))
		if err == nil || !strings.Contains(err.Error(), "cannot be made in a read-only mount (remedy:") {
			t.Errorf("no mount point: %v", err)
		}
	})
}

// TestPointsAsOwner: mount points are made with the owner's rights: nothing is
// made where the owner may make nothing, and nothing changes its owner.
func TestPointsAsOwner(t *testing.T) {
	onThread(t, func(t *testing.T) {
		top := t.TempDir()
		put(t, top, "proj/roots/:0:755", "proj/:1000", "x/", "proj/open/:0:777")
		if _, err := Stage(*request(t, image(t), bindMount(top+"/proj", "/w", "rbind"), bindMount(top+"/x", "/w/roots/x", "rbind"))); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("in root's directory: %v", err)
		}
		want(t, "root's directory", owner(top+"/proj/roots"), "0:0")
		staged(t, request(t, image(t), bindMount(top+"/proj", "/w", "rbind"), bindMount(top+"/x", "/w/open/x", "rbind")))
		want(t, "a point in an open directory", owner(top+"/proj/open/x"), "1000:1000")
		must(t, os.Mkdir(top+"/after", 0o755))
		want(t, "what is made afterwards", owner(top+"/after"), "0:0")
	})
}

// TestNestedRace: while a jail is staged, somebody exchanges a directory on the way to
// a nested mount with a link that leads to where another directory is mounted. The
// mount is in its place, or there is none.
func TestNestedRace(t *testing.T) {
	onThread(t, func(t *testing.T) {
		top := t.TempDir()
		put(t, top, "shared/x/", "shared/y->/", "other/:1000", "shared/:1000", "shared/x/:1000")
		stop, stopped := make(chan struct{}), make(chan int)
		go func() {
			n := 0
			for {
				select {
				case <-stop:
					stopped <- n
					return
				default:
				}
				if unix.Renameat2(unix.AT_FDCWD, top+"/shared/x", unix.AT_FDCWD, top+"/shared/y", unix.RENAME_EXCHANGE) == nil {
					n++
				}
			}
		}()
		made, refused := 0, 0
		for range 60 {
			r := request(t, image(t), bindMount(top+"/shared", "/shared", "rbind"), bindMount(top+"/other", "/shared/x/dev", "rbind"))
			if _, err := Stage(*r); err != nil {
				if !strings.Contains(err.Error(), "symbolic link") && !strings.Contains(err.Error(), "no such file") {
					t.Errorf("%v", err)
				}
				refused++
				continue
			}
			made++
			if len(r.Spec.Mounts) != 1 {
				t.Errorf("the delegate resolves %+v", r.Spec.Mounts)
			}
		}
		close(stop)
		n := <-stopped
		t.Logf("%d exchanges, %d staged, %d refused", n, made, refused)
		if n < 60 || made == 0 || refused == 0 {
			t.Skipf("no race: %d exchanges, %d staged, %d refused", n, made, refused)
		}
	})
}
