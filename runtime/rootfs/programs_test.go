package rootfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAdjustPrograms: apt's file is added where an image has apt, and what orders
// programs outside is hidden; the engine's layers stay as they were.
func TestAdjustPrograms(t *testing.T) {
	const added = "etc/apt/apt.conf.d/99agentjail"
	for _, c := range []struct {
		name string
		has  []string
		want string // of the added file, "" for none
	}{
		{"with apt", []string{"etc/apt/apt.conf.d/01image", ".krun_vm.json", "var/lib/apt/lists/partial/old:42:700"}, additions()[0].text},
		{"without apt", []string{"etc/passwd"}, ""},
		{"with a file of that name", []string{added}, added},
		{"with a link", []string{"elsewhere/01image", "etc/apt/apt.conf.d->/elsewhere"}, ""},
		{"a directory", []string{".krun_vm.json/x"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			onThread(t, func(t *testing.T) {
				img := filepath.Join(t.TempDir(), "img")
				put(t, img, c.has...)
				st, err := Stage(*request(t, img))
				must(t, err)
				defer st.Close()
				root := fmt.Sprintf("/proc/self/fd/%d", st.Root.Fd())
				text, _ := os.ReadFile(root + "/" + added)
				want(t, "the added file", string(text), c.want)
				if c.want == additions()[0].text {
					want(t, "its owner", owner(root+"/"+added), jailed(0))
					want(t, "the owner of what apt fetches into", owner(root+"/var/lib/apt/lists/partial"), jailed(0))
				}
				if fi, err := os.Lstat(root + "/.krun_vm.json"); err == nil && !fi.IsDir() {
					t.Error("the virtual machine's orders are there")
				}
				if _, err := os.Lstat(root + "/elsewhere/99agentjail"); err == nil {
					t.Error("a link was followed")
				}
				for _, name := range c.has {
					if name == ".krun_vm.json" {
						want(t, "the engine's file", exists(filepath.Join(img, name)), true)
					}
				}
				want(t, "an addition to the engine's layer", exists(filepath.Join(img, added)), c.want == added)
			})
		})
	}
}

// TestPasswordFiles: container root's own password files get its group, in the ephemeral layer; what is not container
// root's, or no file, stays.
func TestPasswordFiles(t *testing.T) {
	onThread(t, func(t *testing.T) {
		img := filepath.Join(t.TempDir(), "img")
		put(t, img, "etc/shadow:0:640", "etc/gshadow:7:640", "real/file")
		must(t, os.Lchown(filepath.Join(img, "etc/shadow"), 0, 42))
		st, err := Stage(*request(t, img))
		must(t, err)
		defer st.Close()
		root := fmt.Sprintf("/proc/self/fd/%d", st.Root.Fd())
		want(t, "the owner of shadow", owner(root+"/etc/shadow"), jailed(0))
		want(t, "its group", group(t, root+"/etc/shadow"), int(base))
		want(t, "the engine's file's group", group(t, filepath.Join(img, "etc/shadow")), 42)
		want(t, "the owner of another's", owner(root+"/etc/gshadow"), jailed(7))
		want(t, "its group", group(t, root+"/etc/gshadow"), int(base)+7)
	})
}

// TestPasswordLinks: a link, a directory or a pipe in place of a file that is to be changed stays, and nothing waits for it.
func TestPasswordLinks(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"a link":      func(p string) error { return os.Symlink("/real/file", p) },
		"a directory": func(p string) error { return os.Mkdir(p, 0o755) },
		"a pipe":      func(p string) error { return unix.Mkfifo(p, 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			onThread(t, func(t *testing.T) {
				img := filepath.Join(t.TempDir(), "img")
				put(t, img, "real/file:0:640", "etc/passwd", "var/lib/dpkg/status")
				must(t, os.Lchown(filepath.Join(img, "real/file"), 0, 42))
				for _, at := range []string{"etc/shadow", overrides} {
					must(t, make(filepath.Join(img, at)))
				}
				st, err := Stage(*request(t, img))
				must(t, err)
				defer st.Close()
				root := fmt.Sprintf("/proc/self/fd/%d", st.Root.Fd())
				want(t, "the group of what a link leads to", group(t, root+"/real/file"), int(base)+42)
				text, err := os.ReadFile(root + "/real/file")
				must(t, err)
				want(t, "its content", string(text), "real/file")
			})
		})
	}
}

// TestOverrides: dpkg's list has what is to be installed without set-id bits; what an image states of a path stays.
func TestOverrides(t *testing.T) {
	for _, c := range []struct{ name, has, want string }{
		{"none", "", "root root 755 /bin/mount\n"},
		{"empty", "", "root root 755 /bin/mount\n"},
		{"of its own", "root crontab 2755 /usr/bin/crontab", "root crontab 2755 /usr/bin/crontab\nroot root 755 /bin/mount\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			onThread(t, func(t *testing.T) {
				img := filepath.Join(t.TempDir(), "img")
				put(t, img, "var/lib/dpkg/status")
				if c.name != "none" {
					must(t, os.WriteFile(filepath.Join(img, overrides), []byte(c.has), 0o644))
				}
				st, err := Stage(*request(t, img))
				must(t, err)
				defer st.Close()
				text, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d/%s", st.Root.Fd(), overrides))
				must(t, err)
				if !strings.HasPrefix(string(text), c.want) || strings.Count(string(text), " /usr/bin/crontab\n") != 1 {
					t.Errorf("the list is %q", text)
				}
				own, err := os.ReadFile(filepath.Join(img, overrides))
				if c.name != "none" {
					must(t, err)
				}
				want(t, "the engine's file", string(own), c.has)
			})
		})
	}
	full := missingOverrides(nil)
	want(t, "what a full list lacks", string(missingOverrides(full)), "")
}

// TestSwitchersNoted: the report states that an entry point cannot change its user, where the image has what does it and the
// container starts as root.
func TestSwitchersNoted(t *testing.T) {
	for _, c := range []struct {
		name string
		uid  uint32
		has  string
		want int
	}{
		{"root", 0, "usr/sbin/gosu", 1},
		{"by a link", 0, "usr/local/bin/gosu->/usr/bin/true", 1},
		{"another", 1000, "usr/sbin/gosu", 0},
		{"without", 0, "usr/sbin/other", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			onThread(t, func(t *testing.T) {
				img := filepath.Join(t.TempDir(), "img")
				put(t, img, "usr/bin/true", c.has)
				r := request(t, img)
				r.Spec.Process.User.UID = c.uid
				st, err := Stage(*r)
				must(t, err)
				defer st.Close()
				got := 0
				for _, n := range st.Notes {
					if strings.Contains(n, "-u USER") {
						got++
					}
				}
				want(t, "notes", got, c.want)
			})
		})
	}
}

func group(t *testing.T, path string) int {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Lstat(path, &st))
	return int(st.Gid)
}
