package engine

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/tests/workloads"
)

// The images' names.
const (
	// Busybox is a small image: busybox, the probe, the users root and app (1000).
	Busybox = "busybox"
	// NonRoot is Busybox with USER 1000 and an entrypoint that only this user may execute.
	NonRoot = "nonroot"
	// Stock is a Debian as debootstrap leaves it, with no setting of ours.
	Stock = "stock"
	// Work is a Debian with the tools an agent uses: git, python, node, gcc, go, and what package workloads needs.
	Work = "work"
)

// ProbePath is where the images have the probe (tests/probe).
const ProbePath = "/usr/local/bin/probe"

// workWait bounds how long making the work image may take on a slow line.
const workWait = 20 * time.Minute

// passwd and group of the small images.
const (
	passwd = "root:x:0:0:root:/root:/bin/sh\nbin:x:1:1:bin:/bin:/bin/false\napp:x:1000:1000:app:/home/app:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
	group  = "root:x:0:\nbin:x:1:\napp:x:1000:\nextra:x:2000:app\nnogroup:x:65534:\n"
)

// A file of an image made here.
type file struct {
	name     string
	mode     int64
	uid, gid int
	link     string // target of a symbolic link
	same     string // name of a file before this one, of which this is a hard link
	data     []byte
}

// tree writes files as a tar archive. Names that end in a slash are directories.
func tree(w io.Writer, files []file) error {
	tw := tar.NewWriter(w)
	for _, f := range files {
		h := &tar.Header{
			Name: f.name, Mode: f.mode, Uid: f.uid, Gid: f.gid, Size: int64(len(f.data)),
			Typeflag: tar.TypeReg, ModTime: time.Unix(1700000000, 0), Format: tar.FormatPAX,
		}
		switch {
		case f.link != "":
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.link
		case f.same != "":
			h.Typeflag, h.Linkname = tar.TypeLink, f.same
		case strings.HasSuffix(f.name, "/"):
			h.Typeflag = tar.TypeDir
		}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if _, err := tw.Write(f.data); err != nil {
			return err
		}
	}
	return tw.Close()
}

// GoFile is the file, in a container, for which AfterGo waits.
const GoFile = "/tmp/go"

// AfterGo is a shell script that runs command, the rest of a script, once GoFile exists. It is for what must not happen
// before an engine listens or has heard.
func AfterGo(command string) string {
	return "until [ -e " + GoFile + " ]; do sleep 0.1; done; " + command
}

// RunsOut is a shell script that runs a probe out of memory, which takes more than the given mebibytes, and prints its
// exit status. Shims of containerd before 2.2 miss what happens before they listen, which is after the start, or while
// the last process of a control group ends (containerd#12405, #12714): the probe waits for GoFile, and the shell lives on.
func RunsOut(mib int) string {
	return AfterGo(fmt.Sprintf("probe memory %d; echo $?; exec sleep 1000", mib))
}

// BusyboxTree writes the file system of the busybox image as a tar archive. extra files come last.
func BusyboxTree(w io.Writer) error { return busyboxTree(w) }

