package rootfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
)

// image is a plain root file system with the usual directories.
func image(t *testing.T, more ...string) string {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, append([]string{"bin/sh", "dev/", "proc/", "sys/", "etc/hosts", "work/"}, more...)...)
	return dir
}

// theirs is another owner's id in a mount: no process has it (idmap.WithOthers).
func theirs(id uint32) string {
	at := idmap.WithOthers(nil, nil)[0].HostID + id
	return fmt.Sprintf("%d:%d", at, at)
}

// TestOwnerMapping: a mounted directory's owner on the host is the jail's process
// user, and no one else is anybody.
func TestOwnerMapping(t *testing.T) {
	for _, uid := range []int{1000, 0, 4711} {
		t.Run(fmt.Sprint("directory of ", uid), func(t *testing.T) {
			onThread(t, func(t *testing.T) {
				proj := t.TempDir()
				put(t, proj, fmt.Sprintf("mine:%d:600", uid), "other:2000:600", "others:2000:644", fmt.Sprintf("sub/:%d:700", uid), "roots:0:600", fmt.Sprintf("su:%d:4755", uid))
				must(t, os.Chown(proj, uid, uid))
				must(t, os.Chmod(proj, 0o755))
				r := request(t, image(t), bindMount(proj, "/work", "rbind"))
				staged(t, r)
				at := r.Spec.Mounts[0].Source
				if at == proj || !strings.HasPrefix(at, r.Dir) {
					t.Fatalf("the delegate is given %s", at)
				}
				want(t, "the directory", owner(at), jailed(1000))
				want(t, "its owner's file", owner(at+"/mine"), jailed(1000))
				want(t, "another's file", owner(at+"/other"), theirs(2000))
				if uid != 0 {
					want(t, "root's file", owner(at+"/roots"), theirs(0))
				}
				as(t, base+1000, base+1000, func() {
					must(t, os.WriteFile(at+"/new", []byte("new"), 0o644))
					must(t, os.Mkdir(at+"/newdir", 0o755))
					must(t, os.WriteFile(at+"/mine", []byte("changed"), 0o600))
					must(t, os.WriteFile(at+"/sub/x", nil, 0o600))
					want(t, "what all may read", content(t, at+"/others"), "others")
					if _, err := os.ReadFile(at + "/other"); err == nil {
						t.Error("another's private file was read")
					}
					if err := os.WriteFile(at+"/others", []byte("x"), 0o644); err == nil {
						t.Error("another's file was written")
					}
					// EPERM is what programs forgive (cp -p), EOVERFLOW is not.
					for _, ids := range [][2]int{{int(base), -1}, {int(base) + 65534, -1}, {-1, int(base) + 1}, {int(base) + 1001, int(base) + 1001}} {
						if err := os.Chown(at+"/new", ids[0], ids[1]); !errors.Is(err, unix.EPERM) {
							t.Errorf("a file was given to %v: %v", ids, err)
						}
					}
					must(t, os.Chown(at+"/new", int(base)+1000, int(base)+1000))
				})
				for _, n := range []string{"new", "newdir", "mine", "sub/x"} {
					want(t, n+" on the host", owner(filepath.Join(proj, n)), fmt.Sprintf("%d:%d", uid, uid))
				}
				// The jail's root is one of the others here.
				as(t, base, base, func() {
					if err := os.WriteFile(at+"/roots-new", nil, 0o644); !errors.Is(err, unix.EACCES) {
						t.Errorf("another user of the jail wrote into the directory: %v", err)
					}
				})
				// Where anybody may write, the files of the jail's other users are on
				// the host those of ids that no user has.
				must(t, os.Chmod(proj, 0o777))
				as(t, base, base+5, func() { must(t, os.WriteFile(at+"/roots-new", nil, 0o644)) })
				want(t, "another's file", owner(at+"/roots-new"), fmt.Sprintf("%d:%d", base, base+5))
				want(t, "another's file on the host", owner(proj+"/roots-new"), fmt.Sprintf("%d:%d", idmap.ReservedFirst, idmap.ReservedFirst+5))
				var fs unix.Statfs_t
				must(t, unix.Statfs(at, &fs))
				want(t, "nosuid and nodev", fs.Flags&(unix.ST_NOSUID|unix.ST_NODEV), unix.ST_NOSUID|unix.ST_NODEV)
			})
		})
	}
}

