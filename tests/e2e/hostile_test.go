package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// refused reports whether an attempt of the probe failed as it must in a jail.
func refused(name string, o outcome) bool { return engine.Refused(name, o) }

// TestProbeAttemptsFail: none of what the probe tries gets through, as root and as a user.
func TestProbeAttemptsFail(t *testing.T) {
	for _, user := range []string{"0", "1000"} {
		t.Run("uid "+user, func(t *testing.T) {
			d := d(t)
			for name, o := range probe[map[string]outcome](d, []string{"-u", user}, "attempts") {
				if !refused(name, o) {
					t.Errorf("%s: %s %s", name, o.Errno, o.Note)
				}
			}
		})
	}
}

// TestKernelFiles: nothing in /proc and /sys that belongs to the whole machine takes a write.
func TestKernelFiles(t *testing.T) {
	for _, user := range []string{"0", "1000"} {
		t.Run("uid "+user, func(t *testing.T) {
			for what, how := range probe[map[string]string](d(t), []string{"-u", user}, "attack") {
				t.Errorf("%s: %s", what, how)
			}
		})
	}
}

// A neighbour is another jail on the machine, with something to lose.
type neighbour struct {
	d      *engine.T
	id     string
	dir    string // a directory of its own on the host
	secret string
}

// newNeighbour starts one.
func newNeighbour(d *engine.T) neighbour {
	d.Helper()
	n := neighbour{d: d, dir: directory(d, 1000), secret: fmt.Sprintf("secret-%d-%s", os.Getpid(), filepath.Base(d.Name()))}
	n.id = sleeper(d, "-v", n.dir+":/mine")
	sh(d, n.id, "echo "+n.secret+" > /root/kept; echo "+n.secret+" > /mine/kept; echo "+n.secret+" > /dev/shm/kept")
	return n
}

// unharmed tests that it works as before.
func (n neighbour) unharmed() {
	n.d.Helper()
	env.Equal(n.d, "the neighbour", sh(n.d, n.id, "cat /root/kept /mine/kept /dev/shm/kept"), n.secret+"\n"+n.secret+"\n"+n.secret)
	env.Equal(n.d, "the neighbour's directory", string(env.Read(n.d, filepath.Join(n.dir, "kept"))), n.secret+"\n")
	env.Equal(n.d, "a new jail", mustRunJail(n.d, engine.Busybox, "sh", "-c", "cat /etc/image-secret"), "only for root of the image")
}

func TestForkBomb(t *testing.T) {
	d := docker.For(t)
	n := newNeighbour(d)
	// Where policy does not hold, the test still must not take the machine down: hence a limit, above policy's.
	bomb := startJail(d, "--pids-limit", "3000", engine.Busybox, "sh", "-c", "bomb() { bomb | bomb & }; bomb; exec sleep 3600")
	env.Eventually(d, "the bomb fills its jail", func() bool {
		var pids uint64
		for _, p := range []string{"/sys/fs/cgroup/pids/", "/sys/fs/cgroup/"} {
			if text, err := os.ReadFile(p + d.CgroupParent() + "/" + bomb + "/pids.current"); err == nil {
				fmt.Sscan(string(text), &pids)
			}
		}
		if pids > 2000 {
			t.Fatalf("%d processes in one jail", pids)
		}
		return pids > 900
	})
	n.unharmed()
	d.Must("kill", bomb)
	n.unharmed()
	got := probe[struct {
		Started int    `json:"started"`
		Errno   string `json:"errno"`
	}](d, nil, "forks", "3000")
	if got.Errno != "EAGAIN" || got.Started > 1100 {
		t.Errorf("%d processes came to be, then %q", got.Started, got.Errno)
	}
}

