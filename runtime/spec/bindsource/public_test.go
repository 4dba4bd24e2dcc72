package bindsource

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/spec/policy"
)

// placed adds a place of the table for one test.
func placed(t *testing.T, p publicPlace) {
	t.Helper()
	was := publicPlaces
	publicPlaces = append(publicPlaces[:len(publicPlaces):len(publicPlaces)], p)
	t.Cleanup(func() { publicPlaces = was })
}

// rootsDir is a directory that only root could have made, and that the table of
// places states nothing of.
func rootsDir(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir, err := os.MkdirTemp("/opt", "agentjail-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func opened(t *testing.T, path string, e Engine) *Source {
	t.Helper()
	s, err := Open(path, e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.File.Close() })
	return s
}

// TestPublicHost: this host's own files.
func TestPublicHost(t *testing.T) {
	for path, want := range map[string]Public{
		"/etc/localtime": PublicFile, "/etc/timezone": PublicFile, "/etc/os-release": PublicFile, "//etc/./passwd": PublicUsers, "/etc/group": PublicGroups,
		"/etc/ssl/certs": PublicDir, "/etc/ssl/certs/": PublicDir, "/etc/ssl/certs/ca-certificates.crt": PublicFile,
		"/etc/shadow": NotPublic, "/etc/ssl": NotPublic, "/etc/../etc/passwd": NotPublic, "/etc/machine-id": NotPublic, "/etc/passwd-": NotPublic, "/etc": NotPublic, "/usr/share/zoneinfo": NotPublic,
	} {
		if _, err := os.Stat(path); err != nil {
			t.Logf("not on this machine: %v", err)
			continue
		}
		s := opened(t, path, Engine{})
		if s.Public != want || want != NotPublic && s.Withheld != "" {
			t.Errorf("%s: %q, %s", path, s.Public, s.Withheld)
		}
		if (s.Text != "") != want.Copied() {
			t.Errorf("%s: a text of %d bytes", path, len(s.Text))
		}
		if got := text(Refusal(s.Fact, true, policy.Binds{})); (got == "") != (want != NotPublic || strings.HasPrefix(path, "/usr")) {
			t.Errorf("%s: %q", path, got)
		}
	}
}

// TestPublicTrail: whatever somebody else than root could have chosen is no part of
// the host's configuration.
func TestPublicTrail(t *testing.T) {
	dir := rootsDir(t)
	file := filepath.Join(dir, "sub", "file")
	placed(t, publicPlace{path: file, as: PublicFile})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	fresh := func() {
		must(os.RemoveAll(filepath.Dir(file)))
		must(os.MkdirAll(filepath.Dir(file), 0o755))
		must(os.WriteFile(file, []byte("text"), 0o644))
	}
	for _, c := range []struct {
		name   string
		change func()
		says   string // "" where it is public
	}{
		{"as it should be", func() {}, ""},
		{"another's file", func() { must(os.Chown(file, 1000, 1000)) }, "belongs to uid 1000"},
		{"another's directory", func() { must(os.Chown(filepath.Dir(file), 1000, 0)) }, "belongs to uid 1000"},
		{"a group's file", func() { must(os.Chmod(file, 0o664)) }, "written by others"},
		{"everybody's directory", func() { must(os.Chmod(filepath.Dir(file), 0o777|os.ModeSticky)) }, "written by others"},
		{"root's alone", func() { must(os.Chmod(file, 0o600)) }, "not for everybody to read"},
		{"in a directory of root's alone", func() { must(os.Chmod(filepath.Dir(file), 0o700)) }, "not for everybody to read"},
		{"a link into the system", func() { must(os.Remove(file)); must(os.Symlink("/usr/lib/os-release", file)) }, ""},
		{"a link to a secret", func() { must(os.Remove(file)); must(os.Symlink("/etc/shadow", file)) }, "not for everybody to read"},
		{"a link to an open file elsewhere", func() { must(os.Remove(file)); must(os.Symlink("/etc/debian_version", file)) }, "it is /etc/debian_version"},
		{"another's link", func() {
			must(os.Remove(file))
			must(os.Symlink("/usr/lib/os-release", file))
			must(os.Lchown(file, 1000, 1000))
		}, "belongs to uid 1000"},
		{"a directory", func() { must(os.Remove(file)); must(os.Mkdir(file, 0o755)) }, "it is a "},
		{"a pipe", func() { must(os.Remove(file)); must(unix.Mkfifo(file, 0o644)) }, "it is a pipe"},
		{"too large", func() { must(os.Truncate(file, maxPublic+1)) }, "too long"},
		{"a private key", func() { must(os.WriteFile(file, []byte("-----BEGIN EC PRIVATE KEY-----\n"), 0o644)) }, "private key"},
	} {
		fresh()
		c.change()
		s := opened(t, file, Engine{})
		if (s.Public == NotPublic) != (c.says != "") || !strings.Contains(s.Withheld, c.says) || c.says == "" && s.Withheld != "" {
			t.Errorf("%s: %q, %q, not %q", c.name, s.Public, s.Withheld, c.says)
		}
		if s.Public == NotPublic && s.Text != "" {
			t.Errorf("%s: it was read: %q", c.name, s.Text)
		}
		if c.says != "" && text(Refusal(s.Fact, true, policy.Binds{})) == "" && s.Kind == File && s.Link != "" {
			t.Errorf("%s is not refused", c.name)
		}
	}
}

