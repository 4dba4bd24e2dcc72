package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/runtime/delegate"
	"agentjail.dev/runtime/inspect/check"
	"agentjail.dev/runtime/lifecycle"
	programs "agentjail.dev/runtime/observe/ebpf/status"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/refusal"
)

// noPolicy is a policy file that does not exist, in a directory that is root's for every caller.
const noPolicy = os.DevNull

// call runs the program's command line in this process, with the built-in
// policy.
func call(t *testing.T, args ...string) (string, error) {
	t.Helper()
	app := newApp()
	var out bytes.Buffer
	app.Writer = &out
	err := run(app, append([]string{"agentjail", "--config", noPolicy}, args...))
	return out.String(), err
}

func testBundle(t *testing.T, mounts string) string {
	t.Helper()
	if _, err := delegate.Resolve("auto"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "rootfs"), 0o755); err != nil {
		t.Fatal(err)
	}
	config := `{"ociVersion": "1.0.2", "process": {"args": ["sh"], "cwd": "/", "user": {"uid": 0, "gid": 0},
		"capabilities": {"bounding": ["CAP_SYS_ADMIN"]}}, "root": {"path": "rootfs"}, "mounts": [
		{"destination": "/proc", "type": "proc", "source": "proc"},
		{"destination": "/dev", "type": "tmpfs", "source": "tmpfs"}` + mounts + `],
		"linux": {"namespaces": [{"type": "pid"}, {"type": "mount"}]}, "unheardOf": 1}`
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestExplainCommand(t *testing.T) {
	dir := testBundle(t, "")
	text, err := call(t, "explain", dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ring 2, resources\n", "ring 1, access\n", "ring 0, kernel surface\n", "  denied   process.capabilities: CAP_SYS_ADMIN -> none", "config.json: unheardOf", "\nheld by: host kernel\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	text, err = call(t, "explain", "--json", dir)
	if err != nil {
		t.Fatal(err)
	}
	var x struct {
		Refused string
		Report  struct{ Changes []map[string]any }
		Spec    map[string]any
	}
	if err := json.Unmarshal([]byte(text), &x); err != nil {
		t.Fatal(err)
	}
	if x.Refused != "" || len(x.Report.Changes) == 0 || x.Spec["unheardOf"] != nil || x.Spec["linux"] == nil {
		t.Errorf("refused %q, %d changes, spec %v", x.Refused, len(x.Report.Changes), x.Spec)
	}
}

func TestExplainCommandRefuses(t *testing.T) {
	dir := testBundle(t, `, {"destination": "/host", "type": "bind", "source": "/etc", "options": ["rbind"]}`)
	if _, err := call(t, "explain", dir); lifecycle.Status(err) != 1 || !strings.Contains(err.Error(), "/etc") {
		t.Errorf("the bundle's refusal: %v", err)
	}
	text, err := call(t, "explain", "--json", dir)
	if lifecycle.Status(err) != 1 {
		t.Errorf("exit status %d", lifecycle.Status(err))
	}
	var x struct {
		Refused  string
		Refusals []*refusal.Error
	}
	if err := json.Unmarshal([]byte(text), &x); err != nil || !strings.Contains(x.Refused, "/etc") {
		t.Errorf("%v in %s", err, text)
	}
	if len(x.Refusals) != 1 || x.Refusals[0].Code != refusal.BindSystem || x.Refusals[0].Remedy == "" || x.Refusals[0].Error() != x.Refused {
		t.Errorf("the parts: %v", x.Refusals)
	}
	for args, want := range map[string]int{"": usageStatus, "a b": usageStatus, t.TempDir(): lifecycle.ExitOwn} {
		if _, err := call(t, append([]string{"explain"}, strings.Fields(args)...)...); lifecycle.Status(err) != want {
			t.Errorf("explain %s: exit status %d, want %d", args, lifecycle.Status(err), want)
		}
	}
}

// joinsPodman skips a test whose call, made by an ordinary user, goes on in Podman's user
// namespace: as this program, in place of the test.
func joinsPodman(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: an ordinary user's call goes on in Podman's user namespace")
	}
}

func TestCheckCommand(t *testing.T) {
	joinsPodman(t)
	text, err := call(t, "check", "--json")
	var r check.Report
	if jerr := json.Unmarshal([]byte(text), &r); jerr != nil {
		t.Fatal(jerr)
	}
	if r.CanStart != (lifecycle.Status(err) == 0) {
		t.Errorf("canStart is %v, and the exit status %d", r.CanStart, lifecycle.Status(err))
	}
	text, _ = call(t, "check", "-v")
	if lines := strings.Count(text, "\n"); lines != len(r.Results)+1 {
		t.Errorf("%d lines for %d results:\n%s", lines, len(r.Results), text)
	}
	if _, err := call(t, "check", "surplus"); err == nil {
		t.Error("an argument is taken")
	}
}

func TestInspectCommandRefuses(t *testing.T) {
	joinsPodman(t)
	for _, c := range []struct {
		args, text string
		want       int
	}{
		{"", "needs CONTAINER", 2},
		{"no-such-jail-as-this", "container does not exist", 125},
		{"../../etc", "invalid container ID", 125},
		{"one-jail-as two-jail-as", "two-jail-as", 2},
	} {
		_, err := call(t, append([]string{"inspect"}, strings.Fields(c.args)...)...)
		if lifecycle.Status(err) != c.want || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%q: status %d, %v, want %d, %q", c.args, lifecycle.Status(err), err, c.want, c.text)
		}
	}
}

// TestWhyStatus: an error of why's own has a status that no answer has.
func TestWhyStatus(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(bad, []byte("sccomp = 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		want int
	}{
		{"--seccomp-profile default read", 0},
		{"--seccomp-profile default mount", 1},
		{"--seccomp-profile default what-is-it", 1},
		{"--config " + bad + " openat", 125},
		{"--seccomp-profile nonsense read", 2},
		{"read", 2},
		{"--profile x read", 2},
		{"--seccomp-profile default socket(1", 2},
	} {
		if _, err := call(t, append([]string{"why"}, strings.Fields(c.args)...)...); lifecycle.Status(err) != c.want {
			t.Errorf("why %s: status %d, want %d: %v", c.args, lifecycle.Status(err), c.want, err)
		}
	}
}

// TestUnseenKinds: what no source can have seen is named with the way to see it, and what one has seen is not.
func TestUnseenKinds(t *testing.T) {
	none := unseenKinds(nil, programs.State{})
	if len(none) != 2 || !strings.Contains(none[0], "systemctl enable --now agentjail-journal") || !strings.Contains(none[1], "agentjail why ID /PATH") {
		t.Errorf("without a source: %q", none)
	}
	if acting := unseenKinds(nil, programs.State{Acting: true}); len(acting) != 2 || strings.Contains(acting[0], "systemctl") {
		t.Errorf("beside a collector: %q", acting)
	}
	seen := []journal.Event{
		{Kind: journal.SyscallRefused, Source: journal.SourceEBPF},
		{Kind: journal.ApparmorDenied, Source: journal.SourceKernel},
	}
	if got := unseenKinds(seen, programs.State{Acting: true}); len(got) != 0 {
		t.Errorf("what was seen: %q", got)
	}
}