// TestNamedOwner: the directory's owner is who is named, and the first process's
// user is one of the others.
func TestNamedOwner(t *testing.T) {
	onThread(t, func(t *testing.T) {
		proj := t.TempDir()
		must(t, os.Chown(proj, 4711, 4712))
		must(t, os.Chmod(proj, 0o755))
		r := request(t, image(t), bindMount(proj, "/work", "rbind"))
		r.Plan.User = plan.User{UID: 33, GID: 34}
		staged(t, r)
		at := r.Spec.Mounts[0].Source
		as(t, base+33, base+34, func() { must(t, os.WriteFile(at+"/new", nil, 0o644)) })
		want(t, "its file on the host", owner(proj+"/new"), "4711:4712")
		as(t, base+1000, base+1000, func() {
			if err := os.WriteFile(at+"/first", nil, 0o644); !errors.Is(err, unix.EACCES) {
				t.Errorf("the first process's user wrote: %v", err)
			}
		})
	})
}

// TestReservedDirectory: a directory that a jail's other user made can be mounted
// itself.
func TestReservedDirectory(t *testing.T) {
	onThread(t, func(t *testing.T) {
		proj := t.TempDir()
		id := idmap.ReservedFirst + 1001
		must(t, os.Chown(proj, id, id))
		r := request(t, image(t), bindMount(proj, "/work", "rbind"))
		staged(t, r)
		at := r.Spec.Mounts[0].Source
		want(t, "the directory", owner(at), jailed(1000))
		as(t, base+1000, base+1000, func() {
			must(t, os.WriteFile(at+"/new", nil, 0o644))
			if err := os.Chown(at+"/new", int(base)+1001, -1); !errors.Is(err, unix.EPERM) {
				t.Errorf("its file was given away: %v", err)
			}
		})
		want(t, "its file on the host", owner(proj+"/new"), fmt.Sprintf("%d:%d", id, id))
	})
}

// TestRootsGroup: a directory of a user's whose group is root's does not give the
// jail root's group.
func TestRootsGroup(t *testing.T) {
	onThread(t, func(t *testing.T) {
		proj := t.TempDir()
		put(t, proj, "mine:1000:600", "group:0:640")
		must(t, os.Chown(proj, 1000, 0))
		must(t, os.Chmod(proj, 0o775))
		r := request(t, image(t), bindMount(proj, "/work", "rbind"))
		staged(t, r)
		at := r.Spec.Mounts[0].Source
		as(t, base+1000, base+1000, func() {
			if _, err := os.ReadFile(at + "/group"); err == nil {
				t.Error("a file that root's group may read was read")
			}
			must(t, os.WriteFile(at+"/new", nil, 0o644))
			if err := os.Chown(at+"/new", -1, int(base)); !errors.Is(err, unix.EPERM) {
				t.Errorf("a file was given to the jail's group 0: %v", err)
			}
		})
		want(t, "a new file on the host", owner(proj+"/new"), "1000:65534")
		var st unix.Stat_t
		must(t, unix.Stat(at+"/group", &st))
		if st.Gid >= base && st.Gid < base+idmap.RangeSize {
			t.Errorf("root's group is %d in the jail", st.Gid-base)
		}
	})
}

