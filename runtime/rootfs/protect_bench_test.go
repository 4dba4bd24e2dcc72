package rootfs

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/protect"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
)

// BenchmarkProtect does to a directory what `create` and `delete` do: it looks for protected paths, makes placeholders,
// mounts, attaches and removes. It reports the least milliseconds of each, and of the processor for all.
func BenchmarkProtect(b *testing.B) {
	if os.Getuid() != 0 {
		b.Skip("needs root, to mount")
	}
	for _, c := range []struct{ repositories, files int }{{1, 10}, {20, 10}, {60, 10}, {1, 50_000}} {
		b.Run(fmt.Sprintf("%d_repositories_%d_files", c.repositories, c.files), func(b *testing.B) {
			dir := b.TempDir()
			fill(b, dir, c.repositories, c.files)
			done := make(chan struct{})
			go func() {
				defer close(done)
				runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
				check(b, unix.Unshare(unix.CLONE_NEWNS))
				check(b, unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""))
				benchProtect(b, dir)
			}()
			<-done
		})
	}
}

func check(b *testing.B, err error) {
	if err != nil {
		b.Error(err)
		runtime.Goexit()
	}
}

// fill makes repositories, and files in directories of 50 each.
func fill(b *testing.B, dir string, repositories, files int) {
	for r := range repositories {
		git := filepath.Join(dir, fmt.Sprintf("repo%d", r), ".git")
		for _, d := range []string{"objects", "refs/heads", "hooks", "info"} {
			check(b, os.MkdirAll(filepath.Join(git, d), 0o755))
		}
		for _, f := range []string{"HEAD", "config", "index", "description", "hooks/pre-commit.sample", "info/exclude"} {
			check(b, os.WriteFile(filepath.Join(git, f), []byte("[core]\n\tbare = false\n"), 0o644))
		}
		for i := range files {
			at := filepath.Join(dir, fmt.Sprintf("repo%d/src/d%d", r, i/50))
			if i%50 == 0 {
				check(b, os.MkdirAll(at, 0o755))
			}
			check(b, os.WriteFile(filepath.Join(at, fmt.Sprintf("file%d.go", i)), nil, 0o644))
		}
	}
}

func benchProtect(b *testing.B, dir string) {
	ledger := protect.Ledger{Dir: filepath.Join(b.TempDir(), "ledger")}
	var best [5]time.Duration // the least of each, since the machine may be busy
	note := func(i int, d time.Duration) {
		if best[i] == 0 || d < best[i] {
			best[i] = d
		}
	}
	paths := 0
	for b.Loop() {
		begin, used := time.Now(), processor(b)
		lap := func(i int) { note(i, time.Since(begin)); begin = time.Now() }
		layer := b.TempDir()
		root := filepath.Join(layer, "root")
		check(b, os.MkdirAll(filepath.Join(root, "work"), 0o755))
		host, err := OpenDir(dir)
		check(b, err)
		fd, err := unix.OpenTree(int(host.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
		check(b, err)
		s := &stager{rootMaker: rootMaker{Request: &Request{}, layer: layer}, binds: map[int]*os.File{0: os.NewFile(uintptr(fd), "clone")}}
		s.Ledger, s.Key, s.Spec, s.places = ledger, "jail", &specs.Spec{Linux: &specs.Linux{}}, []string{"/work"}
		s.Sources = []*bindsource.Source{{File: host, Fact: bindsource.Fact{Kind: bindsource.Dir}}}
		s.Plan.Binds = []plan.Bind{{Source: dir, Protect: true, Absent: true}}
		check(b, s.findProtected())
		lap(0)
		check(b, s.protectPaths())
		lap(1)
		check(b, unix.MoveMount(fd, "", unix.AT_FDCWD, filepath.Join(root, "work"), unix.MOVE_MOUNT_F_EMPTY_PATH))
		if s.Spec.Mounts != nil {
			own := filepath.Join(root, ownPlace)
			check(b, os.MkdirAll(own, 0o755))
			check(b, unix.Mount(s.Spec.Mounts[0].Source, own, "", unix.MS_BIND, ""))
		}
		at, err := OpenDir(root)
		check(b, err)
		st := &Staged{attach: s.attach}
		check(b, st.attachProtected(int(at.Fd())))
		lap(2)
		closeTrees(nil, s.attach)
		check(b, unix.Unmount(filepath.Join(root, "work"), unix.MNT_DETACH))
		if s.Spec.Mounts != nil {
			check(b, unix.Unmount(filepath.Join(root, ownPlace), unix.MNT_DETACH))
			check(b, unix.Unmount(filepath.Join(layer, ownDir), unix.MNT_DETACH))
		}
		check(b, ledger.Remove("jail"))
		lap(3)
		at.Close()
		host.Close()
		s.binds[0].Close()
		note(4, processor(b)-used)
		paths = len(s.protected[0].Found.Paths)
	}
	for i, what := range []string{"find", "mount", "attach", "remove", "cpu"} {
		b.ReportMetric(best[i].Seconds()*1000, what+"-ms")
	}
	b.ReportMetric(float64(paths), "paths")
}

// processor is the processor time of this process so far.
func processor(b *testing.B) time.Duration {
	var u unix.Rusage
	check(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