func busyboxTree(w io.Writer, extra ...file) error {
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		return fmt.Errorf("no busybox (hack/deps.sh installs it): %w", err)
	}
	list, err := exec.Command("/bin/busybox", "--list").Output()
	if err != nil {
		return fmt.Errorf("query busybox for its commands: %w", err)
	}
	probe, err := probeBinary()
	if err != nil {
		return err
	}
	files := []file{
		{name: "bin/", mode: 0o755},
		{name: "sbin/", mode: 0o755},
		{name: "etc/", mode: 0o755},
		{name: "usr/", mode: 0o755},
		{name: "usr/bin/", mode: 0o755},
		{name: "usr/local/", mode: 0o755},
		{name: "usr/local/bin/", mode: 0o755},
		{name: "root/", mode: 0o700},
		{name: "home/", mode: 0o755},
		{name: "home/app/", mode: 0o755, uid: 1000, gid: 1000},
		{name: "tmp/", mode: 0o1777},
		{name: "var/", mode: 0o755},
		{name: "var/tmp/", mode: 0o1777},
		{name: "proc/", mode: 0o555},
		{name: "sys/", mode: 0o555},
		{name: "dev/", mode: 0o755},
		{name: "etc/passwd", mode: 0o644, data: []byte(passwd)},
		{name: "etc/group", mode: 0o644, data: []byte(group)},
		{name: "etc/image-secret", mode: 0o600, data: []byte("only for root of the image\n")},
		{name: "bin/busybox", mode: 0o755, data: busybox},
		{name: ProbePath[1:], mode: 0o755, data: probe},
		{name: "usr/bin/env", mode: 0o755, link: "/bin/busybox"},
		{name: "etc/not-executable", mode: 0o644, data: []byte("no program\n")},
		// A set-user-id program: must change no process's identity.
		{name: "usr/local/bin/setuid-probe", mode: 0o4755, data: probe},
	}
	// Hard links of one symbolic link: the hundreds of inodes of symbolic links would take most of
	// the time that a tree takes to make.
	const applet = "bin/sh"
	files = append(files, file{name: applet, mode: 0o777, link: "busybox"})
	for _, a := range slices.Sorted(slices.Values(strings.Fields(string(list)))) {
		if name := "bin/" + a; a != "busybox" && name != applet {
			files = append(files, file{name: name, mode: 0o777, same: applet})
		}
	}
	return tree(w, append(files, extra...))
}

var probeBinary = sync.OnceValues(func() ([]byte, error) {
	dir, err := BinDir()
	if err != nil {
		return nil, err
	}
	out := filepath.Join(dir, "probe")
	if err := Build("./tests/probe", out); err != nil {
		return nil, err
	}
	return os.ReadFile(out)
})

// UnpackBusybox makes the busybox tree in a directory.
func UnpackBusybox(dir string) error {
	var buf bytes.Buffer
	if err := BusyboxTree(&buf); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for r := tar.NewReader(&buf); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		at := filepath.Join(dir, h.Name)
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(at, os.FileMode(h.Mode)&0o777)
		case tar.TypeSymlink:
			err = os.Symlink(h.Linkname, at)
		case tar.TypeLink:
			err = os.Link(filepath.Join(dir, h.Linkname), at)
		case tar.TypeReg:
			var text []byte
			if text, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(at, text, os.FileMode(h.Mode)&0o777)
			}
		}
		if err != nil {
			return err
		}
	}
}

// ImportBusybox makes the images Busybox and NonRoot.
func (e *Engine) ImportBusybox() error {
	var b bytes.Buffer
	if err := busyboxTree(&b); err != nil {
		return err
	}
	if err := e.ImportTar(bytes.NewReader(b.Bytes()), Busybox, "CMD [\"/bin/sh\"]", "ENV PATH=/usr/local/bin:/usr/bin:/bin:/sbin"); err != nil {
		return err
	}
	b.Reset()
	entry := file{name: "entry", mode: 0o500, uid: 1000, gid: 1000, data: []byte("#!/bin/sh\necho entry runs as $(id -u):$(id -g) in $(pwd)\nexec \"$@\"\n")}
	if err := busyboxTree(&b, entry); err != nil {
		return err
	}
	return e.ImportTar(bytes.NewReader(b.Bytes()), NonRoot, "USER 1000:1000", "WORKDIR /home/app", "ENTRYPOINT [\"/entry\"]", "CMD [\"/bin/true\"]",
		"ENV PATH=/usr/local/bin:/usr/bin:/bin:/sbin")
}

// ImportBusyboxWith makes an image of Busybox with further executable files and symbolic links, by absolute path. changes
// are those of docker import.
func (e *Engine) ImportBusyboxWith(name string, programs, links map[string]string, changes ...string) error {
	var extra []file
	for _, at := range slices.Sorted(maps.Keys(programs)) {
		extra = append(extra, file{name: at[1:], mode: 0o755, data: []byte(programs[at])})
	}
	for _, at := range slices.Sorted(maps.Keys(links)) {
		extra = append(extra, file{name: at[1:], mode: 0o777, link: links[at]})
	}
	var b bytes.Buffer
	if err := busyboxTree(&b, extra...); err != nil {
		return err
	}
	return e.ImportTar(bytes.NewReader(b.Bytes()), name, append(changes, "ENV PATH=/usr/local/bin:/usr/bin:/bin:/sbin")...)
}

