package rootfs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/rootfs/procfiles"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/state"
)

// threadMounts is the mount table of the test's own thread.
func threadMounts(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/thread-self/mountinfo")
	must(t, err)
	return string(b)
}

// TestViews stages synthetic files, attaches them to the thread's own /proc as a jail's,
// and rewrites them: everybody can read and no process can write them,
// whatever the umask, and nothing of them shows elsewhere.
func TestViews(t *testing.T) {
	onThread(t, func(t *testing.T) {
		must(t, unix.Unshare(unix.CLONE_FS))
		defer unix.Umask(unix.Umask(0o077))
		image := t.TempDir()
		put(t, image, "etc/", "sys/")
		r := request(t, image, specs.Mount{Type: "tmpfs", Destination: "/sys", Options: []string{"ro", "size=65536"}}, specs.Mount{Type: "tmpfs", Destination: "/proc/swaps"})
		r.Single = []procfiles.File{{Path: "/proc/version", Text: "jail's own\n"}, {Path: "/proc/loadavg", Text: "none\n"}, {Path: "/proc/swaps", Text: "x\n"}, {Path: "/proc/stat", Text: "x\n"}, {Path: "/proc/no-such-file", Text: "x\n"}}
		r.Sys = procfiles.Tree{Dirs: []string{"a", "a/b"}, Files: []procfiles.File{{Path: "a/b/c", Text: "text\n"}}, Links: []procfiles.File{{Path: "a/link", Text: "b/c"}}}
		r.Spec.Linux.MaskedPaths = []string{"/proc/stat", "/proc/fs", "/proc/cmdline", "/mine"}
		st := staged(t, r)
		defer st.Close()

		var at []string
		for _, v := range st.Synthetic {
			at = append(at, v.Path)
		}
		// Not what the bundle masks or mounts itself; a masked directory is a synthetic file.
		want(t, "views", at, []string{"/proc/version", "/proc/loadavg", "/proc/no-such-file", "/proc/fs"})
		want(t, "masks left to the delegate", r.Spec.Linux.MaskedPaths, []string{"/proc/stat", "/proc/cmdline", "/mine"})
		sys := r.Spec.Mounts[0]
		want(t, "/sys", sys.Type, "bind")
		want(t, "in /sys", content(t, sys.Source+"/a/b/c"), "text")
		want(t, "by a link in /sys", content(t, sys.Source+"/a/link"), "text")
		if !slices.Contains(sys.Options, "ro") || !slices.Contains(sys.Options, "nodev") {
			t.Errorf("/sys is mounted with %q", sys.Options)
		}
		if err := os.WriteFile(sys.Source+"/a/b/c", nil, 0o644); err == nil {
			t.Error("/sys can be written")
		}

		must(t, st.AttachSynthetic())
		as(t, base, base, func() {
			want(t, "version", content(t, "/proc/version"), "jail's own")
			want(t, "in /sys, by the jail's root", content(t, sys.Source+"/a/b/c"), "text")
			entries, err := os.ReadDir("/proc/fs")
			if err != nil || len(entries) != 0 {
				t.Errorf("a masked directory: %v, %v", entries, err)
			}
		})
		if err := os.WriteFile("/proc/version", nil, 0o644); err == nil {
			t.Error("a view can be written")
		}
		here := func(f func() error) error { return f() }
		must(t, RewriteSynthetic(st.SyntheticDev, []procfiles.File{{Path: "/proc/version", Text: "new\n"}, {Path: "/proc/uptime", Text: "x"}, {Path: "/proc/nothing", Text: "x"}}, here))
		want(t, "after rewriting", content(t, "/proc/version"), "new")
		if err := os.WriteFile("/proc/version", nil, 0o644); err == nil {
			t.Error("a rewritten view can be written")
		}
		must(t, RewriteSynthetic(st.SyntheticDev+1, []procfiles.File{{Path: "/proc/version", Text: "another's\n"}}, here))
		want(t, "what is on another file system", content(t, "/proc/version"), "new")
	})
}

