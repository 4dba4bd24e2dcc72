package podman

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestEnginesFilesAtStart: a jail has the engine's files as they are when its program starts, in each mode of the network. Podman 5 writes hosts
// and resolv.conf between the runtime's create and its start.
func TestEnginesFilesAtStart(t *testing.T) {
	if !engine.UnderTestIsAgentjail() {
		t.Skip("the runtime under test is not agentjail")
	}
	dns := []string{"--dns=1.2.3.5"}
	for _, c := range []struct {
		name    string
		p       func(*testing.T) *engine.PodmanT
		policy  string
		options []string
		// resolver is a line of resolv.conf, writable what a write to a copy ends with, and own reports that lo has the own name's address.
		resolver, writable string
		own                bool
	}{
		{"none", root, "", dns, "nameserver 1.2.3.5", "written", true},
		{"none, of the engine too", root, "", []string{"--network=none"}, "", "written", true},
		{"none, read-only", root, "", []string{dns[0], "--read-only"}, "nameserver 1.2.3.5", "Read-only file system", true},
		{"none, read-only in a volume", root, "", []string{dns[0], "--read-only", "--volume=/etc"}, "nameserver 1.2.3.5", "Read-only file system", true},
		{"names", root, "[network]\nmode = \"names\"\nallow = [\"a.example.org\"]\n", nil, "nameserver 127.0.0.1", "written", true},
		{"names, read-only", root, "[network]\nmode = \"names\"\nallow = [\"a.example.org\"]\n", []string{"--read-only"}, "nameserver 127.0.0.1", "Read-only file system", true},
		{"engine", root, "[network]\nmode = \"engine\"\n", dns, "nameserver 1.2.3.5", "written", false},
		{"engine, read-only", root, "[network]\nmode = \"engine\"\n", []string{dns[0], "--read-only"}, "nameserver 1.2.3.5", "can't create", false},
		{"a user's", user, "", []string{"--network=none"}, "", "written", true},
		{"a user's, read-only", user, "", []string{"--network=none", "--read-only"}, "", "Read-only file system", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := c.p(t)
			policy := filepath.Join(env.Get(t, engine.BinDir), "files.toml")
			env.Put(t, policy, c.policy, 0o644, 0)
			args := slices.Concat([]string{"--runtime-flag=config=" + policy, "run", "--rm", "--hostname=itself", "--add-host=a.test:1.2.3.4"}, c.options,
				[]string{engine.Busybox, "sh", "-c", "cat /etc/hosts; echo --; cat /etc/resolv.conf; echo --; cat /etc/hostname; echo --; { echo '# x' >>/etc/hosts && echo written; } 2>&1"})
			r := p.Podman(args...)
			out := strings.Split(r.Stdout, "--\n")
			if len(out) != 4 {
				t.Fatal(r)
			}
			for address, name := range map[string]string{"127.0.0.1": "localhost", "1.2.3.4": "a.test"} {
				if !slices.Contains(addresses(out[0], name), address) {
					t.Errorf("%s is not at %s: %s", name, address, out[0])
				}
			}
			at := addresses(out[0], "itself")
			if len(at) == 0 || c.own && slices.ContainsFunc(at, func(a string) bool { return !strings.HasPrefix(a, "127.") }) {
				t.Errorf("its own name: %s", out[0])
			}
			env.Contain(t, "resolv.conf", out[1], c.resolver)
			env.Equal(t, "hostname", strings.TrimSpace(out[2]), "itself")
			env.Contain(t, "a write", out[3], c.writable)
		})
	}
}

// addresses are those of a name in a hosts file.
func addresses(hosts, name string) (at []string) {
	for line := range strings.Lines(hosts) {
		if f := strings.Fields(line); slices.Contains(f, name) {
			at = append(at, f[0])
		}
	}
	return at
}