// importTries bounds the attempts at an import. Docker 20.10 unpacks in a child that pivots into the layer's directory and
// then removes the pivot; on Linux 6.18 that removal is at times refused as busy, whichever runtimes are configured.
const importTries = 5

// ImportTar makes an image from a tar archive. changes are those of docker import.
func (e *Engine) ImportTar(r io.ReadSeeker, name string, changes ...string) error {
	args := []string{"import"}
	for _, c := range changes {
		args = append(args, "--change", c)
	}
	ctx, cancel := context.WithTimeout(context.Background(), workWait)
	defer cancel()
	for try := 1; ; try++ {
		if _, err := r.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("make image %s: %w", name, err)
		}
		res := e.DockerInput(ctx, r, append(args, "-", name)...)
		if res.Code == 0 {
			return nil
		}
		if try == importTries || !strings.Contains(res.Stderr, "cleaning up after pivot") {
			return fmt.Errorf("make image %s: %s", name, res)
		}
	}
}

//go:embed images/work.sh
var workRecipe []byte

// WorkTar returns the path of the work image's tar archive. It is made once, with debootstrap, and kept in CacheDir
// under the hash of its recipe and packages; a second caller, also in another process, waits for the first.
func WorkTar() (string, error) {
	return workFile("", func(out string) error {
		return buildWork(out, workloads.Packages())
	})
}

// workTree returns the directory into which the archive was unpacked, once.
func workTree() (string, error) {
	tar, err := WorkTar()
	if err != nil {
		return "", err
	}
	return workFile(".tree", func(out string) error {
		tmp, err := os.MkdirTemp(CacheDir, "unpacking-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		if text, err := exec.Command("tar", "-C", tmp, "--numeric-owner", "-xpf", tar).CombinedOutput(); err != nil {
			return fmt.Errorf("unpacking %s: %w: %s", tar, err, cut(string(text)))
		}
		// Its age is that of the copy (removeOld).
		if err := os.Chtimes(tmp, time.Time{}, time.Now()); err != nil {
			return err
		}
		return os.Rename(tmp, out)
	})
}

// fetchDebs keeps the packages $3... and what they depend on in the file system of archive $2, in directory $1.
const fetchDebs = `set -e
root=$(mktemp -d "$1.XXXXXX"); trap 'rm -rf --one-file-system "$root"' EXIT
out=$1; tar -C "$root" --numeric-owner -xpf "$2"; shift 2
cp /etc/resolv.conf "$root/etc/resolv.conf"
chroot "$root" apt-get -q update
chroot "$root" apt-get -qy --no-install-recommends --download-only install "$@"
mv "$root/var/cache/apt/archives" "$out"`

// Debs returns a directory with these Debian packages, and those that they depend on in the Stock image. It is kept beside that.
func Debs(packages ...string) (string, error) {
	tar, err := WorkTar()
	if err != nil {
		return "", err
	}
	return workFile(".debs-"+strings.Join(packages, "-"), func(out string) error {
		ctx, cancel := context.WithTimeout(context.Background(), workWait)
		defer cancel()
		if text, err := exec.CommandContext(ctx, "sh", append([]string{"-c", fetchDebs, "sh", out, tar + ".stock"}, packages...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("fetching Debian packages: %w: %s", err, cut(string(text)))
		}
		return nil
	})
}

// workFile returns the path of what the work image is made from, with this suffix, which is made if it is not there.
func workFile(suffix string, build func(out string) error) (string, error) {
	sum := sha256.Sum256(fmt.Appendf(workRecipe[:len(workRecipe):len(workRecipe)], "%q", workloads.Packages()))
	name := "work-"
	if workloads.All() {
		name = "workall-"
	}
	archive := filepath.Join(CacheDir, name+hex.EncodeToString(sum[:8])+".tar")
	if err := os.MkdirAll(CacheDir, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(archive+".lock", os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	out := archive + suffix
	if _, err := os.Stat(out); err == nil {
		return out, nil
	}
	if err := build(out); err != nil {
		return "", err
	}
	removeOld(name, archive)
	return out, nil
}

// buildWork runs the recipe.
func buildWork(out string, packages []string) error {
	fmt.Fprintf(os.Stderr, "engine: making the work image with debootstrap (minutes, once): %s\n", out)
	script, err := os.CreateTemp("", "agentjail-work-*.sh")
	if err != nil {
		return err
	}
	defer os.Remove(script.Name())
	_, err = script.Write(workRecipe)
	if cerr := script.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), workWait)
	defer cancel()
	// Pdeathsig is bound to the thread that forks (prctl(2)).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var log bytes.Buffer
	cmd := exec.CommandContext(ctx, "sh", append([]string{script.Name(), out}, packages...)...)
	cmd.Stdout, cmd.Stderr = &log, &log
	// The group, so that debootstrap's children go too; SIGTERM, so that the script takes its mount down.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = stopWait
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("make the work image: %w\n%s", err, cut(log.String()))
	}
	return nil
}

