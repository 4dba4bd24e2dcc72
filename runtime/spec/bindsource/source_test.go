package bindsource

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/spec/policy"
)

// tree makes directories (name/), files (name), links (name -> target), sockets
// (name=) and pipes (name|) below a new directory.
func tree(t *testing.T, entries ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		var err error
		name, target, link := strings.Cut(e, " -> ")
		at := filepath.Join(dir, strings.TrimRight(name, "/=|"))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		switch {
		case link:
			err = os.Symlink(strings.ReplaceAll(target, "DIR", dir), at)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(at, 0o755)
		case strings.HasSuffix(name, "="):
			l, lerr := net.Listen("unix", at)
			if err = lerr; err == nil {
				t.Cleanup(func() { l.Close() })
			}
		case strings.HasSuffix(name, "|"):
			err = unix.Mkfifo(at, 0o600)
		default:
			err = os.WriteFile(at, []byte(name), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestOpen(t *testing.T) {
	dir := tree(t, "home/dev/project/file", "home/dev/project/sock=", "home/dev/project/pipe|", "home/dev/secret/key",
		"home/dev/project/inside -> file", "home/dev/project/in2 -> ./sub/../file", "home/dev/project/sub/", "home/dev/project/sub/up -> ../file",
		"home/dev/project/out -> ../secret", "home/dev/project/abs -> DIR/home/dev/secret", "home/dev/project/self -> DIR/home/dev/project/sub", "home/dev/project/chain -> inside", "home/dev/project/chain2 -> out",
		"home/dev/project/ring -> ring2", "home/dev/project/ring2 -> ring", "home/dev/project/dead -> nothing", "home/dev/project/tosock -> sock",
		"home/link -> dev/project", "alias -> home", "home/dev/project/root -> /", "home/dev/project/etc -> /etc/passwd", "home/dev/project/proc -> /proc/self/root/etc", "home/dev/project/far -> sub/../../secret")
	for _, c := range []struct {
		path string
		real string // "" where it cannot be opened
		kind Kind
		link string // the first that leads out
		err  error
	}{
		{"home/dev/project", "home/dev/project", Dir, "", nil},
		{"home/dev/project/", "home/dev/project", Dir, "", nil},
		{"home//dev/./project/sub/..", "home/dev/project", Dir, "", nil},
		{"home/dev/project/file", "home/dev/project/file", File, "", nil},
		{"home/dev/project/sock", "home/dev/project/sock", Socket, "", nil},
		{"home/dev/project/pipe", "home/dev/project/pipe", Pipe, "", nil},
		{"home/dev/project/inside", "home/dev/project/file", File, "", nil},
		{"home/dev/project/in2", "home/dev/project/file", File, "", nil},
		{"home/dev/project/chain", "home/dev/project/file", File, "", nil},
		{"home/dev/project/self", "home/dev/project/sub", Dir, "", nil},
		{"home/dev/project/tosock", "home/dev/project/sock", Socket, "", nil},
		{"home/link/file", "home/dev/project/file", File, "", nil},
		{"alias/dev/project", "home/dev/project", Dir, "", nil},
		{"home/dev/project/sub/up", "home/dev/project/file", File, "home/dev/project/sub/up", nil},
		{"home/dev/project/out", "home/dev/secret", Dir, "home/dev/project/out", nil},
		{"home/dev/project/out/key", "home/dev/secret/key", File, "home/dev/project/out", nil},
		{"home/dev/project/abs", "home/dev/secret", Dir, "home/dev/project/abs", nil},
		{"home/dev/project/chain2", "home/dev/secret", Dir, "home/dev/project/out", nil},
		{"home/dev/project/far", "home/dev/secret", Dir, "home/dev/project/far", nil},
		{"home/dev/project/root", "/", Dir, "home/dev/project/root", nil},
		{"home/dev/project/etc", "/etc/passwd", File, "home/dev/project/etc", nil},
		{"home/dev/project/proc", "/etc", Dir, "home/dev/project/proc", nil},
		{"home/dev/project/ring", "", "", "", unix.ELOOP},
		{"home/dev/project/dead", "", "", "", unix.ENOENT},
		{"home/dev/project/missing", "", "", "", unix.ENOENT},
		{"home/dev/project/file/x", "", "", "", unix.ENOTDIR},
		{"home/dev/project/file/..", "", "", "", unix.ENOTDIR},
	} {
		s, err := Open(dir+"/"+c.path, Engine{})
		if c.err != nil {
			if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.path) {
				t.Errorf("%s: %v, not %v", c.path, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		real, link := c.real, c.link
		if !strings.HasPrefix(real, "/") {
			real = dir + "/" + real
		}
		if link != "" {
			link = dir + "/" + link
		}
		if s.Path != real || s.Kind != c.kind || s.Link != link {
			t.Errorf("%s: %+v, not %s %s through %q", c.path, s.Fact, c.kind, real, link)
		}
		// What is kept is what was judged.
		var a, b unix.Stat_t
		if err := errors.Join(unix.Fstat(int(s.File.Fd()), &a), unix.Stat(real, &b)); err != nil || a.Ino != b.Ino || a.Dev != b.Dev {
			t.Errorf("%s: the open file is another one: %v", c.path, err)
		}
		if (text(Refusal(s.Fact, true, policy.Binds{})) == "") != (link == "" && (c.kind == Dir || c.kind == File)) {
			t.Errorf("%s: %q", c.path, text(Refusal(s.Fact, true, policy.Binds{})))
		}
		s.File.Close()
	}
	for _, path := range []string{"relative", "", "/a\x00b"} {
		if _, err := Open(path, Engine{}); err == nil {
			t.Errorf("%q was opened", path)
		}
	}
}

// Links of the kernel that lead to open files are read as text, and lead
// nowhere that plain names would not.
func TestMagicLinks(t *testing.T) {
	dir := tree(t, "secret/key", "project/")
	f, err := os.Open(dir + "/secret")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, path := range []string{"/proc/self/fd/" + itoa(f.Fd()), "/proc/self/cwd", "/proc/self/root", "/proc/1/root/etc"} {
		s, err := Open(path, Engine{})
		if err != nil {
			continue
		}
		if s.Link == "" || text(Refusal(s.Fact, true, policy.Binds{})) == "" {
			t.Errorf("%s: %+v", path, s.Fact)
		}
		s.File.Close()
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, err := Open("/proc/self/fd/"+itoa(r.Fd()), Engine{}); err == nil {
		t.Error("an unnamed pipe was opened")
	}
}

func itoa(fd uintptr) string {
	b := []byte{}
	for ; fd > 0 || len(b) == 0; fd /= 10 {
		b = append([]byte{byte('0' + fd%10)}, b...)
	}
	return string(b)
}

// TestSwitchedLink opens a name that another thread keeps switching between a
// link that stays in its directory and one that leads out: whatever is opened,
// what was stated of the link is true of what is open.
func TestSwitchedLink(t *testing.T) {
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("needs two processors, for two to race")
	}
	dir := tree(t, "secret/", "project/a/", "project/in -> a", "project/out -> ../secret", "project/x -> a")
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			from := []string{"/project/in", "/project/out"}[i%2]
			_ = os.Remove(dir + "/project/new")
			_ = os.Link(dir+from, dir+"/project/new")
			_ = os.Rename(dir+"/project/new", dir+"/project/x")
			_ = os.Remove(dir + "/project/x2")
			target, _ := os.Readlink(dir + from)
			_ = os.Symlink(target, dir+"/project/x2")
			_ = os.Rename(dir+"/project/x2", dir+"/project/x")
		}
	}()
	seen := map[string]int{}
	for range 4000 {
		s, err := Open(dir+"/project/x", Engine{})
		if err != nil {
			continue
		}
		out := s.Path == dir+"/secret"
		if out != (s.Link != "") {
			t.Errorf("%s was reached, through %q", s.Path, s.Link)
		}
		seen[s.Path]++
		s.File.Close()
	}
	close(stop)
	<-done
	t.Logf("reached %v", seen)
}

func TestFacts(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to give files away and mount")
	}
	dir := tree(t, "project/", "docker/volumes/v/_data/", "docker/volumes/bound/_data/", "docker/containers/aaaaaaaaaaaaaaaa/hosts", "docker/overlay2/x/merged/", "elsewhere/deep/")
	if err := os.Chown(dir+"/project", 1234, 2345); err != nil {
		t.Fatal(err)
	}
	e := Engine{IDs: []string{"aaaaaaaaaaaaaaaa"}, Storage: []string{dir + "/docker"}}
	get := func(path string) Fact {
		t.Helper()
		s, err := Open(path, e)
		if err != nil {
			t.Fatal(err)
		}
		s.File.Close()
		return s.Fact
	}
	if f := get(dir + "/project"); f.UID != 1234 || f.GID != 2345 || f.Role != Plain || f.Storage != "" || f.System {
		t.Errorf("%+v", f)
	}
	if f := get(dir + "/docker/volumes/v/_data"); f.Role != Volume || f.Also != "" || f.Storage != "" {
		t.Errorf("%+v", f)
	}
	if f := get(dir + "/docker/containers/aaaaaaaaaaaaaaaa/hosts"); f.Role != Injected || f.Kind != File {
		t.Errorf("%+v", f)
	}
	for _, p := range []string{"/docker", "/docker/overlay2/x/merged", "/docker/volumes", ""} {
		if f := get(dir + p); f.Storage != dir+"/docker" || text(Refusal(f, true, policy.Binds{})) == "" {
			t.Errorf("%s: %+v", p, f)
		}
	}
	if f := get("/usr"); !f.System {
		t.Errorf("%+v", f)
	}
	if f := get("/dev/null"); f.Kind != Device {
		t.Errorf("%+v", f)
	}

	// In a mount namespace of this thread's own: it ends with the thread.
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked
		failed <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
				return err
			}
			if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
				return err
			}
			// A volume that Docker's local driver made of a directory of the host.
			if err := unix.Mount("/etc", dir+"/docker/volumes/bound/_data", "", unix.MS_BIND, ""); err != nil {
				return err
			}
			s, err := Open(dir+"/docker/volumes/bound/_data", e)
			if err != nil {
				return err
			}
			defer s.File.Close()
			if why := text(Refusal(s.Fact, true, policy.Binds{})); s.Role != Volume || !strings.Contains(why, "it is /etc, mounted there") {
				t.Errorf("a volume of /etc: %+v: %q", s.Fact, why)
			}
			// A directory below which something is mounted that no jail may have.
			if err := unix.Mount("/root", dir+"/elsewhere/deep", "", unix.MS_BIND, ""); err != nil {
				return err
			}
			s1, err := Open(dir+"/elsewhere", e)
			if err != nil {
				return err
			}
			defer s1.File.Close()
			if all, err := MountsBelow(dir + "/elsewhere"); err != nil || len(all) != 1 || all[0] != dir+"/elsewhere/deep" || !slices.Equal(s1.Mounts, all) {
				t.Errorf("mounts below: %q and %q, %v", all, s1.Mounts, err)
			}
			if len(s1.Below) != 1 || s1.Below[0] != "/root" || text(Refusal(s1.Fact, true, policy.Binds{})) != "" {
				t.Errorf("a directory with /root below: %+v", s1.Fact)
			}
			if s3, err := Open(dir+"/elsewhere/deep/.", e); err != nil || !strings.Contains(text(Refusal(s3.Fact, true, policy.Binds{})), "it is /root, mounted there") {
				t.Errorf("/root by another name: %+v, %v", s3, err)
			}
			if err := unix.Mount("x", dir+"/project", "tmpfs", 0, "size=1m"); err != nil {
				return err
			}
			s2, err := Open(dir+"/project", e)
			if err != nil {
				return err
			}
			defer s2.File.Close()
			if s2.Room != 1<<20 || s2.DiskMajor != 0 {
				t.Errorf("a tmpfs: %+v", s2.Fact)
			}
			return nil
		}()
	}()
	if err := <-failed; err != nil {
		t.Skipf("cannot mount here: %v", err)
	}
}
