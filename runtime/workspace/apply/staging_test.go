package apply

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/workspace/review"
)

// attackEnv names a directory for a process of its owner's, whose working directory is one that the
// apply replaces: as a jail that has the directory mounted.
const attackEnv = "AGENTJAIL_TEST_ATTACK"

// attack opens all staged files for each line "open", and writes to them for another one. It answers
// with the number of its open files.
func attack() int {
	var t victimT
	dir, err := os.Open(os.Getenv(attackEnv))
	must(&t, errors.Join(err, os.Chdir(dir.Name()+"/turn"), syscall.Setgroups(nil), syscall.Setresgid(gid, gid, gid), syscall.Setresuid(uid, uid, uid)))
	var held []int
	var open func(dir, depth int)
	open = func(dir, depth int) {
		names := map[string]bool{}
		for i := range 40 {
			names[strconv.Itoa(i)] = true
		}
		if list, err := readNames(dir); err == nil {
			for _, name := range list {
				names[name] = true
			}
		}
		for name := range names {
			if fd, err := unix.Openat(dir, name, unix.O_RDWR|unix.O_NOFOLLOW, 0); err == nil {
				held = append(held, fd)
			} else if fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0); err == nil && depth < 8 {
				open(fd, depth+1)
			}
		}
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if lines.Text() != "open" {
			for _, fd := range held {
				_, _ = unix.Pwrite(fd, []byte("evil"), 0)
			}
			fmt.Println(len(held))
			continue
		}
		list, err := readNames(int(dir.Fd()))
		must(&t, err)
		for _, name := range list {
			if fd, err := unix.Openat(int(dir.Fd()), name, unix.O_PATH|unix.O_DIRECTORY, 0); err == nil && strings.HasPrefix(name, review.StagingPrefix) {
				open(fd, 0)
			}
		}
		here, hereOK := state(int(dir.Fd()), ".")
		up, err := unix.Open("..", unix.O_PATH|unix.O_DIRECTORY, 0)
		if above, ok := state(up, "."); err == nil && ok && (!hereOK || above.Ino != here.Ino) {
			open(up, 0)
		}
		fmt.Println(len(held))
	}
	return 0
}

// TestStagedFilesAreShut: wherever an apply is, a process of the directory's owner opens none of the
// files that wait in the staging directory, also from a directory that was moved there; and what
// it holds open alters nothing of what was reviewed.
func TestStagedFilesAreShut(t *testing.T) {
	for n := 1; !t.Failed(); n++ {
		p := newPlace(t, project)
		bin, err := crashing()
		must(t, err)
		work1(t, p)
		view, old := list(t, p.merged), list(t, p.dir)
		p.unmount(t)
		must(t, p.save())
		cmd := exec.Command("/proc/self/exe")
		cmd.Env, cmd.Stderr = append(os.Environ(), attackEnv+"="+p.dir), os.Stderr
		in, err := cmd.StdinPipe()
		must(t, err)
		out, err := cmd.StdoutPipe()
		must(t, errors.Join(err, cmd.Start()))
		answers := bufio.NewScanner(out)
		ask := func(line string) string {
			_, err := io.WriteString(in, line+"\n")
			if err != nil || !answers.Scan() {
				t.Fatal(err)
			}
			return answers.Text()
		}
		if got := ask("open"); got != "0" {
			t.Fatal("without an apply it has", got)
		}
		was := p.run(t, bin, "apply", fmt.Sprintf("apply %d", n))
		got := ask("open")
		p.run(t, bin, "recover", "")
		ask("write")
		must(t, errors.Join(in.Close(), cmd.Wait()))
		if got != "0" {
			t.Errorf("at step %d a process of the owner's opened %s staged files", n, got)
		}
		if is := list(t, p.dir); is != view && is != old {
			t.Errorf("step %d: the directory is\n%s", n, is)
		}
		must(t, p.close())
		if !was {
			if n < 20 {
				t.Errorf("only %d steps", n)
			}
			return
		}
	}
}

// TestStagingRenamed: a process of the owner's that renames the staging directory of a killed apply
// keeps it from nothing, also with another one in its place.
func TestStagingRenamed(t *testing.T) {
	p := newPlace(t, project)
	bin, err := crashing()
	must(t, err)
	work1(t, p)
	view, old := list(t, p.merged), list(t, p.dir)
	p.unmount(t)
	must(t, p.save())
	at := p.dir + "/" + review.StagingPrefix + "test"
	for n := 1; p.run(t, bin, "apply", fmt.Sprintf("apply %d", n)); n++ {
		if _, err := os.Lstat(p.view.Journal + "/" + planFile); err != nil {
			p.run(t, bin, "recover", "")
			continue
		}
		must(t, errors.Join(os.Rename(at, p.dir+"/elsewhere"), os.Mkdir(at, 0o700), os.Chown(at, uid, gid)))
		p.run(t, bin, "recover", "")
		must(t, os.Remove(at))
		if got := list(t, p.dir); got != view && got != old {
			t.Errorf("the directory is\n%s", got)
		}
		return
	}
	t.Error("no plan was written")
}