// TestBindKinds: a file, read-only, noexec, a volume, the engine's own.
func TestBindKinds(t *testing.T) {
	onThread(t, func(t *testing.T) {
		dir := t.TempDir()
		must(t, os.Chmod(dir, 0o755))
		put(t, dir, "file:1000:600", "ro/x:1000", "noexec/prog:1000:755", "vol/db:999:600", "vol/:999", "hosts:0:644", "secret:0:600")
		must(t, os.Chown(dir+"/ro", 1000, 1000))
		r := request(t, image(t),
			bindMount(dir+"/file", "/etc/conf", "bind"), bindMount(dir+"/ro", "/ro", "rbind", "ro"), bindMount(dir+"/noexec", "/ne", "bind", "noexec"),
			bindMount(dir+"/vol", "/vol", "rbind", "same"), bindMount(dir+"/hosts", "/etc/hosts", "bind", "ro", "none"), bindMount(dir+"/secret", "/secret", "bind", "ro", "none"))
		staged(t, r)
		at := func(i int) string { return r.Spec.Mounts[i].Source }
		want(t, "a file", owner(at(0)), jailed(1000))
		as(t, base+1000, base+1000, func() {
			must(t, os.WriteFile(at(0), []byte("changed"), 0o600))
			want(t, "a read-only directory's file", content(t, at(1)+"/x"), "ro/x")
			if err := os.WriteFile(at(1)+"/x", nil, 0o600); !errors.Is(err, unix.EROFS) {
				t.Errorf("a read-only directory was written: %v", err)
			}
			want(t, "the engine's file", content(t, at(4)), "hosts")
			if err := os.WriteFile(at(4), nil, 0o600); !errors.Is(err, unix.EROFS) {
				t.Errorf("the engine's file was written: %v", err)
			}
			if _, err := os.ReadFile(at(5)); err == nil {
				t.Error("a file of root's alone was read")
			}
		})
		want(t, "on the host", content(t, dir+"/file"), "changed")
		want(t, "the engine's file", owner(at(4)), "0:0")
		var fs unix.Statfs_t
		must(t, unix.Statfs(at(2), &fs))
		want(t, "noexec", fs.Flags&unix.ST_NOEXEC, unix.ST_NOEXEC)
		want(t, "a volume's file", owner(at(3)+"/db"), jailed(999))
		as(t, base+999, base+999, func() { must(t, os.WriteFile(at(3)+"/db", []byte("x"), 0o600)) })
		want(t, "a volume's file on the host", owner(dir+"/vol/db"), "999:999")
	})
}

// TestSubmounts: what is mounted below a directory comes along with its owners
// mapped, unless that is impossible or not wanted.
func TestSubmounts(t *testing.T) {
	onThread(t, func(t *testing.T) {
		proj := t.TempDir()
		must(t, os.Chmod(proj, 0o755))
		put(t, proj, "sub/below:1000", "sub/:1000", "proc/below:1000", "proc/:1000")
		must(t, os.Chown(proj, 1000, 1000))
		must(t, unix.Mount("disk", proj+"/sub", "tmpfs", 0, "mode=755,uid=1000,gid=1000"))
		put(t, proj, "sub/on-disk:1000")
		r := request(t, image(t), bindMount(proj, "/work", "rbind"), bindMount(proj, "/flat", "bind", "flat"), bindMount(proj, "/ro", "rbind", "ro"))
		st := staged(t, r)
		want(t, "notes", len(st.Notes), 0)
		want(t, "below", owner(r.Spec.Mounts[0].Source+"/sub/on-disk"), jailed(1000))
		want(t, "flat", content(t, r.Spec.Mounts[1].Source+"/sub/below"), "sub/below")
		as(t, base+1000, base+1000, func() {
			must(t, os.WriteFile(r.Spec.Mounts[0].Source+"/sub/new", nil, 0o644))
			if err := os.WriteFile(r.Spec.Mounts[2].Source+"/sub/new2", nil, 0o644); !errors.Is(err, unix.EROFS) {
				t.Errorf("below a read-only directory: %v", err)
			}
		})
		// procfs cannot be idmapped: the directory comes alone, and that is stated.
		must(t, unix.Mount("proc", proj+"/proc", "proc", 0, ""))
		r = request(t, image(t), bindMount(proj, "/work", "rbind"))
		r.Needed = []string{proj + "/proc"} // for the last of these
		st = staged(t, r)
		if len(st.Notes) != 1 || !strings.Contains(st.Notes[0], "without what is mounted below it") {
			t.Errorf("notes %q", st.Notes)
		}
		want(t, "the directory behind procfs", content(t, r.Spec.Mounts[0].Source+"/proc/below"), "proc/below")
		// A volume of the jail's own pod comes as it is.
		const uid = "0a1b2c3d-1111-2222-3333-0a1b2c3d4e5f"
		vol := proj + "/kubelet/pods/" + uid + "/volumes/kubernetes.io~secret/s"
		must(t, os.MkdirAll(vol, 0o755))
		must(t, unix.Mount("proc", vol, "proc", 0, ""))
		r = request(t, image(t), bindMount(vol, "/secret", "rbind"))
		f := &r.Sources[0].Fact
		r.Needed = []string{proj + "/proc"}
		f.Role, f.Pod, f.Also, r.Plan.Binds[0].Owner = bindsource.Pod, uid, "", plan.OwnerSame
		st = staged(t, r)
		if len(st.Notes) != 1 || !strings.Contains(st.Notes[0], "its owners show as user 65534") {
			t.Errorf("notes %q", st.Notes)
		}
		if _, err := os.Stat(r.Spec.Mounts[0].Source + "/uptime"); err != nil {
			t.Error(err)
		}
		// Read-only, what everybody may read comes from any file system.
		r = request(t, image(t), bindMount(proj+"/proc", "/work", "rbind", "ro"))
		r.Needed = []string{proj + "/proc"}
		if st = staged(t, r); len(st.Notes) != 1 || !strings.Contains(st.Notes[0], "its owners show as user 65534") {
			t.Errorf("notes %q", st.Notes)
		}
		// A directory whose own file system cannot be idmapped is refused by name.
		_, err := Stage(*request(t, image(t), bindMount(proj+"/proc", "/work", "rbind")))
		if err == nil || !strings.Contains(err.Error(), "the proc file system cannot map owners") || !strings.Contains(err.Error(), "remedy") {
			t.Errorf("%v", err)
		}
	})
}

