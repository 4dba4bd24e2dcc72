package terminate

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"agentjail.dev/runtime/network/names/egress"
)

// TestParse: what passes is a program of git's with one repository, and nothing that a shell would
// read in another way.
func TestParse(t *testing.T) {
	for _, command := range []string{"git-upload-pack '/srv/r.git'", "git-receive-pack 'team/r.git'", "git-upload-archive '~a/r.git'"} {
		program, path, err := parseCommand(command)
		if err != nil || program+" '"+path+"'" != command {
			t.Errorf("%s: %q %q, %v", command, program, path, err)
		}
	}
	for _, command := range []string{
		"", "git-upload-pack", "git-upload-pack ", "git-upload-pack ''", "git-upload-pack '", "git-upload-pack /r.git", "git-upload-pack \"/r.git\"",
		"git-upload-pack '/r.git'; id", "git-upload-pack '/r.git' '/s.git'", "git-upload-pack '/r'\\''.git'", "git-upload-pack '/r\n.git'", "git-upload-pack '$(id)'",
		"git-upload-pack --x '/r.git'", "git-upload-pack '--upload-archive'", "git-upload-pack '/a/../r.git'", "git-upload-pack '..'", "git-upload-pack './r'", "git-upload-pack 'a//b'",
		"git-upload-pack  '/r.git'", " git-upload-pack '/r.git'", "git upload-pack '/r.git'", "git-shell '/r'", "git-lfs-authenticate 'r' download", "id", "sh -c 'id'", "scp -t /",
		"/usr/bin/git-upload-pack '/r.git'", "git-upload-pack\t'/r.git'", "git-upload-pack '/r\x00.git'", "git-upload-pack '/\u00e4'", "git-upload-pack '" + strings.Repeat("a", 600) + "'",
	} {
		if program, path, err := parseCommand(command); err == nil {
			t.Errorf("%q passes as %q of %q", command, program, path)
		}
	}
}

// FuzzParse: what passes is what the server is sent, in the same bytes.
func FuzzParse(f *testing.F) {
	f.Add("git-upload-pack '/srv/r.git'")
	f.Add("git-receive-pack 'a'b'")
	f.Fuzz(func(t *testing.T, command string) {
		program, path, err := parseCommand(command)
		if err == nil && (program+" '"+path+"'" != command || strings.Count(command, "'") != 2) {
			t.Fatalf("%q: %q of %q", command, program, path)
		}
	})
}

func marshal(t *testing.T, key any, pass string) []byte {
	t.Helper()
	b, err := ssh.MarshalPrivateKey(key, "")
	if pass != "" {
		b, err = ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(pass))
	}
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(b)
}

// sshLab is a server outside and a helper before it.
type sshLab struct {
	mu       sync.Mutex
	refused  []string
	ran      []string // by the server
	userKey  ssh.PublicKey
	asked    int // connections outside
	endpoint string
}

func signer(t *testing.T) (ssh.Signer, ed25519.PrivateKey) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return s, key
}