// TestGroupOfDirectory: where a new file takes its directory's group (grpid of ext4(5)), it is that of
// the directory all the same, and so it is in a directory with the set-group-id bit and an ACL.
func TestGroupOfDirectory(t *testing.T) {
	p := newPlace(t, project)
	must(t, unix.Chmod(p.dir, 0o2755))
	// user::rwx, user:4711:rwx, group::r-x, mask::rwx, other::r-x (linux/posix_acl_xattr.h)
	acl := "\x02\x00\x00\x00" + "\x01\x00\x07\x00\xff\xff\xff\xff" + "\x02\x00\x07\x00\x67\x12\x00\x00" + "\x04\x00\x05\x00\xff\xff\xff\xff" +
		"\x10\x00\x07\x00\xff\xff\xff\xff" + "\x20\x00\x05\x00\xff\xff\xff\xff"
	if err := unix.Setxattr(p.dir, "system.posix_acl_default", []byte(acl), 0); err != nil {
		t.Skip(err)
	}
	w := &worker{dir: int(p.view.Directory.Fd()), staging: -1, plan: &applyPlan{Staging: "staging", UID: uid, GID: gid}}
	journal, err := os.Open(t.TempDir())
	must(t, err)
	defer journal.Close()
	w.journal = int(journal.Fd())
	must(t, w.prepare())
	if n, err := unix.Getxattr(p.dir+"/staging", "system.posix_acl_access", nil); err != unix.ENODATA {
		t.Errorf("the staging directory has an ACL of %d bytes: %v", n, err)
	}
	var st unix.Stat_t
	must(t, unix.Lstat(p.dir+"/staging", &st))
	if st.Uid != 0 || st.Gid < firstGroup || st.Mode != unix.S_IFDIR|0o770 {
		t.Errorf("%d:%d %o", st.Uid, st.Gid, st.Mode)
	}
	must(t, os.RemoveAll(p.dir+"/staging"))
	p.write(t, p.merged, map[string]string{"new": "n\n"})
	p.unmount(t)
	_, err = p.apply(t, Options{})
	must(t, err)
	if must(t, unix.Lstat(p.dir+"/new", &st)); st.Gid != gid {
		t.Errorf("the group is %d", st.Gid)
	}
}

// TestLockIsAgentjails: a lock of the directory, which each process that can open it can have,
// prevents no apply; and an apply that cannot be finished now is reported.
func TestLockIsAgentjails(t *testing.T) {
	s, r, dir, _, tree := begun(t, []string{"old"}, []string{"new"})
	tree.Close()
	must(t, s.End("k-j"))
	jails, err := os.Open(dir)
	must(t, err)
	defer jails.Close()
	must(t, errors.Join(unix.Flock(int(jails.Fd()), unix.LOCK_EX), os.Mkdir(s.Journal(r), 0o700)))
	busy, err := Open(s, r)
	must(t, err)
	must(t, busy.Lock())
	if lines, err := RecoverAll(t.Context(), s); err != nil || len(lines) != 1 || !strings.Contains(lines[0], r.ID+": an apply works in "+dir) {
		t.Errorf("meanwhile: %q %v", lines, err)
	}
	busy.Close()
	if lines, err := RecoverAll(t.Context(), s); err != nil || len(lines) != 1 || !strings.Contains(lines[0], "undone") {
		t.Errorf("afterwards: %q %v", lines, err)
	}
	v, err := Open(s, r)
	must(t, err)
	defer v.Close()
	must(t, v.Lock())
	got, err := v.Review(t.Context(), r, nil)
	must(t, err)
	_, err = v.Run(t.Context(), got, got.Changes, Options{})
	must(t, err)
}

// TestRoom: an apply that its disk has no room for ends before anything is staged, also where hard
// links become copies. Holes take up none.
func TestRoom(t *testing.T) {
	p := newPlace(t, project)
	must(t, os.WriteFile(p.merged+"/big", make([]byte, 1<<20), 0o644))
	for i := range 50 {
		must(t, os.Link(p.merged+"/big", fmt.Sprintf("%s/big%d", p.merged, i)))
	}
	p.own(t, p.merged)
	p.unmount(t)
	before := list(t, p.dir)
	must(t, unix.Mount("none", p.top, "", unix.MS_REMOUNT, "size=20m"))
	res, err := p.apply(t, Options{})
	if err == nil || !strings.Contains(err.Error(), "no space left on the directory's disk: the files take up 52") || len(res.Applied) > 0 {
		t.Errorf("%+v: %v", res, err)
	}
	if got := list(t, p.dir); got != before || isPending(p.view.Journal) {
		t.Errorf("the directory is\n%s\nnot\n%s", got, before)
	}
	must(t, unix.Mount("none", p.top, "", unix.MS_REMOUNT, "size=20m,nr_inodes=100"))
	if res, err := p.apply(t, Options{}, "big1", "big2"); err != nil {
		t.Errorf("a part: %+v: %v", res, err)
	}
	var fs unix.Statfs_t
	must(t, unix.Statfs(p.top, &fs))
	must(t, unix.Mount("none", p.top, "", unix.MS_REMOUNT, fmt.Sprintf("size=200m,nr_inodes=%d", fs.Files-fs.Ffree+20)))
	if res, err := p.apply(t, Options{}); err == nil || !strings.Contains(err.Error(), "these are 49 files, and 20 more") {
		t.Errorf("%+v: %v", res, err)
	}
}

