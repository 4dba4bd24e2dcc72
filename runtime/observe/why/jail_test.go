package why

import (
	"strings"
	"testing"

	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/spec/netrules"
)

// TestOfThisJail: what the jail shows decides the remedy: an address is turned back into its name, a remedy is that
// of the limit in force, and no remedy is what is allowed already.
func TestOfThisJail(t *testing.T) {
	rules, err := netrules.Parse([]string{"api.example.test:80,443", "git.example.test:22"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	names := Network{Mode: "names", ByRules: true, Rules: rules, Exact: rules.Exact()}
	none := Network{Mode: "none", Nothing: true}
	byNames := []Sign{{Sign: "network none", Rules: true}, {Sign: "name"}, {Sign: "network names"}}
	refused := func(name string, port uint16, rule, reason, remedy string) []journal.Event {
		e := journal.Event{Kind: journal.ConnectRefused, Source: journal.SourceNetwork, Name: name, Port: port, Rule: rule, Reason: reason, Remedy: remedy}
		if err := e.Complete(); err != nil {
			t.Fatal(err)
		}
		return []journal.Event{e}
	}
	for _, c := range []struct {
		text    string
		network Network
		signs   []Sign
		past    []journal.Event
		want    Verdict
		says    []string
		not     []string
	}{
		{text: "dial tcp 127.64.0.2:7777: connect: connection reset by peer", network: names, signs: byNames, want: Refused, says: []string{"127.64.0.2 stands for git.example.test", `"git.example.test:7777"`}},
		{text: "127.64.0.2:7777", network: names, want: Refused, says: []string{"127.64.0.2 stands for git.example.test", `"git.example.test:7777"`}},
		{text: "127.64.0.2:22", network: names, want: Passes, says: []string{"stands for git.example.test"}},
		{text: "127.64.9.9:22", network: names, want: Unknown, says: []string{"a wildcard"}},
		{text: "Error: 14 UNAVAILABLE: read ECONNRESET 127.64.9.9:5000", network: names, signs: byNames, past: refused("x.wild.test", 5000, "", "no entry", ""), want: Depends, says: []string{"x.wild.test"}, not: []string{`"127.64.9.9:5000"`}},
		{text: "ssh: connect to host other.example.test port 2222: Connection reset by peer", network: names, signs: byNames, want: Refused, says: []string{`"other.example.test:2222"`}},
		{text: "curl: (35) OpenSSL SSL_connect: Connection reset by peer in connection to other.example.test:8443", network: names, signs: byNames, want: Refused, says: []string{`"other.example.test:8443"`}},
		// What is allowed already is no remedy.
		{text: "curl: (56) Recv failure: Connection reset by peer in connection to api.example.test:443", network: names, signs: byNames, want: Depends, says: []string{"api.example.test:443 is allowed"}, not: []string{"network.allow ="}},
		{
			text: "api.example.test:443", network: names, past: refused("api.example.test", 443, "api.example.test:80,443", "10.0.0.7 is a private address", `network.allow = ["api.example.test:443 private"]`),
			want: Refused, says: []string{`network.allow = ["api.example.test:443 private"]`, "10.0.0.7 is a private address"},
		},
		{text: "new.example.test:22", network: names, want: Refused, says: []string{`"new.example.test:22 private"`}},
		// The port is that of the protocol.
		{text: "ssh: Could not resolve hostname github.com: Temporary failure in name resolution", network: names, signs: byNames, want: Refused, says: []string{`"github.com:22"`}},
		{text: `psql: error: could not translate host name "db.example.test" to address: Name or service not known`, network: names, signs: byNames, want: Refused, says: []string{`"db.example.test:5432"`}},
		{text: "Temporary failure resolving 'deb.debian.org'", network: names, signs: byNames, want: Refused, says: []string{`"deb.debian.org:80"`}},
		{text: "curl: (6) Could not resolve host: pypi.org", network: names, signs: byNames, want: Refused, says: []string{`"pypi.org:443"`}},
		{text: "fatal: unable to access 'http://git.example.org/x/': Could not resolve host: git.example.org", network: names, signs: byNames, want: Refused, says: []string{`"git.example.org:80"`}},
		// Loopback is no entry.
		{text: "Error: connect ECONNREFUSED 127.0.0.1:5432", network: names, signs: byNames, want: Unknown, says: []string{"nothing listens there"}, not: []string{"network.allow"}},
		{text: "curl: (7) Failed to connect to localhost port 8080 after 0 ms: Couldn't connect to server", network: none, want: Unknown, says: []string{"nothing listens there"}, not: []string{"network.mode"}},
		{text: "Failed to connect to bus: No such file or directory", network: none, want: Refused, says: []string{"neither systemd"}, not: []string{"network.mode"}},
		{text: "git@github.com: Permission denied (publickey).", want: Refused, says: []string{`ssh = "git"`}, not: []string{"-u UID"}},
		{text: "warning: failed to remove .agents/: Device or resource busy", want: Refused, says: []string{"protected paths"}},
		// The limit that was met is the container's.
		{
			text:  "bash: fork: retry: Resource temporarily unavailable",
			signs: []Sign{{Sign: "pids", Shown: true, Text: "the limit of 50 processes was met 4 times", Remedies: []Remedy{{Write: "docker run --pids-limit 100"}}}},
			want:  Refused, says: []string{"--pids-limit 100"}, not: []string{"limits.pids ="},
		},
		{text: "Killed", signs: []Sign{{Sign: "sentry", Shown: true, Text: "gvisor"}}, want: Refused, says: []string{"the sandbox's own kernel"}},
		{text: "Killed", signs: []Sign{{Sign: "sentry", Rules: true}}, want: Depends, not: []string{"the sandbox's own kernel"}},
	} {
		f := &Facts{Network: c.network, Signs: c.signs}
		q := ask(t, c.text, "amd64")
		a, err := f.Answer(q)
		if err != nil {
			t.Fatal(err)
		}
		a.Past(q, c.past)
		var b strings.Builder
		if err := a.Text(&b); err != nil {
			t.Fatal(err)
		}
		if a.Verdict != c.want {
			t.Errorf("%q: %s, want %s\n%s", c.text, a.Verdict, c.want, &b)
		}
		for _, s := range c.says {
			if !strings.Contains(b.String(), s) {
				t.Errorf("%q: %q is not in\n%s", c.text, s, &b)
			}
		}
		for _, s := range c.not {
			if strings.Contains(b.String(), s) {
				t.Errorf("%q: %q is in\n%s", c.text, s, &b)
			}
		}
	}
}

// TestNoDevices: the directories of /dev are not devices, and a protected path is the host's in the remedy.
func TestNoDevices(t *testing.T) {
	own := &Path{Exists: false, Mode: 0o41777, Kind: Tmpfs, Mount: "/dev/shm", FS: "tmpfs", Above: "/dev/shm"}
	for name, says := range map[string]string{"/dev/shm/a": "passes", "/dev/mqueue/x": "passes", "/dev/pts/7": "no process of the jail has open", "/dev/kvm": "devices.allow"} {
		p := *own
		p.Name, p.Above = name, name[:strings.LastIndexByte(name, '/')]
		f := &Facts{Path: &p}
		var b strings.Builder
		if err := f.ofPath(name).Text(&b); err != nil || !strings.Contains(b.String(), says) || says != "devices.allow" && strings.Contains(b.String(), "devices.allow") {
			t.Errorf("%s: %v, want %q:\n%s", name, err, says, &b)
		}
	}
	f := &Facts{Path: &Path{Name: "/work/.git/hooks", Exists: true, Protected: "/work/.git/hooks", OnHost: "/home/a/r/.git/hooks", Kind: Host}}
	if a := f.ofPath("/work/.git/hooks"); len(a.Remedies) != 1 || a.Remedies[0].Write != `binds.unprotect = ["/home/a/r/.git/hooks"]` {
		t.Errorf("a protected path: %+v", a.Remedies)
	}
	f = &Facts{Path: &Path{Name: "/etc/hosts", Exists: true, Mount: "/etc/hosts", ReadOnly: true, Kind: Host}}
	if a := f.ofPath("/etc/hosts"); len(a.Remedies) != 1 || !strings.Contains(a.Remedies[0].Write, "--add-host") {
		t.Errorf("the engine's file: %+v", a.Remedies)
	}
}
