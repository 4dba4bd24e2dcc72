package podman

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

func TestRun(t *testing.T) {
	p := root(t)
	env.Equal(t, "output", mustRunJail(p, engine.Busybox, "echo", "hello"), "hello")
	for _, c := range []struct {
		what string
		args []string
		code int
	}{
		{"exit code", []string{"sh", "-c", "exit 7"}, 7},
		{"exit code of a missing program", []string{"/nowhere"}, 127},
		{"exit code of what is no program", []string{"/etc/not-executable"}, 126},
	} {
		env.Equal(t, c.what, p.Podman(append([]string{"run", "--rm", "--network=none", engine.Busybox}, c.args...)...).Code, c.code)
	}
	said := p.Run(strings.NewReader("from here\n"), "podman", "run", "--rm", "-i", "--network=none", engine.Busybox, "cat")
	env.Equal(t, "standard input", said.Stdout, "from here\n")
	promise.Jailed(t, "podman run -u 1000", env.Decode[engine.Who](t, mustRunJail(p, "-u", "1000", engine.Busybox, "probe", "identity")))
	env.Equal(t, "by the runtime's path, as a quadlet would", p.Must("run", "--runtime="+under, "--rm", "--network=none", engine.Busybox, "echo", "here"), "here")
	env.Equal(t, "the root directory", mustRunJail(p, engine.Busybox, "sh", "-c", "mkdir /new && rm -r /home && mkdir /home && echo x > /home/new && ls /home"), "new")
	env.Equal(t, "owner of the image's files", mustRunJail(p, engine.Busybox, "stat", "-c", "%u:%g", "/etc/passwd"), "0:0")
}

// TestEnginesFilesWritable: root of a jail writes to its own copies of what podman makes for it.
func TestEnginesFilesWritable(t *testing.T) {
	p := root(t)
	id := startJail(p, "-u", "1234", engine.Busybox, "sleep", "3600")
	const files = "/etc/passwd /etc/hosts /etc/hostname /etc/resolv.conf"
	write := "for f in " + files + "; do echo '# mine' >>$f || exit 1; done; grep -l '# mine' " + files + " | wc -l"
	env.Equal(t, "what was written", p.Must("exec", "-u", "0", id, "sh", "-c", write), "4")
	own := p.Run(nil, "sh", "-c", "cd /run/containers/storage/overlay-containers/"+id+"/userdata && cat hosts hostname && ! grep '# mine' *")
	if own.Code != 0 {
		t.Errorf("podman's own: %s", own)
	}
}

// TestDescriptorsCounted: where podman was started with a socket (systemd.socket(5)), which no jail gets, no variable counts it.
func TestDescriptorsCounted(t *testing.T) {
	p := root(t)
	script := "LISTEN_FDS=1 LISTEN_PID=$$ LISTEN_FDNAMES=web exec podman run --rm --network=none " + engine.Busybox + " sh -c 'env | grep LISTEN_; ls /proc/self/fd' 3</dev/null"
	r := p.Run(nil, "sh", "-c", script)
	if r.Code != 0 || r.Stdout != "0\n1\n2\n3\n" { // ls opens the last
		t.Error(r)
	}
}

// TestSystemd: an image that starts systemd does not start, and the remedy is Podman's own option.
func TestSystemd(t *testing.T) {
	p := root(t)
	if r := p.Run(nil, "test", "-e", "/sys/fs/cgroup/cgroup.controllers"); r.Code == 0 {
		t.Skip("of control groups version 2, Podman mounts no hierarchy of systemd's")
	}
	// A machine that systemd started has the hierarchy.
	if r := p.Run(nil, "mkdir", "/sys/fs/cgroup/systemd"); r.Code == 0 {
		t.Cleanup(func() { p.Run(nil, "rmdir", "/sys/fs/cgroup/systemd") })
	}
	args := []string{"run", "--rm", "--network=none"}
	r := p.Podman(append(args, "--systemd=always", engine.Busybox, "true")...)
	if r.Code == 0 || !strings.Contains(r.Stderr, "mount of /sys/fs/cgroup/systemd at /sys/fs/cgroup/systemd: refused") || !strings.Contains(r.Stderr, "podman run --systemd=false") {
		t.Error(r)
	}
	p.Must(append(args, "--systemd=false", engine.Busybox, "true")...)
}

