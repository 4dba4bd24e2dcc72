package changes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/filetime"
)

// plenty bounds nothing in these tests.
func plenty() Bounds {
	return Bounds{Entries: 1 << 20, Names: 1 << 20, Until: time.Now().Add(time.Hour)}
}

// settled is a moment after everything that is below a directory.
func settled(t *testing.T, dir string) time.Time {
	t.Helper()
	probe := filepath.Join(dir, ".probe")
	var st unix.Stat_t
	must(t, errors.Join(os.WriteFile(probe, nil, 0o600), os.Remove(probe), unix.Stat(dir, &st)))
	for {
		if now := filetime.Moment(dir); now.After(time.Unix(st.Ctim.Unix())) {
			return now
		}
	}
}

// next waits for the kernel's clock: what is changed from now on is later than the moment.
func next(moment time.Time) {
	for !filetime.Moment(os.TempDir()).After(moment) {
	}
}

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, unix.O_PATH, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestSince: what was written, made, removed or renamed shows, and nothing else; nothing that a link leads to, and no pipe is waited for.
func TestSince(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	p := func(name string) string { return filepath.Join(dir, name) }
	for _, d := range []string{"old", "touched/deep", "emptied", "times"} {
		must(t, os.MkdirAll(p(d), 0o755))
	}
	for _, f := range []string{"old/kept", "touched/deep/written", "emptied/gone", "times/hidden", "mode"} {
		must(t, os.WriteFile(p(f), []byte("x"), 0o644))
	}
	must(t, os.Symlink(elsewhere, p("old/out")))
	moment := settled(t, dir)
	next(moment)
	must(t, errors.Join(os.WriteFile(p("touched/deep/written"), []byte("y"), 0o644), os.Remove(p("emptied/gone")), os.Chmod(p("mode"), 0o600),
		os.WriteFile(filepath.Join(elsewhere, "outside"), nil, 0o644), unix.Mkfifo(p("pipe"), 0o600),
		os.WriteFile(p("times/hidden"), []byte("z"), 0o644), os.Chtimes(p("times/hidden"), time.Unix(0, 0), time.Unix(0, 0)),
		os.WriteFile(p("a\n\u202eb"), nil, 0o644)))
	want := []string{"/", "/a\n\u202eb", "/emptied/", "/mode", "/pipe", "/times/hidden", "/touched/deep/written"}
	r := Since(open(t, dir), moment, plenty())
	if !slices.Equal(r.Names, want) || r.Changed != len(want) || r.Short != "" {
		t.Errorf("%q, %d, %q; want %q", r.Names, r.Changed, r.Short, want)
	}
	if r = Since(open(t, p("mode")), moment, plenty()); r.Changed != 1 || !slices.Equal(r.Names, []string{""}) {
		t.Errorf("a file by itself: %+v", r)
	}
}

// TestSinceIsBounded: a jail that makes much delays no caller, and the receipt states that not all was looked at.
func TestSinceIsBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range 300 {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), nil, 0o600))
	}
	begin := time.Unix(0, 0)
	b := plenty()
	b.Entries = 50
	if r := Since(open(t, dir), begin, b); r.Entries != 50 || r.Changed != 50 || r.Short != "after 50 files" {
		t.Errorf("%+v", r)
	}
	b = plenty()
	b.Names = 10
	if r := Since(open(t, dir), begin, b); len(r.Names) != 10 || r.Changed != 301 || r.Short != "" {
		t.Errorf("%d names of %d, %q", len(r.Names), r.Changed, r.Short)
	}
	b = plenty()
	b.Until = time.Now().Add(-time.Second)
	if r := Since(open(t, dir), begin, b); r.Entries > 1 || !strings.HasPrefix(r.Short, "for want of time") {
		t.Errorf("%d entries, %q", r.Entries, r.Short)
	}
	// Directories without end.
	at, err := os.Open(dir)
	must(t, err)
	name := strings.Repeat("d", 200)
	for range 10 {
		must(t, unix.Mkdirat(int(at.Fd()), name, 0o700))
		fd, err := unix.Openat(int(at.Fd()), name, unix.O_DIRECTORY, 0)
		must(t, errors.Join(err, at.Close()))
		at = os.NewFile(uintptr(fd), name)
	}
	at.Close()
	if r := Since(open(t, dir), begin, plenty()); r.Entries > 310 || !strings.Contains(r.Short, "1024 bytes") {
		t.Errorf("%d entries, %q", r.Entries, r.Short)
	}
	now := time.Now()
	if got := (Bounds{90, 9, now.Add(9 * time.Second)}).Share(now, 3); got != (Bounds{30, 3, now.Add(3 * time.Second)}) {
		t.Errorf("a third is %+v", got)
	}
}

