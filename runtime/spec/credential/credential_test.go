package credential

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentjail.dev/runtime/spec/netrules"
)

func house() Spec {
	return Spec{Hosts: []string{"api.example.test"}, Header: "Authorization: Bearer", From: "file:/etc/agentjail/keys/x", Env: "HOUSE_TOKEN"}
}

func forge() Spec {
	return Spec{Hosts: []string{"git.example.test"}, SSH: "git", From: "file:/etc/agentjail/keys/x", KnownHosts: "/etc/agentjail/known_hosts"}
}

// TestKnownHosts: a server's keys are those of its name, in the clear or hashed, and none that is
// revoked.
func TestKnownHosts(t *testing.T) {
	const a, b = "AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "AAAAC3NzaC1lZDI1NTE5AAAAIAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB"
	const hashed = "|1|oAhMbcuN0V8Ukgaf7hYlDlLmDKk=|bLZ3sEs3XY2EZfhFSqhcVFaxTvA=" // not of this name
	m := hmac.New(sha1.New, []byte("salt"))
	m.Write([]byte("[git.example.test]:2222"))
	own := "|1|" + base64.StdEncoding.EncodeToString([]byte("salt")) + "|" + base64.StdEncoding.EncodeToString(m.Sum(nil))
	for _, w := range []struct {
		text, server string
		want         int
	}{
		{"git.example.test ssh-ed25519 " + a, "git.example.test", 1},
		{"x.example.test,GIT.example.test ssh-ed25519 " + a + " comment\n" + "git.example.test ssh-ed25519 " + b, "git.example.test", 2},
		{own + " ssh-ed25519 " + a, "[git.example.test]:2222", 1},
		{own + " ssh-ed25519 " + a, "git.example.test", 0},
		{hashed + " ssh-ed25519 " + a, "git.example.test", 0},
		{"git.example.test ssh-ed25519 " + a, "[git.example.test]:2222", 0},
		{"*.example.test ssh-ed25519 " + a + "\n* ssh-ed25519 " + a + "\n@cert-authority git.example.test ssh-ed25519 " + a, "git.example.test", 0},
		{"git.example.test ssh-ed25519 " + a + "\n@revoked * ssh-ed25519 " + a, "git.example.test", 0},
		{"# git.example.test ssh-ed25519 " + a + "\n\ngit.example.test\ngit.example.test ssh-ed25519 !!\n|1| x y\n|1|a|b x y", "git.example.test", 0},
	} {
		if got := hostKeys(w.text, w.server); len(got) != w.want {
			t.Errorf("%q for %s: %d keys", w.text, w.server, len(got))
		}
	}
}

// TestServers: the servers of keys for ssh, each once.
func TestServers(t *testing.T) {
	set := Set{"a": forge(), "b": house(), "c": {SSH: "x", Hosts: []string{"git.example.test:2222", "git.example.test"}}}
	if got := strings.Join(set.Servers(), " "); got != "[git.example.test]:2222 git.example.test" {
		t.Errorf("servers: %s", got)
	}
}

