package crash

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/network/helper"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// setKey is the name by which an engine's hook is called, and this program in its place.
const setKey = "libnetwork-setkey"

// beHook does what Docker's does: it puts an interface into the network namespace of the process that its input names.
func beHook() int {
	var s specs.State
	err := json.NewDecoder(os.Stdin).Decode(&s)
	if err == nil {
		var out []byte
		if out, err = exec.Command("/usr/bin/nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", s.Pid), "/usr/sbin/ip", "link", "add", "eth0", "type", "veth", "peer", "name", "peer0").CombinedOutput(); err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// TestKilledAtTheEngine kills start once the engine has put its network where the helper is: nothing of it is open or left, and another
// start calls the engine again, for another helper.
func TestKilledAtTheEngine(t *testing.T) {
	opts := named(t)
	text := env.Read(t, filepath.Join(bundle, "config.json"))
	t.Cleanup(func() { _ = os.WriteFile(filepath.Join(bundle, "config.json"), text, 0o600) })
	id := fmt.Sprintf("crash%d-engine", os.Getpid())
	var s map[string]any
	env.Check(t, json.Unmarshal(text, &s))
	s["hooks"] = map[string]any{"prestart": []any{map[string]any{"path": fmt.Sprintf("/proc/%d/exe", os.Getpid()), "args": []string{setKey, id, "engine"}}}}
	env.Check(t, writeSpec(bundle, s))
	defer cleanUp(t, id)
	if code, text := agentjail(t, nil, append(opts, "create", "--bundle", bundle, id)...); code != 0 {
		t.Fatalf("create: status %d\n%s", code, text)
	}
	if code, text := agentjail(t, []string{"AGENTJAIL_TEST_CRASH=start.engine"}, append(opts, "start", id)...); code != -1 {
		t.Fatalf("start was not killed: status %d\n%s", code, text)
	}
	dir := stateOf(id)
	first, err := helper.Load(dir)
	if err != nil || first == nil {
		t.Fatalf("no helper is on record, so that this test looks at nothing: %v", err)
	}
	if first.Answer != "" {
		t.Errorf("the helper serves before its start is done: %+v", first)
	}
	if code, text := agentjail(t, nil, append(opts, "start", id)...); code != 0 {
		t.Fatalf("start again: status %d\n%s", code, text)
	}
	if first.Alive() {
		t.Errorf("the helper of the start that was killed, process %d, goes on", first.Pid)
	}
	r, err := helper.Load(dir)
	if err != nil || r == nil || !r.Alive() || r.Answer == "" {
		t.Fatalf("after a second start no helper serves: %+v, %v", r, err)
	}
	out, err := exec.Command("nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", r.Pid), "ip", "-o", "link").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "eth0") {
		t.Errorf("the helper's interfaces: %v\n%s", err, out)
	}
}

// TestDockerdKilled kills dockerd: a jail's published port answers while it is away and under another, and nothing is left of it then.
func TestDockerdKilled(t *testing.T) {
	conf := filepath.Join(filepath.Dir(bin), "ports.toml")
	env.Check(t, os.WriteFile(conf, []byte("[network]\nmode = \"names\"\npublish = [\"engine:7000\"]\nservers = [\"192.0.2.53\"]\n"), 0o600))
	e := engine.StartFor(t, engine.Options{Runtimes: map[string]engine.Runtime{"agentjail": {Path: bin, Args: []string{"--config", conf}}}, LiveRestore: true})
	d := e.For(t)
	ns := func() []string {
		kept, err := filepath.Glob("/run/docker/netns/*")
		env.Check(t, err)
		return kept
	}
	before := ns()
	const name = "crash-dockerd"
	id := d.Must("run", "-d", "--name", name, "--runtime=agentjail", "-p", "127.0.0.1:0:7000", engine.Busybox, "httpd", "-f", "-p", "7000")
	t.Cleanup(func() { d.Docker("rm", "-f", name) })
	port := d.Must("port", name, "7000")
	own := d.Must("inspect", "--format", "{{.NetworkSettings.IPAddress}}", name) + ":7000"
	answers := func(at string) error { return e.InNetns(func() error { return served(at) }) }
	env.Eventually(d, "the server", func() bool { return answers(port) == nil })
	env.Check(t, e.KillDockerd())
	if err := answers(own); err != nil {
		t.Errorf("while dockerd is away: %v", err)
	}
	env.Check(t, e.StartDockerd())
	for _, at := range []string{own, port} {
		if err := answers(at); err != nil {
			t.Errorf("%s, with another dockerd: %v", at, err)
		}
	}
	d.Must("rm", "-f", name)
	env.Eventually(d, "nothing is left", func() bool {
		return len(left(id)) == 0 && !slices.ContainsFunc(ns(), func(p string) bool { return !slices.Contains(before, p) })
	})
	if err := answers(own); err == nil {
		t.Error("the address of a container that was removed answers")
	}
}

// served reports whether an HTTP server answers.
func served(at string) error {
	c, err := net.DialTimeout("tcp", at, env.AnswerWait)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(env.AnswerWait)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		return err
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "HTTP" {
		return fmt.Errorf("%q, %w", got, err)
	}
	return nil
}