// TestPublicPrivate: a file in a home of root's is no pod's to have, and one that
// only root may read is shown to no other user.
func TestPublicPrivate(t *testing.T) {
	dir := rootsDir(t)
	file := filepath.Join(dir, ".gitconfig")
	placed(t, publicPlace{path: file, as: PublicGit, private: true})
	for _, step := range []error{os.Chmod(dir, 0o700), os.WriteFile(file, []byte("[user]\nname = Ann # x\n"), 0o644)} {
		if step != nil {
			t.Fatal(step)
		}
	}
	if s := opened(t, file, Engine{}); s.Public != PublicGit || s.Text != "[user]\n\tname = \"Ann\"\n" {
		t.Errorf("%+v %q", s.Fact, s.Text)
	}
	if s := opened(t, file, Engine{CRI: true}); s.Public != NotPublic || !strings.Contains(s.Withheld, "pod") {
		t.Errorf("of a pod: %+v", s.Fact)
	}
	if err := os.WriteFile(file, []byte("[http]\nextraHeader = X: y\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if s := opened(t, file, Engine{}); s.Public != NotPublic || !strings.Contains(s.Withheld, "http.extraheader") || strings.Contains(s.Withheld, "X: y") {
		t.Errorf("with a credential: %+v", s.Fact)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if s := opened(t, file, Engine{}); s.Public != NotPublic {
		t.Errorf("of mode 0600: %+v", s.Fact)
	}
}

// TestTextFor: the tables of accounts are reduced for the container's own user.
func TestTextFor(t *testing.T) {
	s := &Source{Fact: Fact{Public: PublicUsers}, Text: "ann:x:1000:1000:A:/home/ann:/bin/sh\nbob:x:1001:1001::/home/bob:/bin/sh\n"}
	if got := s.TextFor(1001, 0, nil); got != "bob:x:1001:1001::/home/bob:/bin/sh\n" {
		t.Errorf("%q", got)
	}
	s = &Source{Fact: Fact{Public: PublicGroups}, Text: "a:x:1000:\nb:x:1001:ann\nc:x:1002:\n"}
	if got := s.TextFor(0, 1000, []uint32{1001}); got != "a:x:1000:\nb:x:1001:\n" {
		t.Errorf("%q", got)
	}
	s = &Source{Fact: Fact{Public: PublicFile}, Text: "x"}
	if got := s.TextFor(0, 0, nil); got != "x" {
		t.Errorf("%q", got)
	}
}

// TestSystemLinks: a link from one directory of the system's to another is followed for a
// read-only mount, where only root can have made any part of the way; so a package has a program
// of its own where another expects it.
func TestSystemLinks(t *testing.T) {
	linked := Fact{Path: "/usr/bin/catatonit", Kind: File, Link: "/usr/libexec/podman/catatonit", Rooted: true, System: true}
	for _, c := range []struct {
		name     string
		change   func(*Fact)
		readOnly bool
		want     bool
	}{
		{"to read", func(*Fact) {}, true, true},
		{"to write", func(*Fact) {}, false, false},
		{"which others could have made", func(f *Fact) { f.Rooted = false }, true, false},
		{"to what is not the system's", func(f *Fact) { f.Path, f.System = "/srv/x", false }, true, false},
		{"to a socket", func(f *Fact) { f.Kind = Socket }, true, false},
		{"to a place of the host's that is mounted there", func(f *Fact) { f.Also = "/etc" }, true, false},
	} {
		f := linked
		c.change(&f)
		if got := Refusal(f, c.readOnly, policy.Default().Binds); (got == nil) != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	// A way through a directory that all may write to is not root's alone.
	dir := tree(t, "x/")
	if err := os.Symlink("/usr/bin", dir+"/x/bin"); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir+"/x/bin/env", Engine{})
	if err != nil {
		t.Fatal(err)
	}
	s.File.Close()
	if s.Rooted || s.Link == "" || !s.System {
		t.Errorf("%+v", s.Fact)
	}
	if at, err := os.Readlink("/usr/bin/awk"); err != nil || !strings.HasPrefix(at, "/etc/") { // Debian's alternatives
		return
	}
	if s, err = Open("/usr/bin/awk", Engine{}); err != nil {
		t.Fatal(err)
	}
	s.File.Close()
	if !s.Rooted || s.Link != "/usr/bin/awk" || !s.System {
		t.Errorf("%+v", s.Fact)
	}
}