// TestCheck: credentials that policy may have, and those that are refused.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		what string
		do   func(*Spec)
		want string // of the error; "" is none
	}{
		{"as it is", func(*Spec) {}, ""},
		{"a header alone", func(s *Spec) { s.Header = "x-api-key" }, ""},
		{"a command", func(s *Spec) { s.From = "command:/usr/bin/pass show x" }, ""},
		{"an end of TLS", func(s *Spec) { s.TLS = "end" }, ""},
		{"a shape", func(s *Spec) { s.Placeholder = "ghp_" + strings.Repeat("*", 36) }, ""},
		{"no hosts", func(s *Spec) { s.Hosts = nil }, "hosts"},
		{"a wildcard", func(s *Spec) { s.Hosts = []string{"*.example.test"} }, "exact name"},
		{"an address", func(s *Spec) { s.Hosts = []string{"5.5.5.5"} }, "exact name"},
		{"capitals", func(s *Spec) { s.Hosts = []string{"API.example.test"} }, "exact name"},
		{"a port", func(s *Spec) { s.Hosts = []string{"api.example.test:443"} }, "exact name"},
		{"a host twice", func(s *Spec) { s.Hosts = []string{"api.example.test", "api.example.test"} }, "is set by"},
		{"no header", func(s *Spec) { s.Header = "" }, "header"},
		{"a line end in the header", func(s *Spec) { s.Header = "x\r\nHost" }, "header"},
		{"a line end in the scheme", func(s *Spec) { s.Header = "x: Bearer\r\nHost" }, "cannot stand"},
		{"a field of HTTP's own", func(s *Spec) { s.Header = "Host" }, "HTTP itself"},
		{"a field with an underscore", func(s *Spec) { s.Header = "x_y" }, "letters"},
		{"no source", func(s *Spec) { s.From = "" }, "from"},
		{"a relative path", func(s *Spec) { s.From = "file:key" }, "from"},
		{"a path with dots", func(s *Spec) { s.From = "file:/etc/../key" }, "from"},
		{"an empty command", func(s *Spec) { s.From = "command: " }, "from"},
		{"the value itself", func(s *Spec) { s.From = "value:hunter2" }, "from"},
		{"no variable", func(s *Spec) { s.Env = "A B" }, "env"},
		{"a loader's variable", func(s *Spec) { s.Env = "LD_PRELOAD" }, "env"},
		{"a short placeholder", func(s *Spec) { s.Placeholder = "x***" }, "stars"},
		{"a placeholder of two words", func(s *Spec) { s.Placeholder = "x " + strings.Repeat("*", 16) }, "stars"},
		{"known_hosts without ssh", func(s *Spec) { s.KnownHosts = "/k" }, "ssh is missing"},
		{"a key", func(s *Spec) { *s = forge() }, ""},
		{"a key at a port", func(s *Spec) { *s = forge(); s.Hosts = []string{"git.example.test:2222"} }, ""},
		{"a key for repositories", func(s *Spec) { *s = forge(); s.Repositories = []string{"team/r.git", "/srv/git/*"} }, ""},
		{"a key with a header", func(s *Spec) { *s = forge(); s.Header = "x-api-key" }, "not of a key"},
		{"a key with a variable", func(s *Spec) { *s = forge(); s.Env = "X" }, "not of a key"},
		{"a key without known_hosts", func(s *Spec) { *s = forge(); s.KnownHosts = "" }, "known_hosts"},
		{"a user that is an option", func(s *Spec) { *s = forge(); s.SSH = "-x" }, "ssh ="},
		{"a port that is none", func(s *Spec) { *s = forge(); s.Hosts = []string{"git.example.test:0"} }, "hosts"},
		{"a key twice", func(s *Spec) { *s = forge(); s.Hosts = []string{"git.example.test", "git.example.test:22"} }, "is set by"},
		{"a repository above", func(s *Spec) { *s = forge(); s.Repositories = []string{"a/../b"} }, "repositories"},
		{"a star within", func(s *Spec) { *s = forge(); s.Repositories = []string{"a*/b"} }, "repositories"},
		{"all repositories", func(s *Spec) { *s = forge(); s.Repositories = []string{"*"} }, "repositories"},
		{"another tls", func(s *Spec) { s.TLS = "any" }, "tls"},
	} {
		s := house()
		c.do(&s)
		err := Set{"house": s}.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	if err := (Set{"House": house()}).Check(); err == nil {
		t.Error("a name with capitals passes")
	}
	other := house()
	other.Header = "x-api-key"
	if err := (Set{"a": house(), "b": other}).Check(); err == nil || !strings.Contains(err.Error(), "env") {
		t.Errorf("a variable of two: %v", err)
	}
	if other.Env = ""; (Set{"a": house(), "b": other}).Check() != nil {
		t.Error("two headers at one host are refused")
	}
	other.Header = "AUTHORIZATION"
	if err := (Set{"a": house(), "b": other}).Check(); err == nil || !strings.Contains(err.Error(), "is set by") {
		t.Errorf("a header of two: %v", err)
	}
}

