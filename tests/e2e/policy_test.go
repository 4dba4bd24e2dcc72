package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestMapNobody: with userns.map = "nobody" container root is the host's user 65534, and everything works as before.
func TestMapNobody(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	rt := "--runtime=agentjail-nobody"
	w := env.Decode[who](d, d.Must("run", "--rm", rt, engine.Busybox, "probe", "identity"))
	f := strings.Fields(w.UIDMap)
	if len(f) != 6 || f[0] != "0" || f[1] != "65534" || f[2] != "1" {
		t.Errorf("id map %q", w.UIDMap)
	}
	dir := directory(t, 1000)
	env.Equal(t, "work in a directory", d.Must("run", "--rm", rt, "-v", dir+":/w", engine.Busybox, "sh", "-c", "echo x > /w/new; touch /etc/new; stat -c %u /w/new /etc/new /home/app"), "0\n0\n1000")
	got, _ := owner(t, filepath.Join(dir, "new"))
	env.Equal(t, "owner", got, "1000:1000")
	env.Equal(t, "as a user", d.Must("run", "--rm", rt, "-u", "1000", "-v", dir+":/w", engine.Busybox, "sh", "-c", "echo x > /w/user; id -u"), "1000")
	id := d.Detached(rt, engine.Busybox, "sleep", "3600")
	env.Equal(t, "exec", d.Must("exec", id, "sh", "-c", "echo out > /dev/stdout"), "out")
	uid, _, _ := strings.Cut(env.Status(t, inspect(d, id, "{{.State.Pid}}"), "Uid"), "\t")
	env.Equal(t, "uid on the host", uid, "65534")
	for name, o := range env.Decode[map[string]outcome](d, d.Must("run", "--rm", rt, engine.Busybox, "probe", "attempts")) {
		if !refused(name, o) {
			t.Errorf("%s: %s %s", name, o.Errno, o.Note)
		}
	}
}

// TestSmallPolicy: the host's config lowers what a jail may use up, and no option raises it.
func TestSmallPolicy(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	id := d.Detached("--runtime=agentjail-small", "-m", "1g", "--pids-limit", "500", engine.Busybox, "sleep", "3600")
	env.Equal(t, "memory", cgroupValue(t, d, id, "memory", "memory.limit_in_bytes", "memory.max"), 64<<20)
	env.Equal(t, "pids", cgroupValue(t, d, id, "pids", "pids.max", "pids.max"), 20)
	fill := probeIn[struct {
		Bytes int64
		Errno string
	}](d, nil, id, "fill", "/", "100")
	if fill.Errno != "ENOSPC" || fill.Bytes > 8<<20 {
		t.Errorf("the layer took %d bytes, then %q", fill.Bytes, fill.Errno)
	}
	files := probeIn[struct {
		Files int
		Errno string
	}](d, nil, id, "inodes", "/tmp", "1000")
	if files.Errno != "ENOSPC" || files.Files > 200 {
		t.Errorf("the layer took %d files, then %q", files.Files, files.Errno)
	}
}

// TestNewestRuncMakesTheSameJail: over the newest runc a jail is the same as over the distribution's.
func TestNewestRuncMakesTheSameJail(t *testing.T) {
	needAgentjail(t)
	under := env.Get(t, engine.UnderTest)
	built, err := engine.Tool("runc")
	if err != nil {
		t.Skip("the newest runc cannot be built here:", err)
	}
	policy := filepath.Join(filepath.Dir(under), fmt.Sprintf("delegate-%d.toml", os.Getpid()))
	env.Check(t, os.WriteFile(policy, fmt.Appendf(nil, "delegate = %q\n", built), 0o644))
	t.Cleanup(func() { os.Remove(policy) })
	e := engine.StartFor(t, engine.Options{Runtimes: map[string]engine.Runtime{engine.Name: {Path: under, Args: []string{"--config", policy}}}})
	d := e.For(t)
	dir := directory(t, 1000)
	id := sleeper(d, "-v", dir+":/w", "--init")
	jailed(t, "run", probe[who](d, nil, "identity"))
	jailed(t, "exec", probeIn[who](d, []string{"--privileged"}, id, "identity"))
	sealed(t, "run", probeIn[links](d, nil, id, "interfaces"))
	for name, o := range probeIn[map[string]outcome](d, nil, id, "attempts") {
		if !refused(name, o) {
			t.Errorf("%s: %s %s", name, o.Errno, o.Note)
		}
	}
	for what, how := range probeIn[map[string]string](d, nil, id, "attack") {
		t.Errorf("%s: %s", what, how)
	}
	sh(d, id, "echo x > /w/new; echo out > /dev/stdout")
	got, _ := owner(t, filepath.Join(dir, "new"))
	env.Equal(t, "owner", got, "1000:1000")
	out, code := ownVerb(t, "--config", policy, "inspect", id)
	if code != 0 {
		t.Errorf("inspect: exit code %d: %s", code, out)
	}
	d.Must("pause", id)
	d.Must("unpause", id)
	d.Must("update", "--pids-limit", "50", id)
	d.Must("cp", id+":/etc/passwd", t.TempDir())
	term := d.Terminal(24, 80, "exec", "-it", id, "sh", "-c", "tty; exit 3")
	term.Expect("/dev/pts/")
	env.Equal(t, "exit code on a terminal", term.Wait(), 3)
	d.Must("restart", "-t", "1", id)
	env.Equal(t, "after a restart", sh(d, id, "cat /w/new"), "x")
	d.Must("kill", id)
	env.Equal(t, "exit code", d.Must("wait", id), "137")
	env.Equal(t, "a missing program", runJail(d, engine.Busybox, "/no/such").Code, 127)
}
