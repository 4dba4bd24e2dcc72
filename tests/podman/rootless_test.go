package podman

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// A jail of an ordinary user's podman has every protection but those that take a privilege on the machine.
func TestRootlessRun(t *testing.T) {
	p := user(t)
	env.Equal(t, "output", mustRunJail(p, engine.Busybox, "echo", "hello"), "hello")
	env.Equal(t, "exit code", p.Podman("run", "--rm", "--network=none", engine.Busybox, "sh", "-c", "exit 7").Code, 7)
	env.Equal(t, "exit code of a missing program", p.Podman("run", "--rm", "--network=none", engine.Busybox, "/nowhere").Code, 127)
	w := env.Decode[engine.Who](t, mustRunJail(p, engine.Busybox, "probe", "identity"))
	promise.Held(t, "podman run", w)
	inside, err := p.InsideAsUser(t.Context(), "podman", "unshare", "readlink", "/proc/self/ns/user").Output()
	env.Check(t, err)
	if w.Namespaces["user"] == strings.TrimSpace(string(inside)) {
		t.Error("the jail is in the engine's own user namespace")
	}
	promise.Held(t, "podman run -u 1000", env.Decode[engine.Who](t, mustRunJail(p, "-u", "1000", engine.Busybox, "probe", "identity")))
	id := startJail(p, engine.Busybox, "sleep", "3600")
	reports, err := filepath.Glob(p.Root() + "/run/user/*/agentjail/jails/*" + id + "/report.json")
	if err != nil || len(reports) != 1 {
		t.Fatalf("%d reports: %v", len(reports), err)
	}
	env.Contain(t, "what cannot be had", string(env.Read(t, reports[0])), "all of its jails share them")
}

func TestRootlessLife(t *testing.T) {
	p := user(t)
	id := startJail(p, engine.Busybox, "sh", "-c", "echo ready; exec sleep 3600")
	tamed(t, p, "podman exec", id)
	term := p.Terminal(20, 50, "exec", "-it", id, "sh")
	term.Type("stty size; exit 6\n")
	term.Expect("20 50")
	env.Equal(t, "exit code of an exec", term.Wait(), 6)
	env.Eventually(p, "the jail's word", func() bool { return strings.Contains(p.Must("logs", id), "ready") })
	// The layer: thrown away, sized, and a directory of the image can be made again.
	env.Equal(t, "the layer", sh(p, id, "mkdir /new && rm -r /home && mkdir /home && echo x > /home/new && ls /home; df -k / | awk 'NR == 2 { print $2 }'"), "new\n1048576")
	in := filepath.Join(p.Dir, "home", "in")
	env.Put(t, in, "from the host\n", 0o644, engine.RootlessUID)
	p.Must("cp", in, id+":/tmp/in")
	env.Equal(t, "copied in", sh(p, id, "cat /tmp/in"), "from the host")
	p.Must("cp", id+":/etc/group", in)
	p.Must("stop", "-t", "0", id)
	p.Must("start", id)
	env.Equal(t, "thrown away with a restart", sh(p, id, "ls -d /home/new 2>/dev/null; true"), "")
}

func TestRootlessPod(t *testing.T) {
	p := user(t)
	p.Must("pod", "create", "--name", "duo", "--network=none")
	t.Cleanup(func() { p.Remove("pod", "rm", "-f", "-t", "0", "--ignore", "duo") })
	p.Must("run", "-d", "--pod", "duo", "--name", "server", engine.Busybox, "probe", "echo-server", "127.0.0.1:5000")
	p.Must("run", "-d", "--pod", "duo", "--name", "client", engine.Busybox, "sleep", "3600")
	env.Eventually(p, "an answer over lo", func() bool {
		return probeIn[map[string]engine.Outcome](p, "client", "connect", "tcp,127.0.0.1:5000")["tcp,127.0.0.1:5000"].Errno == ""
	})
	tamed(t, p, "the client", "client")
}