// TestRunrootElsewhere: podman's files for a container are recognised wherever its runroot is, with each driver of its storage.
func TestRunrootElsewhere(t *testing.T) {
	p := root(t)
	for _, driver := range []string{"overlay", "vfs"} {
		t.Run(driver, func(t *testing.T) {
			dir := "/srv/elsewhere-podman-" + driver
			t.Cleanup(func() { p.Run(nil, "sh", "-c", "umount -R "+dir+"/root/overlay 2>/dev/null; rm -rf "+dir) })
			at := []string{"podman", "--root", dir + "/root", "--runroot", dir + "/run", "--storage-driver", driver}
			var b bytes.Buffer
			env.Check(t, engine.BusyboxTree(&b))
			if r := p.Run(&b, append(at, "import", "-q", "--change", "ENV PATH=/usr/local/bin:/usr/bin:/bin:/sbin", "-", engine.Busybox)...); r.Code != 0 {
				t.Fatal(r)
			}
			r := p.Run(nil, append(at, "run", "--rm", "--network=none", engine.Busybox, "cat", "/etc/hostname", "/run/.containerenv")...)
			if r.Code != 0 {
				t.Error(r)
			}
		})
	}
}

func TestTerminal(t *testing.T) {
	p := root(t)
	term := p.Terminal(33, 77, "run", "--rm", "-it", "--network=none", engine.Busybox, "sh")
	term.Type("tty; stty size; exit 5\n")
	term.Expect("/dev/pts/0")
	term.Expect("33 77")
	env.Equal(t, "exit code", term.Wait(), 5)

	id := startJail(p, engine.Busybox, "sleep", "3600")
	term = p.Terminal(20, 50, "exec", "-it", id, "sh")
	term.Type("stty size; exit 6\n")
	term.Expect("20 50")
	env.Equal(t, "exit code of an exec", term.Wait(), 6)
}

// TestLife is a jail's life in the background.
func TestLife(t *testing.T) {
	p := root(t)
	id := startJail(p, "--name", "life", engine.Busybox, "sh", "-c", "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 1; done")
	env.Eventually(p, "the jail's word", func() bool { return strings.Contains(p.Must("logs", id), "ready") })

	r := p.Podman("exec", "-e", "A=b", "-w", "/tmp", id, "sh", "-c", "echo $A $(pwd); exit 9")
	env.Equal(t, "exec", fmt.Sprint(r.Stdout, r.Code), "b /tmp\n9")
	env.Equal(t, "exit code of a missing program", p.Podman("exec", id, "/nowhere").Code, 127)
	p.Must("exec", "-d", id, "sleep", "1234")
	env.Eventually(p, "the exec in the background", func() bool { return strings.Contains(sh(p, id, "ps"), "sleep 1234") })
	env.Contain(t, "top", p.Must("top", id), "sleep 1234")

	p.Must("pause", id)
	env.Equal(t, "paused", p.Must("inspect", "-f", "{{.State.Status}}", id), "paused")
	p.Must("unpause", id)
	env.Equal(t, "unpaused", p.Must("inspect", "-f", "{{.State.Status}} {{.OCIRuntime}}", id), "running "+engine.Name)

	r = p.Podman("container", "checkpoint", id)
	if r.Code == 0 {
		t.Error("a jail's memory was written to the disk")
	}
	if engine.UnderTestIsAgentjail() { // podman itself fails first where there is no criu
		r = p.Run(nil, under, "checkpoint", "--image-path", "/tmp", id)
		if r.Code == 0 || !strings.Contains(r.Stderr, "checkpoint: refused: ") {
			t.Errorf("a checkpoint: %s", r)
		}
	}
	env.Equal(t, "after the attempt", sh(p, id, "echo here"), "here")

	p.Must("stop", "-t", "60", id)
	env.Contain(t, "logs", p.Must("logs", id), "bye")
	env.Equal(t, "after the end", p.Must("inspect", "-f", "{{.State.Status}} {{.State.ExitCode}}", id), "exited 3")
	p.Must("start", id)
	env.Equal(t, "started again", sh(p, id, "echo here"), "here")
	p.Must("kill", "-s", "KILL", id)
	env.Equal(t, "killed", p.Must("wait", id), "137")
}