func TestMemoryBomb(t *testing.T) {
	d := docker.For(t)
	n := newNeighbour(d)
	id := startJail(d, "-m", "64m", engine.Busybox, "sh", "-c", engine.RunsOut(1000))
	d.Must("exec", id, "touch", engine.GoFile)
	env.Eventually(d, "a process out of memory is killed", func() bool { return d.Must("logs", id) == "137" })
	env.Eventually(d, "Docker hears of it", func() bool {
		return d.Must("events", "--since", "0", "--until", "0s", "--filter", "container="+id, "--filter", "event=oom") != ""
	})
	d.Must("kill", id)
	env.Equal(t, "OOMKilled", inspect(d, id, "{{.State.OOMKilled}}"), "true")
	n.unharmed()
	// Files in the jail's own file systems are memory too, and count.
	fill := d.Docker("run", "--rm", jail, "-m", "64m", engine.Busybox, "probe", "fill", "/dev/shm", "200")
	if fill.Code == 0 && !strings.Contains(fill.Stdout, "ENOSPC") {
		t.Errorf("200 MB of files in 64 MB of memory: %s", fill)
	}
	n.unharmed()
	if testing.Short() {
		return
	}
	// With a limit above policy's, 4 GiB, which holds.
	id = startJail(d, "-m", "6g", "--memory-swap", "6g", engine.Busybox, "probe", "memory", "5000")
	env.Equal(t, "exit code by default", d.Must("wait", id), "137")
	n.unharmed()
}

// TestDiskFiller fills every writable mount: each ends at its cap, none is the host's disk.
func TestDiskFiller(t *testing.T) {
	d := docker.For(t)
	n := newNeighbour(d)
	id := sleeper(d, "--tmpfs", "/scratch", "--read-only=false")
	const layerMB, otherMB = 1024, 300
	for _, at := range writableMounts(d, id) {
		most := otherMB
		if at == "/" {
			most = layerMB
		}
		got := probeIn[struct {
			Bytes int64  `json:"bytes"`
			Errno string `json:"errno"`
		}](d, nil, id, "fill", at, fmt.Sprint(most+200))
		if got.Errno == "" || got.Bytes > int64(most)<<20 {
			t.Errorf("%s took %d MB, then %q", at, got.Bytes>>20, got.Errno)
		}
		files := probeIn[struct {
			Files int    `json:"files"`
			Errno string `json:"errno"`
		}](d, nil, id, "inodes", at, "300000")
		if files.Errno == "" {
			t.Errorf("%s took %d files without end", at, files.Files)
		}
		t.Logf("%-20s %5d MB then %s, %6d files then %s", at, got.Bytes>>20, got.Errno, files.Files, files.Errno)
	}
	n.unharmed()
}

// writableMounts lists the directories that are mount points and not mounted read-only.
func writableMounts(d *engine.T, id string) []string {
	d.Helper()
	var at []string
	for line := range strings.SplitSeq(sh(d, id, "cat /proc/self/mountinfo"), "\n") {
		f := strings.Fields(line)
		if len(f) > 5 && !slices.Contains(strings.Split(f[5], ","), "ro") && d.Docker("exec", id, "test", "-d", f[4]).Code == 0 {
			at = append(at, f[4])
		}
	}
	if !slices.Contains(at, "/") {
		d.Fatalf("no writable root among %v", at)
	}
	return at
}

// TestRemoveEverything: the jail loses its own files, and no one else loses anything.
func TestRemoveEverything(t *testing.T) {
	d := docker.For(t)
	n := newNeighbour(d)
	dir := directory(t, 1000)
	outside := filepath.Join(filepath.Dir(dir), "outside")
	env.Put(t, outside, "not in the directory\n", 0o666, 1000)
	env.Check(t, os.Symlink(outside, filepath.Join(dir, "link")))
	ro := directory(t, 1000)
	id := sleeper(d, "-v", dir+":/work", "-v", ro+":/ro:ro")
	d.Docker("exec", id, "busybox", "rm", "-rf", "--no-preserve-root", "/")
	d.Docker("exec", id, "/bin/busybox", "sh", "-c", "/bin/busybox rm -rf /* /.[!.]*")
	env.Equal(t, "a file beside the directory", string(env.Read(t, outside)), "not in the directory\n")
	env.Equal(t, "a read-only directory", string(env.Read(t, filepath.Join(ro, "hello"))), "hello from the host\n")
	n.unharmed()
	d.Must("rm", "-f", id)
	n.unharmed()
}