// TestViewNotKernels: over anything but the kernel's own file no synthetic file goes, also
// where a link leads to one.
func TestViewNotKernels(t *testing.T) {
	onThread(t, func(t *testing.T) {
		dir := t.TempDir()
		put(t, dir, "file", "link->/proc/version")
		for _, name := range []string{"file", "link"} {
			fd, err := unix.OpenTree(unix.AT_FDCWD, dir+"/file", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
			must(t, err)
			v := Synthetic{Path: filepath.Join(dir, name), Tree: os.NewFile(uintptr(fd), name)}
			if err := (&Staged{Synthetic: []Synthetic{v}, SyntheticDev: ^uint64(0)}).AttachSynthetic(); err == nil {
				t.Errorf("a view was attached at a %s", name)
			}
			v.Tree.Close()
		}
	})
}

// TestNoHostInMounts: what the jail gets from its root, its files and its device
// nodes states nothing of where they are on the host, nor how large the host is.
func TestNoHostInMounts(t *testing.T) {
	onThread(t, func(t *testing.T) {
		merged, _ := engineRoot(t, 2, func(i int) string { return string(rune('a' + i)) })
		from := filepath.Join(t.TempDir(), "hosts")
		must(t, os.WriteFile(from, []byte("127.0.0.1 localhost\n"), 0o600))
		r := request(t, merged, bindMount(from, "/etc/hosts", "ro", "none"))
		r.Plan.Binds[0].Copy, r.Plan.Binds[0].OwnName = true, true
		r.Spec.Hostname = "jail"
		s := &stager{rootMaker: newRootMaker(r)}
		defer s.close()
		var err error
		s.layers, err = commonParent([]string{filepath.Dir(merged) + "/upper", filepath.Dir(merged) + "/b/diff", filepath.Dir(merged) + "/a/diff"})
		must(t, err)
		s.lower = []*os.File{clone(t, s)}
		must(t, isolate())
		must(t, s.makeLayer())
		must(t, s.makeRoot())
		must(t, s.cloneBinds())
		must(t, s.attachBinds())
		must(t, s.makeSynthetic())
		at := s.Spec.Mounts[0].Source
		want(t, "the copy", content(t, at), "127.0.0.1 localhost\n127.0.0.1\tjail")
		want(t, "its owner", owner(at), jailed(0))
		own := false
		for line := range strings.Lines(threadMounts(t)) {
			f := strings.Fields(line)
			if f[4] == s.root && (strings.Contains(f[len(f)-1], "=/") || strings.Contains(f[len(f)-1], ":/")) {
				t.Errorf("the root's options have a host path: %s", f[len(f)-1])
			}
			if f[4] == "/dev/null" {
				own = strings.Contains(line, " - tmpfs agentjail ") && !strings.Contains(line, "nodev")
			}
		}
		if !own {
			t.Errorf("the null device is not the jail's own, or not one:\n%s", threadMounts(t))
		}
		null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
		must(t, err)
		null.Close()
		// What was written to the root is in the layer.
		must(t, os.WriteFile(s.root+"/new", nil, 0o644))
		if _, err := os.Stat(filepath.Join(s.layer, "upper", "new")); err != nil {
			t.Error(err)
		}
	})
}

func TestNameItself(t *testing.T) {
	for _, c := range [][4]string{
		{"", "", "", ""},
		{"127.0.0.1 localhost\n", "", "d", "127.0.0.1 localhost\n"},
		{"127.0.0.1 localhost\n", "j", "", "127.0.0.1 localhost\n127.0.0.1\tj\n"},
		{"127.0.0.1 localhost", "j", "", "127.0.0.1 localhost\n127.0.0.1\tj\n"},
		{"", "j", "d.test", "127.0.0.1\tj.d.test j\n"},
		{"", "j.d.test", "", "127.0.0.1\tj.d.test j\n"},
		{"127.0.1.1 a j # x\n", "j", "", "127.0.1.1 a j # x\n"},
		{"::1 localhost\n172.17.0.2\tj c # x\n10.0.0.1 b\n", "j", "d", "::1 localhost\n127.0.0.1\tj\tc\n10.0.0.1 b\n"},
		{"fd00::2 j\n", "j", "", "::1\tj\n"},
		{"172.17.0.2 jj # j\n", "j", "", "172.17.0.2 jj # j\n127.0.0.1\tj\n"},
		{"j\n", "j", "", "j\n127.0.0.1\tj\n"},
	} {
		if got := nameItself(c[0], namesOf(c[1], c[2])); got != c[3] {
			t.Errorf("%q, %q of %q: %q, not %q", c[1], c[2], c[0], got, c[3])
		}
	}
}

// TestStaleCopies: what the engine has written since is copied again, with the jail's own name, and what a link leads to is not.
func TestStaleCopies(t *testing.T) {
	at := filepath.Join(t.TempDir(), "hosts")
	must(t, os.WriteFile(at, nil, 0o644))
	c := state.Copy{Source: at, At: "/etc/hosts", Names: "j", Sum: hashText(nameItself("", "j"))}
	stale := func() []procfiles.File {
		t.Helper()
		files, err := StaleCopies([]state.Copy{c})
		must(t, err)
		return files
	}
	if got := stale(); len(got) != 0 {
		t.Errorf("unchanged: %v", got)
	}
	must(t, os.WriteFile(at, []byte("10.88.0.2 j c\n"), 0o644))
	if got := stale(); len(got) != 1 || got[0] != (procfiles.File{Path: "/etc/hosts", Text: "127.0.0.1\tj\tc\n"}) {
		t.Errorf("changed: %v", got)
	}
	must(t, os.Rename(at, at+".real"))
	must(t, os.Symlink(at+".real", at))
	if got, err := StaleCopies([]state.Copy{c}); err == nil {
		t.Errorf("a link's file is copied: %v", got)
	}
}

// TestCopyBounds: an endless or replaced file is not copied.
func TestCopyBounds(t *testing.T) {
	onThread(t, func(t *testing.T) {
		at := filepath.Join(t.TempDir(), "f")
		must(t, os.WriteFile(at, make([]byte, maxCopy+1), 0o644))
		s, err := bindsource.Open(at, bindsource.Engine{})
		must(t, err)
		defer s.File.Close()
		if _, err := readSource(s); err == nil {
			t.Error("too long a file was read")
		}
		must(t, os.WriteFile(at, []byte("judged"), 0o644))
		must(t, os.Rename(at, at+".old"))
		must(t, os.WriteFile(at, []byte("another"), 0o644))
		text, err := readSource(s)
		must(t, err)
		want(t, "the file that was opened", text, "judged")
	})
}
