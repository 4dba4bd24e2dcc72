package e2e

import (
	"encoding/json"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// ownVerb runs one of agentjail's own commands and returns what it states and its exit code.
func ownVerb(t testing.TB, args ...string) (string, int) {
	t.Helper()
	path := env.Get(t, engine.UnderTest)
	cmd := exec.Command(path, args...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatalf("agentjail %s: %v", strings.Join(args, " "), err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// TestInspectHolds: looked at from outside, every protection of every kind of jail holds.
func TestInspectHolds(t *testing.T) {
	needAgentjail(t)
	other := sleeper(docker.For(t))
	for name, options := range map[string][]string{
		"plain":       nil,
		"user":        {"-u", "1000"},
		"generous":    {"--cap-add", "SYS_ADMIN", "--security-opt", "seccomp=unconfined", "--pid", "host", "--network", "host", "--ipc", "host", "--uts", "host"},
		"privileged":  {"--privileged"},
		"read-only":   {"--read-only", "--tmpfs", "/scratch"},
		"directories": {"-v", directory(t, 1000) + ":/a", "-v", directory(t, 0) + ":/b:ro", "-v", "e2e-inspect:/c", "--tmpfs", "/d"},
		"small":       {"-m", "64m", "--pids-limit", "30", "--cpus", "0.5"},
		"init":        {"--init"},
		"device":      {"--device", device(t, "/dev/fuse")},
		"joined":      {"--network", "container:" + other},
		"no network":  {"--network", "none"},
		"shared shm":  {"--ipc", "shareable"},
		"with health": {"--health-cmd", "true", "--health-interval", "500ms"},
	} {
		t.Run(name, func(t *testing.T) {
			d := d(t)
			t.Cleanup(func() { d.Engine.Docker(t.Context(), "volume", "rm", "-f", "e2e-inspect") })
			id := sleeper(d, options...)
			d.Must("exec", "-d", id, "sleep", "3600")
			awaitSleeps(d, id, 2)
			out, code := ownVerb(t, "inspect", id)
			if code != 0 || strings.Contains(out, "BROKEN") {
				t.Errorf("exit code %d: %s", code, out)
			}
			out, code = ownVerb(t, "inspect", "--json", id[:12])
			if code != 0 || !json.Valid([]byte(out)) {
				t.Errorf("--json: exit code %d: %s", code, out)
			}
			d.Must("rm", "-f", id)
			if _, code = ownVerb(t, "inspect", id); code == 0 {
				t.Error("a removed jail is inspected")
			}
		})
	}
}

// TestInstall registers agentjail with a real Docker, uses it, and takes it out again.
func TestInstall(t *testing.T) {
	needAgentjail(t)
	e := engine.StartFor(t, engine.Options{
		Runtimes: map[string]engine.Runtime{"other": {Path: "/usr/sbin/runc", Args: []string{"--debug"}}},
	})
	d := e.For(t)
	options := []string{"--daemon-config", e.DaemonConfig(), "--pidfile", e.Pidfile(), "--socket", e.Socket()}
	must := func(args ...string) string {
		t.Helper()
		out, code := ownVerb(t, append(args, options...)...)
		if code != 0 {
			t.Fatalf("agentjail %s: exit code %d: %s", strings.Join(args, " "), code, out)
		}
		return out
	}
	settings := func() (m map[string]any) {
		t.Helper()
		env.Check(t, json.Unmarshal([]byte(string(env.Read(t, e.DaemonConfig()))), &m))
		return m
	}
	before, text := settings(), string(env.Read(t, e.DaemonConfig()))
	if r := d.Docker("run", "--rm", jail, engine.Busybox, "true"); r.Code == 0 {
		t.Fatal("agentjail is there before it is installed")
	}

	env.Contain(t, "--dry-run", must("install", "docker", "--dry-run"), "+")
	env.Equal(t, "daemon.json after --dry-run", string(env.Read(t, e.DaemonConfig())), text)

	must("install", "docker")
	jailed(t, "a jail of the installed runtime", env.Decode[who](d, d.Must("run", "--rm", jail, engine.Busybox, "probe", "identity")))
	after := settings()
	for k, v := range before {
		if k != "runtimes" && !reflect.DeepEqual(v, after[k]) {
			t.Errorf("setting %s was %v and is %v", k, v, after[k])
		}
	}
	if !reflect.DeepEqual(after["runtimes"].(map[string]any)["other"], before["runtimes"].(map[string]any)["other"]) {
		t.Errorf("another runtime was changed: %v", after["runtimes"])
	}
	text = string(env.Read(t, e.DaemonConfig()))
	must("install", "docker")
	env.Equal(t, "daemon.json after a second install", string(env.Read(t, e.DaemonConfig())), text)

	must("uninstall", "docker")
	if !reflect.DeepEqual(settings(), before) {
		t.Errorf("after uninstall: %v, before install: %v", settings(), before)
	}
	if r := d.Docker("run", "--rm", jail, engine.Busybox, "true"); r.Code == 0 {
		t.Error("agentjail is there after it was taken out")
	}
}

// TestCheck: this machine runs jails, so the check has to state that it can.
func TestCheck(t *testing.T) {
	needAgentjail(t)
	out, code := ownVerb(t, "check")
	if code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	}
	out, code = ownVerb(t, "check", "--json")
	if code != 0 || !json.Valid([]byte(out)) {
		t.Errorf("--json: exit code %d: %s", code, out)
	}
}
