package rootfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/protect"
)

// project is a directory of uid 1000 with a repository, a nested one, and settings.
func project(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, "sub/", "sub/a", "other/b", ".mcp.json", ".git/HEAD", ".git/objects/", ".git/refs/", ".git/config", ".git/hooks/pre-commit",
		"sub/nested/.git/HEAD", "sub/nested/.git/objects/", "sub/nested/.git/refs/", "sub/nested/.git/hooks/", "sub/nested/.git/config", ".env")
	must(t, filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(p, 1000, 1000))
	}))
	return dir
}

// protecting stages the project, and returns the path where the delegate finds it.
func protecting(t *testing.T, dir string, on bool, hide ...string) (*Request, *Staged, string) {
	t.Helper()
	r := request(t, image(t), bindMount(dir, "/work", "rbind"))
	r.Ledger, r.Key = protect.Ledger{Dir: filepath.Join(t.TempDir(), "ledger")}, "jail"
	r.Plan.Binds[0].Protect, r.Plan.Binds[0].Absent = on, on
	r.Plan.Binds[0].Hide, r.Plan.Hide = len(hide) > 0, hide
	st := staged(t, r)
	// What the delegate does, without what is mounted below sources, as crun 1.8.
	at := filepath.Join(r.Spec.Root.Path, "work")
	must(t, unix.Mount(r.Spec.Mounts[0].Source, at, "", unix.MS_BIND, ""))
	if st.Attaches() {
		own := filepath.Join(r.Spec.Root.Path, ownPlace)
		must(t, os.Mkdir(own, 0o755))
		must(t, unix.Mount(r.Spec.Mounts[len(r.Spec.Mounts)-1].Source, own, "", unix.MS_BIND, ""))
	}
	root, err := unix.Open(r.Spec.Root.Path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(root)
	must(t, st.attachProtected(root))
	return r, st, at
}

// mountAttacks are what a jail tries, with system calls of its own, to have the host run something. Each succeeds where
// nothing is protected.
var mountAttacks = []struct {
	name string
	do   func() error
}{
	{"write to what is there", func() error { return os.WriteFile(".mcp.json", []byte("x"), 0o644) }},
	{"truncate it", func() error { return os.Truncate(".mcp.json", 0) }},
	{"remove it", func() error { return os.Remove(".mcp.json") }},
	{"rename another over it", func() error { return os.Rename("other/b", ".mcp.json") }},
	{"rename it", func() error { return os.Rename(".mcp.json", "mcp") }},
	{"swap it", func() error { return unix.Renameat2(-100, ".mcp.json", -100, "other", unix.RENAME_EXCHANGE) }},
	{"write to a hard link of it", func() error {
		return errors.Join(os.Link(".mcp.json", "link"), os.WriteFile("link", []byte("x"), 0o644))
	}},
	{"change its mode", func() error { return os.Chmod(".mcp.json", 0o777) }},
	{"make a hook", func() error { return os.WriteFile(".git/hooks/post-commit", nil, 0o755) }},
	{"rename the git directory", func() error { return os.Rename(".git", "git") }},
	{"rename the hooks", func() error { return os.Rename(".git/hooks", ".git/h") }},
	{"put a link in place of an absent path", func() error { return os.Symlink("other", ".vscode") }},
	{"make an absent directory", func() error {
		_ = os.Mkdir(".vscode", 0o755)
		return os.WriteFile(".vscode/tasks.json", nil, 0o644)
	}},
	{"make an absent file", func() error {
		_ = os.Remove(".claude/settings.json")
		return errors.Join(os.MkdirAll(".claude", 0o755), os.WriteFile(".claude/settings.json", nil, 0o644))
	}},
	{"lead git elsewhere", func() error { return os.WriteFile(".git/commondir", []byte("../other\n"), 0o644) }},
	{"lead git elsewhere by another file", func() error {
		return errors.Join(os.WriteFile("commondir", nil, 0o644), os.Rename("commondir", ".git/commondir"))
	}},
	{"make the worktree's config", func() error {
		return errors.Join(os.WriteFile("c", nil, 0o644), os.Rename("c", ".git/config.worktree"))
	}},
	{"make attributes", func() error {
		return errors.Join(os.MkdirAll(".git/info", 0o755), os.WriteFile(".git/info/attributes", nil, 0o644))
	}},
	{"replace the config", func() error {
		return errors.Join(os.WriteFile("c", nil, 0o644), os.Rename("c", ".git/config"))
	}},
	{"make a nested repository's hook", func() error { return os.WriteFile("sub/nested/.git/hooks/post-commit", nil, 0o755) }},
	{"rename a nested repository", func() error { return os.Rename("sub/nested", "sub/n") }},
	{"rename what a nested repository is in", func() error { return os.Rename("sub", "s") }},
	{"swap what a nested repository is in", func() error { return unix.Renameat2(-100, "sub", -100, "other", unix.RENAME_EXCHANGE) }},
}

// TestProtectedMounts makes each attack twice, with and without the protection.
func TestProtectedMounts(t *testing.T) {
	for _, on := range []bool{false, true} {
		for _, a := range mountAttacks {
			t.Run(map[bool]string{false: "without/", true: "with/"}[on]+a.name, func(t *testing.T) {
				onThread(t, func(t *testing.T) {
					dir := project(t)
					_, st, at := protecting(t, dir, on)
					// The thread has a working directory of its own since it has its own mount namespace.
					must(t, unix.Chdir(at))
					defer func() { _ = unix.Chdir("/") }()
					if !on && len(st.Protected) != 0 {
						t.Errorf("protected: %+v", st.Protected)
					}
					as(t, base+1000, base+1000, func() {
						if err := a.do(); (err == nil) == on {
							t.Errorf("protected %v: %v", on, err)
						}
					})
				})
			})
		}
	}
}

// TestProtectedStaysUsable: what is around protected paths can be changed, and moved to and from pinned directories.
func TestProtectedStaysUsable(t *testing.T) {
	onThread(t, func(t *testing.T) {
		dir := project(t)
		r, st, at := protecting(t, dir, true)
		must(t, unix.Chdir(at))
		defer func() { _ = unix.Chdir("/") }()
		as(t, base+1000, base+1000, func() {
			for what, err := range map[string]error{
				"move into a pinned directory": os.Rename("other/b", "sub/nested/b"),
				"move out of one":              os.Rename("sub/a", "a"),
				"link across":                  os.Link("a", "sub/linked"),
				"write in the git directory":   os.WriteFile(".git/index", nil, 0o644),
				"write beside settings":        os.WriteFile(".claude/memory", nil, 0o644),
			} {
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			// A copy of the config: beside it another can be put in its place, as git does.
			link, err := os.Readlink(".git/config")
			if err != nil || !pathname.Below(link, ownPlace) {
				t.Errorf("the config: %q, %v", link, err)
				return
			}
			own := filepath.Join(r.Spec.Root.Path, link)
			want(t, "the copy", content(t, own), ".git/config")
			must(t, os.WriteFile(own+".lock", []byte("mine"), 0o644))
			must(t, os.Rename(own+".lock", own))
		})
		want(t, "the host's config", content(t, dir+"/.git/config"), ".git/config")
		if n := st.Protected[0].Count(protect.Private); n != 2 {
			t.Errorf("%d copies", n)
		}
		if p := st.ProtectedPaths(); len(p) < 10 || p[0] != ownPlace+"/pins/0" || p[1] != "/work/.agents" {
			t.Errorf("paths: %v", p)
		}
		// Within a mount namespace, what is a mount point there stays.
		must(t, unix.Chdir("/"))
		must(t, unix.Unmount(r.Spec.Root.Path, unix.MNT_DETACH))
		must(t, r.Ledger.Remove("jail"))
		for _, name := range []string{".vscode", ".git/commondir", ".claude/agents"} {
			if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
				t.Errorf("%s is left", name)
			}
		}
	})
}

// TestPinsAreCovered: what pins are mounted on cannot be reached.
func TestPinsAreCovered(t *testing.T) {
	onThread(t, func(t *testing.T) {
		r, _, _ := protecting(t, project(t), true)
		entries, err := os.ReadDir(filepath.Join(r.Spec.Root.Path, ownPlace, pinsDir, "0"))
		if err != nil || len(entries) != 0 {
			t.Errorf("%v, %v", entries, err)
		}
		m := r.Spec.Mounts[len(r.Spec.Mounts)-1]
		if m.Destination != ownPlace || m.Options[0] != "bind" {
			t.Errorf("the mount for it: %+v", m)
		}
	})
}

// TestHidden: secrets are covered, in read-only mounts too.
func TestHidden(t *testing.T) {
	onThread(t, func(t *testing.T) {
		dir := project(t)
		put(t, dir, "keys.d/id_rsa:1000", "sub/x.pem:1000")
		_, _, at := protecting(t, dir, false, ".env", "*.pem", "keys.d")
		for _, name := range []string{".env", "sub/x.pem"} {
			if text, err := os.ReadFile(filepath.Join(at, name)); err != nil || len(text) != 0 {
				t.Errorf("%s: %q, %v", name, text, err)
			}
		}
		if _, err := os.Stat(filepath.Join(at, "keys.d/id_rsa")); err == nil {
			t.Error("a hidden directory has what it had")
		}
		as(t, base+1000, base+1000, func() {
			if err := os.WriteFile(filepath.Join(at, ".env"), []byte("x"), 0o644); err == nil {
				t.Error("a hidden file was written")
			}
		})
	})
}

// TestProtectedRace: something else in place of what was found stops the start.
func TestProtectedRace(t *testing.T) {
	onThread(t, func(t *testing.T) {
		dir := project(t)
		r := request(t, image(t), bindMount(dir, "/work", "rbind"))
		r.Ledger, r.Key = protect.Ledger{Dir: filepath.Join(t.TempDir(), "ledger")}, "jail"
		r.Plan.Binds[0].Protect = true
		st := staged(t, r)
		must(t, unix.Mount(r.Spec.Mounts[0].Source, filepath.Join(r.Spec.Root.Path, "work"), "", unix.MS_BIND, ""))
		must(t, os.Rename(dir+"/.git/hooks", dir+"/.git/old"))
		must(t, os.Mkdir(dir+"/.git/hooks", 0o755))
		st.attach = st.attach[1:] // without the pins, whose place is not mounted here
		root, err := unix.Open(r.Spec.Root.Path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(t, err)
		defer unix.Close(root)
		if err := st.attachProtected(root); !errors.Is(err, errChanged) {
			t.Errorf("attached: %v", err)
		}
	})
}