func TestRestartPolicy(t *testing.T) {
	p := root(t)
	id := startJail(p, "--restart", "on-failure:2", engine.Busybox, "sh", "-c", "echo once; exit 1")
	env.Eventually(p, "two restarts", func() bool {
		return p.Must("inspect", "-f", "{{.RestartCount}} {{.State.Status}}", id) == "2 exited"
	})
	env.Equal(t, "times that it ran", strings.Count(p.Must("logs", id), "once"), 3)
}

func TestCopy(t *testing.T) {
	p := root(t)
	id := startJail(p, engine.Busybox, "sh", "-c", "echo made in the jail > /tmp/out; sleep 3600")
	dir := shared(t, p, 0)
	env.Put(t, filepath.Join(dir, "in"), "from the host\n", 0o644, 0)
	p.Must("cp", filepath.Join(dir, "in"), id+":/tmp/in")
	env.Equal(t, "copied in", sh(p, id, "cat /tmp/in"), "from the host")
	env.Eventually(p, "the jail's file", func() bool { return p.Podman("exec", id, "test", "-s", "/tmp/out").Code == 0 })
	p.Must("cp", id+":/tmp/out", filepath.Join(dir, "out"))
	text := env.Read(t, filepath.Join(dir, "out"))
	env.Equal(t, "copied out", string(text), "made in the jail\n")
	// Of the image, out of a jail that does not run.
	made := p.Must("create", "--network=none", engine.Busybox, "cat", "/tmp/in")
	t.Cleanup(func() { p.Remove("rm", "-f", made) })
	p.Must("cp", filepath.Join(dir, "in"), made+":/tmp/in")
	env.Equal(t, "copied in before the start", p.Must("start", "-a", made), "from the host")
}

func TestStats(t *testing.T) {
	p := root(t)
	id := startJail(p, "-m", "64m", "--pids-limit", "50", engine.Busybox, "sleep", "3600")
	var stats []map[string]string
	r := p.Podman("stats", "--no-stream", "--format", "json", id)
	if r.Code != 0 {
		t.Fatal(r)
	}
	if err := json.Unmarshal([]byte(r.Stdout), &stats); err != nil || len(stats) != 1 {
		t.Fatalf("%v: %s", err, r)
	}
	env.Contain(t, "memory", stats[0]["mem_usage"], "67.11MB")
	env.Equal(t, "processes", stats[0]["pids"], "1")
}

// TestPod: the first container of a pod is the jail whose namespaces the others join.
func TestPod(t *testing.T) {
	p := root(t)
	p.Must("pod", "create", "--name", "duo", "--network=none")
	t.Cleanup(func() { p.Remove("pod", "rm", "-f", "-t", "0", "--ignore", "duo") })
	p.Must("run", "-d", "--pod", "duo", "--name", "server", engine.Busybox, "probe", "echo-server", "127.0.0.1:5000")
	p.Must("run", "-d", "--pod", "duo", "--name", "client", engine.Busybox, "sleep", "3600")
	a, b := probeIn[engine.Who](p, "server", "identity"), probeIn[engine.Who](p, "client", "identity")
	promise.Jailed(t, "server", a)
	promise.Jailed(t, "client", b)
	env.Equal(t, "id map", a.UIDMap, b.UIDMap)
	for _, ns := range []string{"user", "net", "ipc", "uts"} {
		env.Equal(t, ns+" namespace", a.Namespaces[ns], b.Namespaces[ns])
	}
	for _, ns := range []string{"mnt", "pid"} {
		if a.Namespaces[ns] == b.Namespaces[ns] {
			t.Errorf("they share a %s namespace", ns)
		}
	}
	env.Eventually(p, "an answer over lo", func() bool {
		return probeIn[map[string]engine.Outcome](p, "client", "connect", "tcp,127.0.0.1:5000")["tcp,127.0.0.1:5000"].Errno == ""
	})
	p.Must("pod", "create", "--name", "shared", "--network=none", "--share", "pid,net,ipc,uts")
	t.Cleanup(func() { p.Remove("pod", "rm", "-f", "-t", "0", "--ignore", "shared") })
	p.Must("run", "-d", "--pod", "shared", "--name", "reloads", engine.Busybox, "sh", "-c", "trap 'echo got >/tmp/hup' HUP; echo $$ >/tmp/pid; while :; do sleep .1; done")
	env.Eventually(p, "its number", func() bool { return sh(p, "reloads", "cat /tmp/pid 2>/dev/null; true") != "" })
	p.Must("run", "--rm", "--pod", "shared", engine.Busybox, "kill", "-HUP", sh(p, "reloads", "cat /tmp/pid"))
	env.Eventually(p, "a signal from another container of the pod", func() bool { return sh(p, "reloads", "cat /tmp/hup 2>/dev/null; true") == "got" })
	p.Must("pod", "stop", "-t", "0", "duo")
	p.Must("pod", "start", "duo")
	env.Equal(t, "after a restart of the pod", sh(p, "client", "echo here"), "here")
}