func TestRootlessVolumes(t *testing.T) {
	p := user(t)
	dir := shared(t, p, engine.RootlessUID)
	env.Put(t, filepath.Join(dir, "roots"), "root's\n", 0o644, 0)
	mine := fmt.Sprintf("%d:%d", engine.RootlessUID, engine.RootlessUID)
	mustRunJail(p, "-v", dir+":/work", engine.Busybox, "sh", "-c", "echo made > /work/file")
	env.Equal(t, "owner of what it makes in a directory", env.Owner(t, filepath.Join(dir, "file")), mine)
	r := p.Podman("run", "--rm", "--network=none", "-v", dir+":/work", engine.Busybox, "sh", "-c",
		"cat /work/roots; echo x >> /work/roots; cp /bin/busybox /work/s; chmod 4755 /work/s; chown 1:1 /work/file")
	env.Contain(t, "a file of root's can be read", r.Stdout, "root's")
	env.Equal(t, "and not written", string(env.Read(t, filepath.Join(dir, "roots"))), "root's\n")
	if st, err := os.Stat(filepath.Join(dir, "s")); err != nil || st.Mode()&os.ModeSetuid != 0 {
		t.Errorf("a set-id program left in the directory: %v, %v", st, err)
	}
	env.Equal(t, "owner after chown", env.Owner(t, filepath.Join(dir, "file")), mine)
	mustRunJail(p, "-v", "kept:/kept", engine.Busybox, "sh", "-c", "echo stays > /kept/file")
	t.Cleanup(func() { p.Must("volume", "rm", "-f", "kept") })
	env.Equal(t, "the volume's content", mustRunJail(p, "-v", "kept:/kept:ro", engine.Busybox, "cat", "/kept/file"), "stays")
	for _, from := range []string{"/etc", "/run/user/" + fmt.Sprint(engine.RootlessUID), p.Dir + "/home/.local/share/containers"} {
		if r := p.Podman("run", "--rm", "--network=none", "-v", from+":/host", engine.Busybox, "true"); r.Code == 0 || !strings.Contains(r.Stderr, "refused") {
			t.Errorf("%s: %s", from, r)
		}
	}
}

// TestRootlessUserns: mappings that podman makes of the user's ids are kept.
func TestRootlessUserns(t *testing.T) {
	p := user(t)
	dir := shared(t, p, engine.RootlessUID)
	for _, c := range []struct {
		option string
		uid    int
		maps   string // the user's own id, 0 in podman's user namespace
		owner  string // of what the process makes in the user's directory
	}{
		{"--userns=keep-id", engine.RootlessUID, fmt.Sprintf("%d 0 1", engine.RootlessUID), fmt.Sprint(engine.RootlessUID)},
		{"--userns=nomap", 0, "", ""},
	} {
		r := p.Podman("run", "--rm", "--network=none", c.option, "-v", dir+":/work", engine.Busybox, "sh", "-c",
			"probe identity; stat -c %u:%g /etc/passwd /home/app; echo made > /work/file")
		lines := strings.SplitN(r.Stdout, "\n", 2)
		w := env.Decode[engine.Who](t, lines[0])
		promise.Held(t, c.option, w)
		env.Equal(t, c.option+": uid", w.UID, c.uid)
		env.Equal(t, c.option+": owners of the image's files", lines[1], "0:0\n1000:1000\n")
		if strings.Contains(w.UIDMap, c.maps) != (c.maps != "") && c.maps != "" {
			t.Errorf("%s: id map %q", c.option, w.UIDMap)
		}
		if c.owner == "" {
			if r.Code == 0 {
				t.Errorf("%s: an id that is not the user's writes into the user's directory", c.option)
			}
			continue
		}
		env.Equal(t, c.option+": owner", env.Owner(t, filepath.Join(dir, "file")), c.owner+":"+c.owner)
		os.Remove(filepath.Join(dir, "file"))
	}
}

func TestRootlessGrants(t *testing.T) {
	for _, g := range [][]string{
		{"--privileged"},
		{"--cap-add", "ALL", "--security-opt", "seccomp=unconfined", "--security-opt", "unmask=ALL", "--device", "/dev/null:/dev/other"},
		{"--pid", "host", "--uts", "host", "--network", "host", "--cgroupns", "host"},
	} {
		t.Run(strings.Join(g, " "), func(t *testing.T) {
			p := user(t)
			if g[0] != "--pid" {
				g = append(g, "--network=none")
			}
			id := p.Detached(append(g, engine.Busybox, "sleep", "3600")...)
			tamed(t, p, "the jail", id)
			env.Contain(t, "devices", sh(p, id, "ls /dev | grep -c -e other -e fuse -e mem; true"), "0")
		})
	}
}

// TestRootlessSeesOthers: container root has the user's id, and still sees and harms nothing else of the user's.
func TestRootlessSeesOthers(t *testing.T) {
	p := user(t)
	dir := shared(t, p, engine.RootlessUID)
	canary := filepath.Join(p.Dir, "home", "canary")
	env.Put(t, canary, "the user's secret\n", 0o644, engine.RootlessUID)
	victim := p.InsideAsUser(t.Context(), "sleep", "600")
	env.Check(t, victim.Start())
	ended := make(chan error, 1)
	go func() { ended <- victim.Wait() }()
	t.Cleanup(func() { _ = victim.Process.Kill() })
	other := startJail(p, engine.Busybox, "sh", "-c", "echo secret > /root/kept; sleep 3600")
	id := startJail(p, "--pid=host", "-v", dir+":/work", engine.Busybox, "sleep", "3600")
	env.Equal(t, "found", sh(p, id, "find / -name canary -o -name kept 2>/dev/null; cat "+canary+" /work/../home/canary /proc/*/root/root/kept 2>/dev/null; true"), "")
	p.Podman("exec", id, "kill", "-9", "-1")
	p.Podman("exec", id, "sh", "-c", fmt.Sprintf("kill -9 %d", victim.Process.Pid))
	p.Podman("exec", id, "busybox", "rm", "-rf", "--no-preserve-root", "/")
	env.Equal(t, "the user's file", string(env.Read(t, canary)), "the user's secret\n")
	env.Equal(t, "another jail", sh(p, other, "cat /root/kept"), "secret")
	select {
	case err := <-ended:
		t.Errorf("a process of the user's was killed: %v", err)
	default:
	}
}

