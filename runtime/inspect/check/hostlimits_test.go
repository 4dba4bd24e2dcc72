package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/runtime/kernel/hostfacts"
	"agentjail.dev/runtime/spec/policy"
)

// settings are kernel settings below a directory of the test's.
func settings(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestSocketMemory(t *testing.T) {
	v1, v2 := hostfacts.Cgroup{Memory: true, Sockets: true}, hostfacts.Cgroup{V2: true, Memory: true}
	const small, large = "1000\t2000\t3000", "1000\t2000\t3000000" // 12 MB, 12 GB
	for _, c := range []struct {
		name     string
		udp, tcp string
		cg       hostfacts.Cgroup
		change   func(*policy.Limits)
		ok       bool
		says     string
	}{
		{"version 1", large, large, v1, nil, true, "at most 64MiB (limits.sockets)"},
		{"version 1, a small budget", large, small, v1, nil, false, "raise net.ipv4.tcp_mem"},
		{"version 1 without a bound", large, large, v1, func(l *policy.Limits) { l.Sockets, l.Memory = 0, 0 }, false, "nothing bounds"},
		{"version 2", large, large, v2, nil, true, "at most 4GiB (limits.memory)"},
		{"version 2, a small budget", small, large, v2, nil, false, "raise net.ipv4.udp_mem"},
		{"version 2, less memory", small, small, v2, func(l *policy.Limits) { l.Memory = 8 << 20 }, true, "at most 8MiB"},
		{"no control groups", large, large, hostfacts.Cgroup{}, nil, false, "nothing bounds"},
		{"unreadable", "x", large, v2, nil, false, "net.ipv4.udp_mem cannot be read"},
	} {
		e := &env{policy: policy.Default(), host: hostfacts.Facts{MemTotal: 64 << 30, Cgroup: c.cg}, sysctl: settings(t, map[string]string{"net/ipv4/udp_mem": c.udp, "net/ipv4/tcp_mem": c.tcp})}
		if c.change != nil {
			c.change(&e.policy.Limits)
		}
		if a := socketMemory(e); a.ok != c.ok || !strings.Contains(a.detail+" "+a.remedy, c.says) || !a.ok && (!a.warn || a.remedy == "") {
			t.Errorf("%s: %+v, not %v with %q", c.name, a, c.ok, c.says)
		}
	}
}

func TestOpenFiles(t *testing.T) {
	for _, c := range []struct {
		name   string
		max    string
		change func(*policy.Limits)
		ok     bool
		says   string
	}{
		{"what systemd sets", "9223372036854775807", nil, true, "at most 16777216 (limits.pids times limits.nofile)"},
		{"what the kernel sets for 24 GB", "2466183", nil, false, "one jail may open 16777216"},
		{"little memory", "2466183", func(l *policy.Limits) { l.Memory = 256 << 20 }, true, "at most 1458888 (limits.memory)"},
		{"few processes", "2466183", func(l *policy.Limits) { l.Pids = 100 }, true, "at most 1638400 (limits.pids"},
		{"no bounds", "2466183", func(l *policy.Limits) { l.Pids, l.Memory = 0, 0 }, false, "nothing bounds"},
		{"unreadable", "", nil, false, "cannot be read"},
	} {
		e := &env{policy: policy.Default(), host: hostfacts.Facts{MemTotal: 64 << 30, Cgroup: hostfacts.Cgroup{Memory: true}}, sysctl: settings(t, map[string]string{"fs/file-max": c.max})}
		if c.change != nil {
			c.change(&e.policy.Limits)
		}
		if a := openFiles(e); a.ok != c.ok || !strings.Contains(a.detail, c.says) || !a.ok && (!a.warn || a.remedy == "") {
			t.Errorf("%s: %+v, not %v with %q", c.name, a, c.ok, c.says)
		}
	}
}

func TestCoreHandler(t *testing.T) {
	for pattern, want := range map[string]struct {
		ok   bool
		says string
	}{
		"|/usr/share/apport/apport -p%p -s%s": {true, "/usr/share/apport/apport gets the host's crashes, and never runs for a jail's"},
		"core":                                {true, "core files (core); a jail writes none"},
		"@/run/coredump.socket":               {false, "the socket /run/coredump.socket gets the crashes of jails"},
	} {
		e := &env{sysctl: settings(t, map[string]string{"kernel/core_pattern": pattern})}
		if a := coreHandler(e); a.ok != want.ok || !strings.Contains(a.detail, want.says) || !a.ok && (!a.warn || a.remedy == "") {
			t.Errorf("%s: %+v", pattern, a)
		}
	}
	if a := coreHandler(&env{sysctl: t.TempDir()}); a.ok || !a.warn {
		t.Errorf("unreadable: %+v", a)
	}
}

func TestReserved(t *testing.T) {
	for mode, fine := range map[string]bool{"0": true, "1": true, "2": false} {
		e := &env{sysctl: settings(t, map[string]string{"vm/overcommit_memory": mode})}
		if a := reserved(e); a.ok != fine || !fine && (!a.warn || a.remedy == "") {
			t.Errorf("%s: %+v", mode, a)
		}
	}
}