// TestMovedSource: the directory that was opened and judged is mounted, whatever
// stands at its name since.
func TestMovedSource(t *testing.T) {
	onThread(t, func(t *testing.T) {
		dir := t.TempDir()
		put(t, dir, "proj/good", "secret/bad")
		r := request(t, image(t), bindMount(dir+"/proj", "/work", "rbind"))
		must(t, os.Rename(dir+"/proj", dir+"/moved"))
		must(t, os.Symlink("secret", dir+"/proj"))
		staged(t, r)
		want(t, "what is mounted", content(t, r.Spec.Mounts[0].Source+"/good"), "proj/good")
		if _, err := os.Lstat(r.Spec.Mounts[0].Source + "/bad"); err == nil {
			t.Error("what stands at the name now is mounted")
		}
	})
}

// TestNestedPoints: mount points below a writable directory are made for its owner,
// and nothing is made through a symbolic link.
func TestNestedPoints(t *testing.T) {
	onThread(t, func(t *testing.T) {
		top := t.TempDir()
		put(t, top, "proj/", "cache/x", "file", "victim/")
		must(t, os.Chown(top+"/proj", 1000, 1001))
		r := request(t, image(t),
			bindMount(top+"/proj", "/work", "rbind"), bindMount(top+"/cache", "/work/.cache/deep", "rbind"), bindMount(top+"/file", "/work/etc/conf", "bind"),
			specs.Mount{Destination: "/work/tmp/", Type: "tmpfs", Source: "tmpfs"}, specs.Mount{Destination: "/workshop", Type: "tmpfs"})
		staged(t, r)
		for _, n := range []string{".cache", ".cache/deep", "etc", "etc/conf", "tmp"} {
			want(t, n, owner(top+"/proj/"+n), "1000:1001")
		}
		if fi, err := os.Lstat(top + "/proj/etc/conf"); err != nil || !fi.Mode().IsRegular() {
			t.Errorf("%v %v", fi, err)
		}
		if entries, _ := os.ReadDir(top + "/proj"); len(entries) != 3 {
			t.Errorf("%v", entries)
		}
		// All are mounted with the outermost, which the delegate gets.
		if len(r.Spec.Mounts) != 2 || r.Spec.Mounts[1].Destination != "/workshop" || !slices.Contains(r.Spec.Mounts[0].Options, "rbind") {
			t.Errorf("the delegate is to mount %+v", r.Spec.Mounts)
		}
		at := r.Spec.Mounts[0].Source
		want(t, "a nested directory", content(t, at+"/.cache/deep/x"), "cache/x")
		want(t, "a nested file", content(t, at+"/etc/conf"), "file")
		want(t, "a nested tmpfs", owner(at+"/tmp"), jailed(0))
		if _, err := os.Lstat(top + "/proj/.cache/deep/x"); err == nil {
			t.Error("the nested directory shows on the host")
		}
		// Again, over what is there already.
		staged(t, request(t, image(t), bindMount(top+"/proj", "/work", "rbind"), bindMount(top+"/cache", "/work/.cache/deep", "rbind"), bindMount(top+"/file", "/work/etc/conf", "bind")))

		// An agent left links where the next jail's mount points will be.
		put(t, top, "next/")
		must(t, os.Chown(top+"/next", 1000, 1001))
		for _, target := range []string{"../victim", top + "/victim", "/dev", "/etc", "/work", "."} {
			must(t, os.RemoveAll(top+"/next/.cache"))
			must(t, os.Symlink(target, top+"/next/.cache"))
			for _, ro := range []string{"rw", "ro"} {
				_, err := Stage(*request(t, image(t), bindMount(top+"/next", "/work", "rbind", ro), bindMount(top+"/cache", "/work/.cache/deep", "rbind")))
				if err == nil || !strings.Contains(err.Error(), "the symbolic link /work/.cache, in a mounted directory, is in the way") {
					t.Errorf("%s, %s: %v", target, ro, err)
				}
				_, err = Stage(*request(t, image(t), bindMount(top+"/next", "/work", "rbind", ro), bindMount(top+"/cache", "/work/.cache", "rbind")))
				if err == nil || !strings.Contains(err.Error(), "the symbolic link /work/.cache") {
					t.Errorf("%s, %s, as the last part: %v", target, ro, err)
				}
			}
			if entries, _ := os.ReadDir(top + "/victim"); len(entries) != 0 {
				t.Fatalf("made through the link to %s: %v", target, entries)
			}
		}
		// A file in the way is the delegate's to complain about.
		must(t, os.RemoveAll(top+"/next/.cache"))
		put(t, top, "next/.cache")
		_, _ = Stage(*request(t, image(t), bindMount(top+"/next", "/work", "rbind"), bindMount(top+"/cache", "/work/.cache/deep", "rbind")))
		want(t, "the file in the way", content(t, top+"/next/.cache"), "next/.cache")
	})
}