// TestPlaceholders: they have the policy's shape and are another each time.
func TestPlaceholders(t *testing.T) {
	s := house()
	s.Placeholder = "ghp_" + strings.Repeat("*", 20) + "-end"
	set := Set{"a": house(), "b": s}
	one, two := set.Placeholders(), set.Placeholders()
	for name := range set {
		if one[name] == two[name] || strings.Contains(one[name], "*") {
			t.Errorf("%s: %q, %q", name, one[name], two[name])
		}
	}
	if b := one["b"]; !strings.HasPrefix(b, "ghp_") || !strings.HasSuffix(b, "-end") || len(b) != 28 {
		t.Errorf("%q is not of the shape", b)
	}
	own := set.With(one)
	if !own["a"].Own() || set["a"].Own() || set["b"].Own() || !own["a"].Same(set["a"]) {
		t.Errorf("%+v, %+v", own, set)
	}
	if other := house(); own["a"].Same(Spec{}) || func() bool { other.From = "file:/y"; return own["a"].Same(other) }() {
		t.Error("another credential is the same")
	}
}

// TestUsable: only hosts that the rules allow, with the port, and only credentials that have one.
func TestUsable(t *testing.T) {
	s := house()
	s.Hosts = []string{"api.example.test", "b.example.test", "c.example.test"}
	r, err := netrules.Parse([]string{"api.example.test", "b.example.test:22", "c.example.test"}, []string{"c.example.test"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	other := house()
	other.Hosts = []string{"b.example.test"}
	got := Set{"a": s, "b": other}.Usable(r)
	if len(got) != 1 || fmt.Sprint(got["a"].Hosts) != "[api.example.test]" || len(s.Hosts) != 3 {
		t.Errorf("%+v", got)
	}
}

// TestFetch: a value comes from a file or a program that only root can have chosen, in one line
// that a header can hold.
func TestFetch(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: what is read must be root's")
	}
	// Not below /tmp: in a directory that all users may write to, any user could have made a link
	// to a program of root's.
	dir, err := os.MkdirTemp("/root", "agentjail-credential-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	at := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const good = "hunter2-hunter2"
	defer func(d time.Duration) { patience = d }(patience)
	for _, c := range []struct{ what, from, want string }{
		{"a file", "file:" + at("a", good+"\n", 0o400), ""},
		{"a line of another system", "file:" + at("b", good+"\r\n", 0o600), ""},
		{"a command", "command:" + at("c", "#!/bin/sh\necho \"$1\"\n", 0o700) + " " + good, ""},
		{"a file that others read", "file:" + at("d", good, 0o644), "install -m 600"},
		{"a file that others write", "file:" + at("e", good, 0o622), "chmod go-w"},
		{"a file that is not there", "file:" + dir + "/none", "none"},
		{"a short value", "file:" + at("f", "hunter", 0o600), "6 bytes"},
		{"a long value", "file:" + at("g", strings.Repeat("hunter2", 4000), 0o600), "must be 8 to 8192"},
		{"two lines", "file:" + at("h", good+"\nHost: hunter2\n", 0o600), "one line"},
		{"a line end inside", "file:" + at("i", good+"\rhunter2", 0o600), "one line"},
		{"a NUL", "file:" + at("j", good+"\x00", 0o600), "one line"},
		{"a space before", "file:" + at("k", " "+good, 0o600), "one line"},
		{"a command that fails", "command:" + at("l", "#!/bin/sh\necho "+good+"; echo "+good+" >&2; exit 1\n", 0o700), "exit status 1"},
		{"a command without end", "command:" + at("m", "#!/bin/sh\necho "+good+"; sleep 1000\n", 0o700), "not ended"},
		{"a command that prints too much", "command:" + at("n", "#!/bin/sh\nhead -c 9000000 /dev/zero | tr '\\0' x\n", 0o700), "must be 8"},
		{"a command that others write", "command:" + at("o", "#!/bin/sh\necho "+good+"\n", 0o722), "chmod go-w"},
	} {
		s := house()
		s.From = c.from
		patience = time.Minute
		if c.want == "not ended" {
			patience = time.Second
		}
		v, err := s.Fetch()
		if c.want == "" {
			if err != nil || string(v.Reveal()) != good {
				t.Errorf("%s: %q, %v", c.what, v.Reveal(), err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(strings.ReplaceAll(err.Error(), dir, ""), "hunter") || !v.Empty() {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// TestEnded: the hosts of credentials whose TLS is ended.
func TestEnded(t *testing.T) {
	a, b := house(), house()
	a.TLS, b.Hosts = TLSEnd, []string{"b.example.test"}
	if got := (Set{"a": a, "b": b}).Ended(); strings.Join(got, " ") != "api.example.test" {
		t.Errorf("%q", got)
	}
}