// TestSinceLooksWhereNamesChanged: a file that was made is found though there is too much beside it, and a deep one.
func TestSinceLooksWhereNamesChanged(t *testing.T) {
	dir := t.TempDir()
	for i := range 1000 {
		sub := filepath.Join(dir, fmt.Sprint("d", i/10))
		must(t, errors.Join(os.MkdirAll(sub, 0o700), os.WriteFile(filepath.Join(sub, fmt.Sprint(i)), nil, 0o600)))
	}
	d, err := os.Open(dir)
	must(t, err)
	defer d.Close()
	names, err := d.Readdirnames(-1)
	must(t, err)
	last := names[len(names)-1]
	moment := settled(t, dir)
	next(moment)
	must(t, errors.Join(os.MkdirAll(filepath.Join(dir, last, "a/b"), 0o700), os.WriteFile(filepath.Join(dir, last, "a/b/new"), nil, 0o600)))
	b := plenty()
	b.Entries = 120
	want := []string{"/" + last + "/", "/" + last + "/a/", "/" + last + "/a/b/", "/" + last + "/a/b/new"}
	if r := Since(open(t, dir), moment, b); !slices.Equal(r.Names, want) || r.Short == "" {
		t.Errorf("%q, %q; want %q", r.Names, r.Short, want)
	}
}

// TestSinceStaysOnItsMount: what is mounted below is another's.
func TestSinceStaysOnItsMount(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := t.TempDir()
	for _, name := range []string{"mounted", "own"} {
		must(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	must(t, unix.Mount("tmpfs", filepath.Join(dir, "mounted"), "tmpfs", 0, ""))
	t.Cleanup(func() { unix.Unmount(filepath.Join(dir, "mounted"), unix.MNT_DETACH) })
	must(t, errors.Join(os.WriteFile(filepath.Join(dir, "mounted/x"), nil, 0o600), os.WriteFile(filepath.Join(dir, "own/x"), nil, 0o600)))
	if r := Since(open(t, dir), time.Unix(0, 0), plenty()); !slices.Equal(r.Names, []string{"/", "/own/", "/own/x"}) {
		t.Errorf("%q", r.Names)
	}
}

// BenchmarkSince is of a directory with as many files as a delete looks at.
func BenchmarkSince(b *testing.B) {
	dir := b.TempDir()
	for i := range 4096 {
		sub := filepath.Join(dir, fmt.Sprint(i/64))
		if err := errors.Join(os.MkdirAll(sub, 0o700), os.WriteFile(filepath.Join(sub, fmt.Sprint(i)), nil, 0o600)); err != nil {
			b.Fatal(err)
		}
	}
	f, err := os.OpenFile(dir, unix.O_PATH, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for b.Loop() {
		Since(f, time.Now(), plenty())
	}
}

// Moment is the time that the kernel would give to a file that is changed now: it is behind time.Now by up to one tick of the kernel's clock
// (CLOCK_REALTIME_COARSE, clock_gettime(2)).
func Moment() time.Time {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &t); err != nil {
		return time.Now().Add(-time.Second)
	}
	return time.Unix(t.Unix())
}