// TestImageLinks: the image's symbolic links lead no mount to where none may be.
func TestImageLinks(t *testing.T) {
	onThread(t, func(t *testing.T) {
		proj := t.TempDir()
		usual := []specs.Mount{
			{Destination: "/proc", Type: "proc"},
			{Destination: "/dev", Type: "tmpfs"},
			{Destination: "/dev/pts", Type: "devpts"},
			{Destination: "/sys", Type: "tmpfs"},
			{Destination: "/sys/fs/cgroup", Type: "cgroup"},
			{Destination: "/dev/shm", Type: "tmpfs"},
			{Destination: "/dev/mqueue", Type: "mqueue"},
			{Destination: "/run", Type: "tmpfs", Options: []string{"tmpcopyup"}},
		}
		for _, c := range []struct {
			name  string
			links []string
			at    string
			says  string
		}{
			{"none", nil, "/work", ""},
			{"a usual one", []string{"var/run->/run", "run/x/"}, "/var/run/x", ""},
			{"merged directories", []string{"usr/sbin/", "sbin->usr/sbin"}, "/sbin/init", ""},
			{"up and down", []string{"a/b/", "c->a/b/../../a"}, "/c/b/x", ""},
			{"past the top", []string{"up->../../../etc"}, "/up/y", ""},
			{"over a file", nil, "/etc/x", "refused: not a directory: a directory would cover a file (remedy: a file as the source, or another place)"},
			{"below a file", nil, "/etc/x/y/z", "refused: not a directory: a file is on the way (remedy: another place)"},
			{"to itself", []string{"ring->ring"}, "/ring/x", "too many levels"},
			{"to /dev", []string{"w->/dev"}, "/w", "the image's symbolic link /w leads it to /dev"},
			{"to /dev, relative", []string{"a/w->../dev"}, "/a/w", "leads it to /dev"},
			{"to a device", []string{"w->/dev"}, "/w/null", "leads it to /dev/null"},
			{"to /proc", []string{"w->proc/sys"}, "/w/kernel", "leads it to /proc/sys/kernel"},
			{"to /sys by two", []string{"w->v", "v->/sys"}, "/w/x", "leads it to /sys/x"},
			{"to the root", []string{"w->/"}, "/w", "leads it to /"},
			{"to the root by a detour", []string{"w->/etc/.."}, "/w", "leads it to /"},
			{"/dev itself", []string{"dev->work"}, "/work", "mount at /dev: refused: the image's symbolic link /dev leads it to /work"},
			{"/proc itself", []string{"proc->work"}, "/work", "mount at /proc: refused"},
			{"/sys itself", []string{"sys->work"}, "/work", "mount at /sys: refused"},
			{"in a tmpfs that begins as the image's directory", []string{"run/w->/dev"}, "/run/w", "leads it to /dev"},
		} {
			img := t.TempDir()
			put(t, img, "etc/x", "work/")
			for _, d := range []string{"proc", "dev", "sys"} {
				if !strings.HasPrefix(strings.Join(c.links, " "), d+"->") {
					put(t, img, d+"/")
				}
			}
			put(t, img, c.links...)
			mounts := append(append([]specs.Mount{}, usual...), bindMount(proj, c.at, "rbind"))
			_, err := Stage(*request(t, img, mounts...))
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%s: %v, not %q", c.name, err, c.says)
			}
		}
	})
}