// TestSignalsStayInside: signals stay inside. The test aims at one process of its own and at no other, since where the protection
// is missing the signal arrives.
func TestSignalsStayInside(t *testing.T) {
	d := docker.For(t)
	n := newNeighbour(d)
	victim := exec.Command("/bin/busybox", "sleep", "600")
	env.Check(t, victim.Start())
	ended := make(chan error, 1)
	go func() { ended <- victim.Wait() }()
	t.Cleanup(func() { _ = victim.Process.Kill() })
	for _, pid := range []string{fmt.Sprint(victim.Process.Pid), inspect(d, n.id, "{{.State.Pid}}")} {
		for _, options := range [][]string{nil, {"--pid", "host"}, {"--pid", "container:" + n.id}} {
			r := d.Docker(append(append([]string{"run", "--rm", jail}, options...), engine.Busybox, "kill", "-9", pid)...)
			if r.Code == 0 {
				t.Errorf("with %v a process of the host got the signal", options)
			}
		}
	}
	select {
	case err := <-ended:
		t.Errorf("a process of the host was killed: %v", err)
	default:
	}
	n.unharmed()
}

// TestNothingOfOthersIsFound: neither the host's files and processes nor another jail's can be found from any place in the jail.
func TestNothingOfOthersIsFound(t *testing.T) {
	d := docker.For(t)
	n := newNeighbour(d)
	dir := directory(t, 1000)
	canary := fmt.Sprintf("canary-%d", os.Getpid())
	for _, at := range []string{filepath.Dir(dir), "/var/tmp", "/tmp", "/root", "/run"} {
		p := filepath.Join(at, canary)
		env.Put(t, p, canary+"\n", 0o666, 0)
		t.Cleanup(func() { os.Remove(p) })
	}
	// What the jail's own files reveal of paths on the host is tried too: layers of images, the neighbour's root.
	var hostPaths []string
	pid := inspect(d, n.id, "{{.State.Pid}}")
	for line := range strings.SplitSeq(env.ProcFile(t, pid, "mountinfo"), "\n") {
		for _, opt := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" ,:=", r) }) {
			if strings.HasPrefix(opt, "/run/") || strings.HasPrefix(opt, "/var/") {
				hostPaths = append(hostPaths, opt)
			}
		}
	}
	for _, user := range []string{"0", "1000"} {
		id := sleeper(d, "-u", user, "-v", dir+":/work", "-v", filepath.Join(dir, "hello")+":/file", "--pid", "host", "--network", "host", "--ipc", "host")
		env.Contain(t, "find looks", sh(d, id, "find / -name hello 2>/dev/null; true"), "/work/hello")
		env.Equal(t, "found by name", sh(d, id, "find / -name '"+canary+"' -o -name kept 2>/dev/null; true"), "")
		env.Equal(t, "found by content", sh(d, id, `{ find / \( -path /proc -o -path /sys -o -path /dev \) -prune -o -type f -size -64k -exec grep -l "`+n.secret+`" {} +
			grep -l "`+n.secret+`" /proc/*/root/root/kept /proc/*/root/mine/kept /proc/*/environ /dev/shm/*; } 2>/dev/null; true`), "")
		env.Equal(t, "processes", sh(d, id, "cat /proc/[0-9]*/comm | grep -c -e dockerd -e containerd -e agentjail; true"), "0")
		env.Equal(t, "around the directory", sh(d, id, "ls /work/.. /file/.. 2>/dev/null | grep canary; cat /work/../"+canary+" 2>/dev/null; true"), "")
		for _, p := range hostPaths {
			if d.Docker("exec", id, "test", "-e", p).Code == 0 && !strings.HasPrefix(p, "/run/agentjail-") {
				t.Errorf("as %s the host's %s is there", user, p)
			}
		}
		for p, o := range probeIn[map[string]outcome](d, nil, id, "read", "/etc/shadow", "/proc/kcore", "/proc/kmsg", "/dev/mem", "/dev/vda", "/dev/sda", "/dev/kmsg",
			"/proc/1/root/"+d.Socket(), "/var/run/docker.sock", "/run/docker.sock", "/sys/firmware/dmi/tables/DMI", "/sys/kernel/debug", "/sys/kernel/security/lsm", "/proc/keys", "/proc/timer_list", "/proc/sched_debug") {
			if o.Errno == "" && o.Text != "" {
				t.Errorf("as %s %s can be read: %.40q", user, p, o.Text)
			}
		}
	}
	n.unharmed()
}