// TestPodDirectory: a directory of a user's, mounted by whom runs the pod, is the pod's to write to. What Kubernetes' authors of
// pods choose is not (tests/cri, TestHostPath).
func TestPodDirectory(t *testing.T) {
	p := root(t)
	dir, err := os.MkdirTemp("/var/tmp", "agentjail-pod-")
	env.Check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	env.Check(t, os.Chown(dir, 1000, 1000))
	p.Must("pod", "create", "--name", "works", "--network=none")
	t.Cleanup(func() { p.Remove("pod", "rm", "-f", "-t", "0", "--ignore", "works") })
	p.Must("run", "--rm", "--pod", "works", "-v", dir+":/work", engine.Busybox, "sh", "-c", "echo ran >/work/run")
	manifest := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: played}\nspec:\n  restartPolicy: Never\n  containers:\n  - {name: c, image: %s, imagePullPolicy: Never, command: [sh, -c, echo played >/work/play], volumeMounts: [{name: w, mountPath: /work}]}\n  volumes: [{name: w, hostPath: {path: %s, type: Directory}}]\n", engine.Busybox, dir)
	if r := p.Run(strings.NewReader(manifest), "podman", "play", "kube", "--network=none", "-"); r.Code != 0 {
		t.Fatal(r)
	}
	t.Cleanup(func() { p.Remove("pod", "rm", "-f", "-t", "0", "--ignore", "played") })
	p.Must("wait", "played-c")
	for name, want := range map[string]string{"run": "ran\n", "play": "played\n"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
		env.Equal(t, "the owner of "+name, env.Owner(t, filepath.Join(dir, name)), "1000:1000")
	}
}

func TestVolumes(t *testing.T) {
	p := root(t)
	dir := shared(t, p, 1000)
	for _, user := range []string{"0", "1000"} {
		mustRunJail(p, "-u", user, "-v", dir+":/work", engine.Busybox, "sh", "-c", "echo made > /work/by-"+user)
		env.Equal(t, "owner of what "+user+" makes in a directory", env.Owner(t, filepath.Join(dir, "by-"+user)), "1000:1000")
	}
	p.Must("volume", "create", "kept")
	t.Cleanup(func() { p.Must("volume", "rm", "-f", "kept") })
	mustRunJail(p, "-v", "kept:/kept", engine.Busybox, "sh", "-c", "echo stays > /kept/file")
	env.Equal(t, "the volume's content", mustRunJail(p, "-v", "kept:/kept:ro", engine.Busybox, "cat", "/kept/file"), "stays")
	on := filepath.Join(p.Root(), p.Must("volume", "inspect", "-f", "{{.Mountpoint}}", "kept"), "file")
	env.Equal(t, "owner of a volume's file on the host", env.Owner(t, on), "0:0")
	env.Equal(t, "a read-only volume", p.Podman("run", "--rm", "--network=none", "-v", "kept:/kept:ro", engine.Busybox, "touch", "/kept/x").Code, 1)
	if r := p.Podman("run", "--rm", "--network=none", "-v", "/etc:/host", engine.Busybox, "true"); r.Code == 0 || !strings.Contains(r.Stderr, "refused") {
		t.Errorf("the host's /etc: %s", r)
	}
}