// TestRootlessPolicy: a policy counts only if the user who runs the engine cannot write it.
func TestRootlessPolicy(t *testing.T) {
	p := user(t)
	if !engine.UnderTestIsAgentjail() {
		t.Skip("the runtime under test is not agentjail")
	}
	dir := env.Get(t, engine.BinDir)
	roots := filepath.Join(dir, "refuse.toml")
	users := filepath.Join(dir, "users.toml")
	theirs := filepath.Join(dir, "theirs")
	env.Check(t, os.MkdirAll(theirs, 0o755))
	env.Check(t, os.Chown(theirs, engine.RootlessUID, engine.RootlessUID))
	for _, f := range []string{roots, users, filepath.Join(theirs, "policy.toml")} {
		env.Put(t, f, "on_loosen = \"refuse\"\n", 0o644, 0)
	}
	with := func(file string, args ...string) engine.Result {
		return p.Podman(append([]string{"--runtime-flag=config=" + file, "run", "--rm", "--network=none"}, args...)...)
	}
	env.Equal(t, "a jail under root's policy", with(roots, engine.Busybox, "true").Code, 0)
	if r := with(roots, "--cap-add=SYS_ADMIN", engine.Busybox, "true"); r.Code == 0 || !strings.Contains(r.Stderr, "refuse") {
		t.Errorf("root's policy does not hold: %s", r)
	}
	// What policy insists on, and a user's engine cannot have, keeps the jail from starting.
	if on, _ := os.ReadFile("/sys/module/apparmor/parameters/enabled"); !strings.HasPrefix(string(on), "Y") {
		env.Put(t, roots, "[apparmor]\nrequired = true\n", 0o644, 0)
		if r := with(roots, engine.Busybox, "true"); r.Code == 0 || !strings.Contains(r.Stderr, "AppArmor") {
			t.Errorf("policy insists on AppArmor: %s", r)
		}
	}
	env.Equal(t, "a policy in the same directory", with(users, engine.Busybox, "true").Code, 0)
	for _, c := range []struct {
		what, file string
		uid        int
	}{
		{"in the user's directory", filepath.Join(theirs, "policy.toml"), 0},
		{"of the user's", users, engine.RootlessUID},
		// 65534 inside is both: the overflow id of the machine, and an id that the user has.
		{"of the user's 65534", users, engine.RootlessSubFirst + 65533},
	} {
		env.Check(t, os.Chown(c.file, c.uid, c.uid))
		if r := with(c.file, engine.Busybox, "true"); r.Code == 0 || !strings.Contains(r.Stderr, "not to root") {
			t.Errorf("a policy %s counts: %s", c.what, r)
		}
	}
	env.Check(t, os.Chmod(roots, 0o666))
	if r := with(roots, engine.Busybox, "true"); r.Code == 0 || !strings.Contains(r.Stderr, "can be written by others") {
		t.Errorf("a policy that everybody can write counts: %s", r)
	}
}

// TestRootlessNetwork: what slirp4netns or pasta connects is sealed.
func TestRootlessNetwork(t *testing.T) {
	p := user(t)
	found := false
	for _, helper := range []string{"slirp4netns", "pasta"} {
		_, err := exec.LookPath(helper)
		found = found || err == nil
	}
	if !found {
		t.Skip("neither slirp4netns nor pasta is on this machine")
	}
	r := p.Podman("run", "-d", engine.Busybox, "sleep", "3600")
	id := strings.TrimSpace(r.Stdout)
	if r.Code != 0 {
		t.Skip("podman cannot make a user's network here:", r.Stderr)
	}
	t.Cleanup(func() { p.Remove("rm", "-f", "-t", "0", id) })
	tamed(t, p, "the jail", id)
	for to, o := range probeIn[map[string]engine.Outcome](p, id, "connect", "tcp,10.0.2.2:80", "udp,10.0.2.3:53") {
		if o.Errno == "" || o.Errno == "ECONNREFUSED" {
			t.Errorf("%s: %q", to, o.Errno)
		}
	}
}

func TestRootlessNothingLeft(t *testing.T) {
	p := user(t)
	before := left(t, p)
	mustRunJail(p, engine.Busybox, "true")
	id := p.Must("run", "-d", "--network=none", engine.Busybox, "sleep", "3600")
	if len(left(t, p)) == len(before) {
		t.Error("a running jail leaves no trace: this test looks in the wrong places")
	}
	p.Remove("rm", "-f", "-t", "0", id)
	for what := range left(t, p) {
		if !before[what] {
			t.Errorf("left: %s", what)
		}
	}
}