// TestRootsFilesStayProtected: in a directory of uid 1000, files that belong to the host's root keep their protection.
func TestRootsFilesStayProtected(t *testing.T) {
	dir := directory(t, 1000)
	env.Put(t, filepath.Join(dir, "private"), "root's own\n", 0o600, 0)
	env.Put(t, filepath.Join(dir, "readable"), "root's public\n", 0o644, 0)
	env.Check(t, os.Mkdir(filepath.Join(dir, "rootdir"), 0o755))
	for _, user := range []string{"0", "1000"} {
		t.Run("uid "+user, func(t *testing.T) {
			d := d(t)
			id := sleeper(d, "-u", user, "-v", dir+":/w")
			env.Equal(t, "reads", sh(d, id, "cat /w/readable /w/private 2>/dev/null; true"), "root's public")
			for _, attempt := range []string{"echo x > /w/readable", "echo x > /w/private", "touch /w/rootdir/x", "chmod 777 /w/readable", "chown 0:0 /w/readable", "chmod 777 /w/rootdir"} {
				if d.Docker("exec", id, "sh", "-c", attempt).Code == 0 {
					t.Errorf("%s works", attempt)
				}
			}
			env.Equal(t, "root's file", string(env.Read(t, filepath.Join(dir, "readable"))), "root's public\n")
		})
	}
}

// TestSetID: no set-id file can be left in a directory, where the host would run it as the directory's owner, root perhaps.
func TestSetID(t *testing.T) {
	for _, uid := range []int{1000, 5000} {
		for _, user := range []string{"0", "1000"} {
			t.Run(fmt.Sprintf("directory of %d as %s", uid, user), func(t *testing.T) {
				d := d(t)
				dir := directory(t, uid)
				id := sleeper(d, "-u", user, "-v", dir+":/w")
				d.Docker("exec", id, "sh", "-c", `cp /bin/busybox /w/a; chmod u+s /w/a; chmod 6755 /w/a
					cp -p /usr/local/bin/setuid-probe /w/b; cp -a /usr/local/bin/setuid-probe /w/c
					install -m 4755 /bin/busybox /w/d; tar -C / -cf - usr/local/bin/setuid-probe | tar -C /w -xpf -
					mkdir -m 2777 /w/e; mkdir /w/f; chmod g+s /w/f; mv /usr/local/bin/setuid-probe /w/g; ln /usr/local/bin/setuid-probe /w/h
					probe chmod 4755 /w/a; probe chmod 2755 /w/a`)
				found := 0
				err := filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
					if err != nil {
						return err
					}
					found++
					if _, mode := owner(t, p); mode&os.ModeSetuid != 0 || mode&os.ModeSetgid != 0 && !mode.IsDir() {
						t.Errorf("%s has mode %v", strings.TrimPrefix(p, dir), mode)
					}
					return nil
				})
				if err != nil || found < 5 {
					t.Errorf("the attempt left %d files: %v", found, err)
				}
			})
		}
	}
}