func TestHealthcheck(t *testing.T) {
	p := root(t)
	id := startJail(p, "--health-cmd", "test -e /tmp/well", "--health-interval", "disable", "--health-retries", "1", engine.Busybox, "sleep", "3600")
	env.Equal(t, "check of a sick one", p.Podman("healthcheck", "run", id).Code, 1)
	sh(p, id, "touch /tmp/well")
	env.Equal(t, "check of a well one", p.Podman("healthcheck", "run", id).Code, 0)
	env.Contain(t, "health", p.Must("inspect", id), `"healthy"`)
}

// TestUserns: ids that podman picks are kept, and shifted once.
func TestUserns(t *testing.T) {
	p := root(t)
	for _, c := range []struct {
		name    string
		options []string
		first   uint64 // the least host id
		count   uint64
	}{
		{"auto", []string{"--userns=auto:size=65536"}, 1_300_000_000, 65536},
		{"map", []string{"--uidmap=0:1250000000:65536", "--gidmap=0:1250000000:65536"}, 1_250_000_000, 65536},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := root(t)
			dir := shared(t, p, 1000)
			id := startJail(p, append(c.options, "-v", dir+":/work", engine.Busybox, "sleep", "3600")...)
			w := probeIn[engine.Who](p, id, "identity")
			promise.Held(t, c.name, w)
			var inside, outside, count uint64
			if _, err := fmt.Sscan(w.UIDMap, &inside, &outside, &count); err != nil || inside != 0 || outside < c.first || count != c.count {
				t.Errorf("id map %q", w.UIDMap)
			}
			env.Equal(t, "owners of the image's files", sh(p, id, "stat -c %u:%g / /etc /etc/passwd /home/app; cat /etc/image-secret"),
				"0:0\n0:0\n0:0\n1000:1000\nonly for root of the image")
			env.Equal(t, "the layer", sh(p, id, "echo x > /etc/new; stat -c %u:%g /etc/new; echo y >> /etc/passwd; tail -n 1 /etc/passwd"), "0:0\ny")
			sh(p, id, "echo made > /work/file")
			env.Equal(t, "owner of what it makes in a directory", env.Owner(t, filepath.Join(dir, "file")), "1000:1000")
			env.Equal(t, "the directory's owner inside", sh(p, id, "stat -c %u:%g /work"), "0:0")
		})
	}
	r := p.Podman("run", "--rm", "--network=none", "--userns=keep-id", engine.Busybox, "probe", "identity")
	if r.Code != 0 {
		env.Contain(t, "podman's own refusal", r.Stderr, "rootless") // 4.3
		return
	}
	promise.Held(t, "keep-id", env.Decode[engine.Who](t, r.Stdout))
}

// TestHostMapping: what Podman 5 makes of --userns=keep-id for root, all of the host's ids, gives a jail ids of its own.
func TestHostMapping(t *testing.T) {
	p := root(t)
	b := engine.NewBundle(t, p.Dir)
	all := []specs.LinuxIDMapping{{ContainerID: 0, HostID: 0, Size: 4294967295}}
	b.Spec.Linux.Namespaces = append(b.Spec.Linux.Namespaces, specs.LinuxNamespace{Type: specs.UserNamespace})
	b.Spec.Linux.UIDMappings, b.Spec.Linux.GIDMappings = all, all
	b.Spec.Process.Args = []string{"probe", "identity"}
	out, err := b.Run(t, engine.Caller{Path: under})
	env.Check(t, err)
	promise.Jailed(t, "the jail", env.Decode[engine.Who](t, out))
}

// shared makes a directory with the given owner in the place, outside of what is a container's.
func shared(t testing.TB, p *engine.PodmanT, uid int) string {
	t.Helper()
	dir := engine.TempDir(t, p.Dir, "shared-")
	env.Check(t, errors.Join(os.Chown(dir, uid, uid), os.Chmod(dir, 0o755)))
	return dir
}