// TestNodes: a device that policy allows is there for the jail's user to open,
// with the mode and the owner that the spec states.
func TestNodes(t *testing.T) {
	onThread(t, func(t *testing.T) {
		r := request(t, image(t))
		mode, uid := os.FileMode(0o4660), uint32(1000)
		foreign := uint32(70000)
		r.Plan.Nodes = []specs.LinuxDevice{
			{Path: "/dev/zero2", Type: "c", Major: 1, Minor: 5, FileMode: &mode, UID: &uid},
			{Path: "/dev/disk", Type: "b", Major: 7, Minor: 250},
			{Path: "/dev/zero3", Type: "u", Major: 1, Minor: 5, UID: &foreign},
		}
		r.Spec.Linux.Devices = r.Plan.Nodes
		staged(t, r)
		if len(r.Spec.Mounts) != 3 || r.Spec.Linux.Devices != nil {
			t.Fatalf("%+v", r.Spec)
		}
		m := r.Spec.Mounts[0]
		want(t, "place", m.Destination, "/dev/zero2")
		want(t, "options", m.Options, []string{"bind", "nosuid", "noexec", "rprivate"})
		want(t, "owner", owner(m.Source), fmt.Sprintf("%d:%d", base+1000, base))
		var st unix.Stat_t
		must(t, unix.Stat(m.Source, &st))
		want(t, "mode", fmt.Sprintf("%o", st.Mode), "20660")
		want(t, "numbers", st.Rdev, unix.Mkdev(1, 5))
		as(t, base+1000, base+1000, func() {
			f, err := os.Open(m.Source)
			must(t, err, "opening the device as the jail's user")
			buf := []byte{1}
			_, err = f.Read(buf)
			must(t, err)
			want(t, "what it reads", buf[0], 0)
			f.Close()
		})
		as(t, base+1001, base+1001, func() {
			if _, err := os.Open(m.Source); err == nil {
				t.Error("another user opened the device")
			}
		})
		must(t, unix.Stat(r.Spec.Mounts[1].Source, &st))
		want(t, "a disk", fmt.Sprintf("%o", st.Mode), "60600")
		want(t, "an owner that the jail does not have", owner(r.Spec.Mounts[2].Source), jailed(0))
	})
}