func socket(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// begin has a client speak with a helper that has a key, to a server whose key is known or
// another's.
func (l *sshLab) begin(t *testing.T, user string, key any, known bool, repositories ...string) (*ssh.Client, error) {
	t.Helper()
	host, hostKey := signer(t)
	far, _ := signer(t)
	shown := far
	if !known {
		shown, _ = signer(t)
	}
	own, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	l.userKey, l.endpoint = own.PublicKey(), "git.example.test:22"
	serve, err := newSSH(marshal(t, hostKey, ""), []egress.SSHKey{{
		Name: "k", User: "git", Repositories: repositories, Private: marshal(t, key, ""),
		HostKeys: map[string][][]byte{l.endpoint: {far.PublicKey().Marshal()}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	client, in := socket(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		serve(&egress.SSHConn{
			Client: in, Endpoint: l.endpoint,
			Dial: func() net.Conn {
				l.asked++
				up, out := socket(t)
				go l.serve(out, shown)
				return up
			},
			Refused: func(err error) { l.mu.Lock(); l.refused = append(l.refused, err.Error()); l.mu.Unlock() },
			Allowed: func(string) {}, Sent: func(int) {}, Got: func(int) {},
		})
		in.Close()
	}()
	t.Cleanup(func() { client.Close(); <-done })
	conn, channels, requests, err := ssh.NewClientConn(client, "x", &ssh.ClientConfig{User: user, HostKeyCallback: ssh.FixedHostKey(host.PublicKey()), Timeout: 10 * time.Second})
	if err != nil {
		return nil, err
	}
	return ssh.NewClient(conn, channels, requests), nil
}

// serve is the server outside. It reports the commands that it got.
func (l *sshLab) serve(c net.Conn, host ssh.Signer) {
	conf := &ssh.ServerConfig{PublicKeyCallback: func(m ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		if m.User() != "git" || string(k.Marshal()) != string(l.userKey.Marshal()) {
			return nil, fmt.Errorf("denied")
		}
		return nil, nil
	}}
	conf.AddHostKey(host)
	_, channels, requests, err := ssh.NewServerConn(c, conf)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for asked := range channels {
		ch, wants, err := asked.Accept()
		if err != nil {
			return
		}
		for r := range wants {
			l.mu.Lock()
			l.ran = append(l.ran, r.Type+" "+string(r.Payload[min(4, len(r.Payload)):]))
			l.mu.Unlock()
			_ = r.Reply(true, nil)
			if r.Type == "exec" {
				_, _ = io.Copy(ch, ch)
				_, _ = io.WriteString(ch.Stderr(), "err")
				_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ S uint32 }{7}))
				ch.Close()
				break
			}
		}
	}
}

// TestSession: git's programs run on the server by the key, with input, output and exit status. No
// other program runs.
func TestSession(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey := signer(t)
	for what, key := range map[string]any{"rsa": rsaKey, "ed25519": &edKey} {
		l := &sshLab{}
		c, err := l.begin(t, "git", key, true)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		s, err := c.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		var out, errs strings.Builder
		s.Stdin, s.Stdout, s.Stderr = strings.NewReader(strings.Repeat("data ", 1<<20)), &out, &errs
		if s.Setenv("GIT_PROTOCOL", "version=2") != nil || s.Setenv("LD_PRELOAD", "x") == nil || s.Setenv("GIT_PROTOCOL", "a b") == nil {
			t.Errorf("%s: variables", what)
		}
		if err := s.RequestPty("x", 1, 1, nil); err == nil {
			t.Errorf("%s: a terminal", what)
		}
		err = s.Run("git-upload-pack '/r.git'")
		if e, ok := errors.AsType[*ssh.ExitError](err); !ok || e.ExitStatus() != 7 || out.Len() != 5<<20 || errs.String() != "err" {
			t.Errorf("%s: %v, %d, %q", what, err, out.Len(), errs.String())
		}
		l.mu.Lock()
		if got := strings.Join(l.ran, ";"); strings.Contains(got, "pty") || strings.Contains(got, "LD_") || !strings.Contains(got, "exec git-upload-pack '/r.git'") || !strings.Contains(got, "GIT_PROTOCOL") {
			t.Errorf("%s: the server got %q", what, got)
		}
		l.mu.Unlock()
		for _, kind := range []string{"direct-tcpip", "auth-agent@openssh.com", "x11", "tun@openssh.com"} {
			if _, _, err := c.OpenChannel(kind, nil); err == nil {
				t.Errorf("%s: a channel %s", what, kind)
			}
		}
		if ok, _, err := c.SendRequest("tcpip-forward", true, nil); ok || err != nil {
			t.Errorf("%s: tcpip-forward: %v, %v", what, ok, err)
		}
	}
}

// TestRefused: the program gets the refusal, and no request reaches the server outside.
func TestRefused(t *testing.T) {
	_, key := signer(t)
	for _, command := range []string{"id", "git-upload-pack '/r.git'; id", "git-upload-pack 'other.git'", "git-upload-pack '/srv/../x'", ""} {
		l := &sshLab{}
		c, err := l.begin(t, "git", &key, true, "/r.git", "/srv/*")
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		out, err := s.CombinedOutput(command)
		if err == nil || !strings.Contains(string(out), "agentjail: refused: ssh: ") || !strings.Contains(string(out), "(remedy: ") || l.asked != 0 || len(l.refused) != 1 {
			t.Errorf("%s: %q, %v, %d requests, %v", command, out, err, l.asked, l.refused)
		}
	}
	l := &sshLab{}
	c, err := l.begin(t, "git", &key, true, "/r.git", "/srv/*")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 { // one after another
		s, err := c.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		if out, err := s.CombinedOutput("git-receive-pack '/srv/a/b.git'"); err == nil || string(out) != "err" || l.asked != i+1 {
			t.Errorf("%q, %v, %d", out, err, l.asked)
		}
	}
	if s, err := c.NewSession(); err != nil {
		t.Error(err)
	} else if err := s.Shell(); err == nil && s.Wait() == nil {
		t.Error("a shell")
	}
	if _, err := (&sshLab{}).begin(t, "root", &key, true); err == nil {
		t.Error("another user")
	}
	l = &sshLab{}
	if c, err = l.begin(t, "git", &key, false); err != nil {
		t.Fatal(err)
	}
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := s.CombinedOutput("git-upload-pack '/r.git'"); err == nil || !strings.Contains(string(out), "known_hosts") || len(l.ran) != 0 {
		t.Errorf("another key of the server: %q, %v, %v", out, err, l.ran)
	}
}

// TestOneSession: a connection has one session at a time, and a bound of them.
func TestOneSession(t *testing.T) {
	_, key := signer(t)
	l := &sshLab{}
	c, err := l.begin(t, "git", &key, true)
	if err != nil {
		t.Fatal(err)
	}
	first, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.NewSession(); err == nil {
		t.Error("two at once")
	}
	first.Close()
	open := 0
	for range 10 * maxSessions {
		s, err := c.NewSession()
		if err == nil {
			open++
			s.Close()
			continue
		}
		// The connection ends then. The client's library waits forever for a request at that
		// moment.
		if strings.Contains(err.Error(), "too many sessions") {
			break
		}
	}
	if err := c.Wait(); err == nil || open > maxSessions {
		t.Errorf("%d sessions, %v", open, err)
	}
}

// TestKeys: a key that cannot be used is refused by its credential's name, with none of its text.
func TestKeys(t *testing.T) {
	_, key := signer(t)
	host := func() []byte { return marshal(t, &key, "") }
	text := marshal(t, &key, "")
	if _, err := newSSH(host(), []egress.SSHKey{{Name: "k", Private: text}}); err != nil || text[0] != 0 {
		t.Errorf("%v, %q", err, text[:8])
	}
	for want, text := range map[string][]byte{
		"has a passphrase":     marshal(t, &key, "secret"),
		"not a private key":    []byte("-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\n-----END OPENSSH PRIVATE KEY-----\n"),
		"that ssh can use":     []byte("hunter2"),
		"that ssh-keygen has ": []byte("ssh-ed25519 AAAA hunter2"),
	} {
		_, err := newSSH(host(), []egress.SSHKey{{Name: "k", Private: text}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "credentials.k") || !strings.Contains(err.Error(), "(remedy: ") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", want, err)
		}
	}
}
