package crash

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

// change reads the good spec and lets f change it.
func change(t *testing.T, f func(map[string]any)) []byte {
	t.Helper()
	text := env.Read(t, filepath.Join(bundle, "config.json"))
	var s map[string]any
	env.Check(t, json.Unmarshal(text, &s))
	f(s)
	text, err := json.Marshal(s)
	env.Check(t, err)
	return text
}

// TestErrorsReachTheEngine: one clear line on standard error, the same as the
// last entry of the engine's log, status 1, nothing left.
func TestErrorsReachTheEngine(t *testing.T) {
	good := change(t, func(s map[string]any) {
		s["root"].(map[string]any)["path"] = filepath.Join(bundle, "rootfs")
	})
	linked := filepath.Join(t.TempDir(), "rootfs")
	env.Check(t, os.Symlink(filepath.Join(bundle, "rootfs"), linked))
	with := func(f func(map[string]any)) []byte {
		var s map[string]any
		env.Check(t, json.Unmarshal(good, &s))
		f(s)
		text, err := json.Marshal(s)
		env.Check(t, err)
		return text
	}
	rootPath := func(p string) []byte {
		return with(func(s map[string]any) { s["root"].(map[string]any)["path"] = p })
	}
	for name, c := range map[string]struct {
		config []byte
		says   string // a part of the message
	}{
		"wrong type":    {with(func(s map[string]any) { s["process"] = "x" }), "process"},
		"a linked root": {rootPath(linked), "symbolic link"},
		"cwd in proc":   {with(func(s map[string]any) { s["process"].(map[string]any)["cwd"] = "/proc/self/fd/7" }), "CVE-2024-21626"},
		"unknown rlimit": {with(func(s map[string]any) {
			s["process"].(map[string]any)["rlimits"] = []any{map[string]any{"type": "RLIMIT_X"}}
		}), "RLIMIT_X"},
		"a disk": {with(func(s map[string]any) {
			s["mounts"] = append(s["mounts"].([]any), map[string]any{"destination": "/x", "type": "ext4", "source": "/dev/vda"})
		}), "ext4"},
		"control characters": {with(func(s map[string]any) {
			s["mounts"] = append(s["mounts"].([]any), map[string]any{"destination": "/x", "type": "a\nb\x1b[31m", "source": "y"})
		}), "not for jails"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			env.Check(t, os.Chmod(dir, 0o711))
			if c.config != nil {
				env.Check(t, os.WriteFile(filepath.Join(dir, "config.json"), c.config, 0o600))
			}
			id := fmt.Sprintf("crash%d-bad", os.Getpid())
			log := filepath.Join(t.TempDir(), "log.json")
			code, text := agentjail(t, nil, "--log", log, "--log-format", "json", "create", "--bundle", dir, id)
			if code != 1 {
				t.Fatalf("status %d\n%s", code, text)
			}
			lines := strings.Split(strings.TrimSpace(text), "\n")
			if len(lines) != 1 || !strings.HasPrefix(lines[0], "agentjail: ") || strings.ContainsAny(lines[0], "\x1b\x00") {
				t.Errorf("not one clean line:\n%q", text)
			}
			if !strings.Contains(text, c.says) {
				t.Errorf("the message does not state %q:\n%s", c.says, text)
			}
			// The engine's log ends with the same as JSON.
			raw, _ := os.ReadFile(log)
			entries := strings.Split(strings.TrimSpace(string(raw)), "\n")
			var last struct{ Level, Msg string }
			if err := json.Unmarshal([]byte(entries[len(entries)-1]), &last); err != nil || last.Level != "error" || !strings.Contains(last.Msg, c.says) {
				t.Errorf("the log's last entry: %v: %q", err, entries[len(entries)-1])
			}
			if l := left(id); len(l) > 0 {
				t.Errorf("left on the host:\n%s", strings.Join(l, "\n"))
			}
		})
	}
}

func TestUnknownWordsAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"frobnicate"},
		{"create", "--frob", "x"},
		{"--frob", "list"},
		{"start"},
		{"start", "a", "b"},
		{"checkpoint", "x"},
		{"restore", "x"},
		{"exec", "x"},
		{"create", "--bundle", "/nonexistent", "../x"},
		{"--log-format", "xml", "list"},
	} {
		code, text := agentjail(t, nil, args...)
		want := 1
		switch args[0] {
		case "exec":
			want = 255 // as runc's
		case "frobnicate", "--frob":
			want = 2 // no verb of runc's
		}
		if code != want || len(strings.Split(strings.TrimSpace(text), "\n")) != 1 {
			t.Errorf("%v: status %d, printed %q", args, code, text)
		}
	}
}