// TestTokenBindsContent: an apply that is bound to a diff writes nothing else, whatever a jail that
// runs changes by a mapping, which no time of change shows; and each other change has another token.
func TestTokenBindsContent(t *testing.T) {
	p := newPlace(t, project)
	p.write(t, p.merged, map[string]string{"a.txt": "good\n", "new": "good\n", "li": "->a.txt", "big": strings.Repeat("x", 200<<10)})
	p.view.Live = true
	look := func(paths ...string) (*review.Review, []*review.Change, string) {
		r := p.review(t)
		chosen, err := r.Select(paths)
		must(t, err)
		token, err := review.Token(t.Context(), p.view.Upper, chosen, true)
		must(t, err)
		return r, chosen, token
	}
	f, err := os.OpenFile(p.merged+"/new", os.O_RDWR, 0)
	must(t, err)
	page, err := unix.Mmap(int(f.Fd()), 0, 5, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, errors.Join(err, f.Close()))
	copy(page, "fine\n")
	r, chosen, token := look()
	if _, _, again := look(); again != token {
		t.Error("twice the same has two tokens")
	}
	before := list(t, p.dir)
	copy(page, "evil\n")
	res, err := p.view.Run(t.Context(), r, chosen, Options{})
	if !errors.Is(err, ErrConflicts) || len(res.Conflicts) != 1 || res.Conflicts[0].Path != "new" {
		t.Errorf("%+v: %v", res, err)
	}
	if got := list(t, p.dir); got != before {
		t.Errorf("the directory is\n%s\nnot\n%s", got, before)
	}
	must(t, unix.Munmap(page))
	known := map[string]string{token: "at first"}
	_, _, part := look("li")
	for what, change := range map[string]func() error{
		"content": func() error { return os.WriteFile(p.merged+"/a.txt", []byte("evil\n"), 0) },
		"end":     func() error { return os.WriteFile(p.merged+"/big", []byte(strings.Repeat("x", 200<<10-1)+"y"), 0) },
		"mode":    func() error { return os.Chmod(p.merged+"/a.txt", 0o777) },
		"link":    func() error { return errors.Join(os.Remove(p.merged+"/li"), os.Symlink("b.txt", p.merged+"/li")) },
		"more":    func() error { return os.WriteFile(p.merged+"/more", nil, 0o644) },
		"less":    func() error { return os.Remove(p.merged + "/more2") },
		"removed": func() error { return os.Remove(p.merged + "/b.txt") },
		"renamed": func() error { return os.Rename(p.merged+"/lib", p.merged+"/lib2") },
	} {
		if what == "less" {
			must(t, os.WriteFile(p.merged+"/more2", nil, 0o644))
			_, _, token := look()
			known[token] = "before less"
		}
		must(t, change())
		_, _, token := look()
		if what != "less" && known[token] != "" {
			t.Errorf("%s: the token is that of %s", what, known[token])
		}
		known[token] = what
		if _, _, is := look("li"); (is != part) != (what == "link") {
			t.Errorf("%s: that of another path: %v", what, is != part)
		}
		_, _, part = look("li")
	}
}

// TestTokenOfHoles: a hole and written zeros are one content, and a large hole is not read.
func TestTokenOfHoles(t *testing.T) {
	dir := t.TempDir()
	sum := func(name string, size int64, write func(f *os.File) error) string {
		f, err := os.Create(dir + "/" + name)
		must(t, errors.Join(err, f.Truncate(size), write(f)))
		defer f.Close()
		got, err := new(review.Summer).Sum(context.Background(), f, size)
		must(t, err)
		return got
	}
	none := func(*os.File) error { return nil }
	zeros := func(f *os.File) error { _, err := f.WriteAt(make([]byte, 300<<10), 0); return err }
	end := func(f *os.File) error { _, err := f.WriteAt([]byte("x"), 300<<10-1); return err }
	if a, b := sum("hole", 300<<10, none), sum("zeros", 300<<10, zeros); a != b {
		t.Error("a hole is not as zeros")
	}
	a, b, c := sum("a", 300<<10, end), sum("b", 300<<10, func(f *os.File) error { return errors.Join(zeros(f), end(f)) }), sum("c", 300<<10, none)
	if a != b || a == c {
		t.Error("the end of a file with a hole is not in its sum")
	}
	sum("large", 1<<43, none)
}