// TestSetIDInImage: a set-id program of the image changes no process's identity.
func TestSetIDInImage(t *testing.T) {
	d := d(t)
	var w who = env.Decode[who](d, mustRunJail(d, "-u", "1000", engine.Busybox, "setuid-probe", "identity"))
	env.Equal(t, "effective uid", w.EUID, 1000)
	jailed(t, "set-uid program", w)
}

// TestWorkingDirectory: the working directory, which the runtime enters for the container, is no way out
// (CVE-2024-21626: it could be a descriptor that the runtime had open on the host).
func TestWorkingDirectory(t *testing.T) {
	d := d(t)
	id := sleeper(d)
	sh(d, id, "for i in 3 4 5 6 7 8 9 10 11 12; do ln -s /proc/self/fd/$i /tmp/fd$i; done")
	inside := func(what string, r engine.Result) {
		t.Helper()
		if r.Code != 0 {
			return // refused
		}
		c := env.Decode[map[string]string](d, r.Stdout)
		for k, v := range c {
			if k == "above" || strings.HasPrefix(k, "fd ") {
				t.Errorf("%s: %s: %s", what, k, v)
			}
		}
	}
	for fd := 3; fd <= 12; fd++ {
		dir := fmt.Sprintf("/proc/self/fd/%d", fd)
		inside("run -w "+dir, d.Docker("run", "--rm", jail, "-w", dir, engine.Busybox, "/usr/local/bin/probe", "cwd"))
		inside("exec -w "+dir, d.Docker("exec", "-w", dir, id, "/usr/local/bin/probe", "cwd"))
		inside("exec -w link", d.Docker("exec", "-w", fmt.Sprintf("/tmp/fd%d", fd), id, "/usr/local/bin/probe", "cwd"))
	}
	for _, dir := range []string{"/../../../../../..", "/proc/1/cwd/../..", "/proc/self/root/..", "/dev/fd/../../.."} {
		inside("exec -w "+dir, d.Docker("exec", "-w", dir, id, "/usr/local/bin/probe", "cwd"))
	}
}

// TestRuntimeBinary: the container cannot change the program that starts it (CVE-2019-5736).
func TestRuntimeBinary(t *testing.T) {
	d := docker.For(t)
	under := env.Get(t, engine.UnderTest)
	binaries := []string{under, "/usr/sbin/runc", "/usr/bin/runc", "/usr/bin/crun"}
	before := map[string]string{}
	for _, b := range binaries {
		if exists(b) {
			before[b] = string(env.Read(t, b))
		}
	}
	// The program that is started is /proc/self/exe: the runtime itself, when it is careless.
	d.Docker("run", "--rm", jail, "--entrypoint", "/proc/self/exe", engine.Busybox, "--version")
	// While execs come in, somebody inside waits for the runtime's program to show up and opens it for writing.
	id := startJail(d, engine.Busybox, "sh", "-c", `echo ready; while :; do for p in /proc/[0-9]*; do
		case $(readlink $p/exe) in */busybox|*/probe|"") ;; *) echo saw $(readlink $p/exe); { : >> $p/exe; } 2>/dev/null && echo opened $p/exe;; esac; done; done`)
	env.Eventually(d, "ready", func() bool { return strings.Contains(d.Must("logs", id), "ready") })
	sh(d, id, "cp /bin/sh /bin/sh.real; rm /bin/ash; printf '#!/proc/self/exe\\n' > /bin/ash; chmod 755 /bin/ash")
	for range 10 {
		d.Docker("exec", id, "/bin/ash", "-c", "true")
		d.Docker("exec", id, "true")
	}
	if log := d.Must("logs", id); strings.Contains(log, "opened") {
		t.Errorf("the runtime's program was opened for writing: %s", log)
	}
	for b, was := range before {
		if string(env.Read(t, b)) != was {
			t.Errorf("%s was changed", b)
		}
	}
}