// keepOld is how long the archive of another recipe stays: checkouts of a day that share the machine do not remove one another's.
const keepOld = 24 * time.Hour

// removeOld removes the archives of other recipes.
func removeOld(name, keep string) {
	old, _ := filepath.Glob(filepath.Join(CacheDir, name+"*.tar*"))
	for _, p := range old {
		if fi, err := os.Lstat(p); err == nil && !strings.HasPrefix(p, keep) && time.Since(fi.ModTime()) > keepOld {
			_ = os.RemoveAll(p)
		}
	}
}

// ImportWork makes the Work image in this engine, the first time it is called.
func (e *Engine) ImportWork() error {
	e.workOnce.Do(func() { e.workErr = e.importWork() })
	return e.workErr
}

// importWork makes an image of one file, and links the unpacked archive into its layer: an import of
// its gigabytes, and their removal, take longer than most suites' tests. Layers are never written
// to. An engine that has no directory of a layer, or has it on another file system, imports all.
func (e *Engine) importWork() error {
	var b bytes.Buffer
	if err := tree(&b, []file{{name: "etc/", mode: 0o755}}); err != nil {
		return err
	}
	if err := e.importWorkFrom(bytes.NewReader(b.Bytes())); err != nil {
		return err
	}
	r := e.Docker(context.Background(), "image", "inspect", "--format", `{{with .GraphDriver}}{{with .Data}}{{.UpperDir}}{{end}}{{end}}`, Work)
	if layer := strings.TrimSpace(r.Stdout); r.Code == 0 && pathname.Below(layer, e.Dir) {
		dir, err := workTree()
		if err != nil {
			return err
		}
		if err = linkTree(dir, layer); err == nil {
			return nil
		}
		e.opts.Log("engine: linking the work image: %v", err)
	}
	tar, err := WorkTar()
	if err != nil {
		return err
	}
	f, err := os.Open(tar)
	if err != nil {
		return err
	}
	defer f.Close()
	return e.importWorkFrom(f)
}

// linkTree makes hard links of a tree's files in a directory, both below /var. dockerd has mounted its
// directory of layers on itself, and no link goes from one mount to another: both are reached by a
// copy of the mount that has nothing mounted on it.
func linkTree(tree, dir string) error {
	const top = "/var"
	fd, err := unix.OpenTree(unix.AT_FDCWD, top, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return &os.PathError{Op: "open_tree", Path: top, Err: err}
	}
	both := os.NewFile(uintptr(fd), top)
	defer both.Close()
	below := func(path string) string { return "/proc/self/fd/3" + strings.TrimPrefix(path, top) }
	cmd := exec.Command("cp", "-al", below(tree)+"/.", below(dir))
	cmd.ExtraFiles = []*os.File{both}
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("linking %s to %s: %w: %s", tree, dir, err, cut(string(text)))
	}
	return nil
}

func (e *Engine) importWorkFrom(r io.ReadSeeker) error {
	return e.ImportTar(r, Work, "CMD [\"/bin/bash\"]",
		"ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/postgresql/15/bin", "ENV LC_ALL=C.UTF-8")
}

// ImportStock makes the Stock image in this engine. It comes with the work image's archive.
func (e *Engine) ImportStock() error {
	path, err := WorkTar()
	if err != nil {
		return err
	}
	f, err := os.Open(path + ".stock")
	if err != nil {
		return err
	}
	defer f.Close()
	return e.ImportTar(f, Stock, "CMD [\"/bin/bash\"]", "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
}