// TestNothingLeft: mounts of a failed and of a finished jail are no one else's,
// and end with the thread (onThread compares).
func TestNothingLeft(t *testing.T) {
	asRoot(t)
	proj := t.TempDir()
	img := image(t)
	var dir string
	onThread(t, func(t *testing.T) {
		r := request(t, img, bindMount(proj, "/work", "rbind"))
		dir = r.Dir
		staged(t, r)
		r2 := request(t, img, bindMount(proj, "/work", "rbind"))
		r2.Plan.Root.Size = -1 // no tmpfs has that
		if _, err := Stage(*r2); err == nil || !strings.Contains(err.Error(), "preparing the ephemeral layer") {
			t.Errorf("%v", err)
		}
		r3 := request(t, img, bindMount(proj, "/work", "rbind"))
		r3.Sources[0] = nil
		if _, err := Stage(*r3); err == nil || !strings.Contains(err.Error(), "has no source") {
			t.Errorf("%v", err)
		}
	})
	for _, d := range []string{layerDir, rootDir} {
		entries, err := os.ReadDir(filepath.Join(dir, d))
		if err != nil || len(entries) != 0 {
			t.Errorf("%s shows to others: %v, %v", d, entries, err)
		}
	}
}

// TestAttachDetach: the jail's root shows at the engine's directory until it is
// taken away, which removes nothing else.
func TestAttachDetach(t *testing.T) {
	onThread(t, func(t *testing.T) {
		img := image(t)
		engine := t.TempDir()
		put(t, engine, "engines")
		r := request(t, img)
		st := staged(t, r)
		over, err := OpenDir(engine)
		must(t, err)
		defer over.Close()
		must(t, Attach(st.Root, over))
		want(t, "the jail's root", content(t, engine+"/bin/sh"), "bin/sh")
		must(t, Detach(engine, st.Dev+1))
		want(t, "after another's removal", content(t, engine+"/bin/sh"), "bin/sh")
		must(t, os.Symlink(engine, engine+".link"))
		must(t, Detach(engine+".link", st.Dev))
		want(t, "after removal through a link", content(t, engine+"/bin/sh"), "bin/sh")
		must(t, Detach(engine, st.Dev))
		want(t, "after removal", content(t, engine+"/engines"), "engines")
		must(t, Detach(engine, st.Dev))
		must(t, Detach(engine+"/missing", st.Dev))
		must(t, Detach(engine+"/engines", st.Dev))
		var s unix.Stat_t
		must(t, unix.Stat(engine, &s))
		must(t, Detach(engine, s.Dev)) // not a mount point
		want(t, "the engine's directory", content(t, engine+"/engines"), "engines")
	})
}

// TestAccessTimes: a mounted directory has the times of access that the bundle names, and the host's where it names none.
func TestAccessTimes(t *testing.T) {
	const times = unix.ST_NOATIME | unix.ST_NODIRATIME | unix.ST_RELATIME
	for options, flags := range map[string]int64{
		"rbind": unix.ST_NOATIME | unix.ST_NODIRATIME, "rbind noatime": unix.ST_NOATIME, "rbind rnoatime": unix.ST_NOATIME,
		"rbind relatime": unix.ST_RELATIME, "bind rrelatime": unix.ST_RELATIME, "rbind strictatime": 0, "bind rstrictatime": 0,
		"rbind relatime nodiratime": unix.ST_RELATIME | unix.ST_NODIRATIME, "bind noatime strictatime": 0, "rbind strictatime noatime ro": unix.ST_NOATIME,
	} {
		t.Run(options, func(t *testing.T) {
			onThread(t, func(t *testing.T) {
				dir := t.TempDir()
				must(t, unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOATIME|unix.MS_NODIRATIME, "size=64k"))
				r := request(t, image(t), bindMount(dir, "/work", strings.Fields(options)...))
				staged(t, r)
				var fs unix.Statfs_t
				must(t, unix.Statfs(r.Spec.Mounts[0].Source, &fs))
				if got := int64(fs.Flags) & times; got != flags {
					t.Errorf("flags %#x, want %#x", got, flags)
				}
			})
		})
	}
}
