package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/spec/policy"
)

func TestNetworkRules(t *testing.T) {
	for _, w := range []struct {
		mode  string
		allow []string
		ok    bool
		want  string
	}{
		{policy.NetworkNone, []string{"*.github.io"}, true, "no jail"},
		{policy.NetworkNames, nil, false, "no name is allowed"},
		{policy.NetworkNames, []string{"api.example.test", "*.example.test"}, true, "2 entries"},
		{policy.NetworkNames, []string{"api.example.test", "*.github.io"}, false, "github.io"},
		{policy.NetworkNames, []string{"*.github.io", "*.co.uk", "*.amazonaws.com", "*.ngrok.com", "*.windows.net"}, false, "and 2 more"},
		{policy.NetworkNames, []string{"*"}, false, "network.allow"},
	} {
		e := &env{policy: policy.Default()}
		e.policy.Network.Mode, e.policy.Network.Allow = w.mode, w.allow
		got := networkRules(e)
		if got.ok != w.ok || !strings.Contains(got.detail, w.want) || !got.ok && got.remedy == "" {
			t.Errorf("%s, %q: %+v, want %q", w.mode, w.allow, got, w.want)
		}
	}
}

// TestNothingNamed: where the profile net is chosen, or can be, check reports that it opens no network.
func TestNothingNamed(t *testing.T) {
	needRoot(t) // a policy must be root's
	const engines = `network.mode = "engine" in [policies.net]`
	for _, w := range []struct {
		text, profile string
		ok, says      bool
	}{
		{"", "net", false, true},
		{"network.deny = [\"a.test\"]", "net", false, true},
		{"[policies.net.network]\nmode = \"engine\"", "net", true, false},
		{"", "", true, true},
		{"[policies.net.network]\nallow = [\"a.test\"]", "", true, false},
	} {
		path := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(path, []byte(w.text), 0o644); err != nil {
			t.Fatal(err)
		}
		got := networkRules(newEnv(Options{PolicyPath: path, PolicyName: w.profile}))
		if got.ok != w.ok || strings.Contains(got.detail, engines) != w.says {
			t.Errorf("%q of %q: %+v", w.profile, w.text, got)
		}
	}
}

// TestNetworkPorts: a kernel that cannot hold sockets to ports is a warning, with the remedy.
func TestNetworkPorts(t *testing.T) {
	if a := networkPorts(nil); !a.ok {
		t.Errorf("%+v", a)
	}
	if a := networkPorts(unix.ENOPROTOOPT); a.ok || !a.warn || !strings.Contains(a.detail, "one server") || a.remedy != "Linux 6.3 or later" {
		t.Errorf("%+v", a)
	}
}
