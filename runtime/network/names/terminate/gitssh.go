package terminate

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"agentjail.dev/runtime/network/names/egress"
)

// Bounds of a connection. A session's buffers are the library's, two of 2 MiB at most, so there is
// one session at a time.
const (
	shakeTime   = 10 * time.Second
	sshIdleTime = 30 * time.Second // without a session
	maxSessions = 64               // one after another
	sshVersion  = "SSH-2.0-agentjail"
)

// sshServer serves the jail's git.
type sshServer struct {
	host ssh.Signer
	keys map[string][]*sshKey // by NAME:PORT
}

// sshKey is a key.
type sshKey struct {
	name         string
	user         string
	repositories []string
	signer       ssh.Signer
	hostKeys     [][]byte
}

// newSSH is ssh for a helper with a key that the jail does not have. It is the server for the
// jail's git, which needs no key, and the client of the server outside, whose host key is in
// policy. Only git's three server programs can be run: no shell, no terminal, no forwarding of
// ports or agents, no other subsystem, no variable but GIT_PROTOCOL.
//
// It parses the key by which the jail recognises the helper, and the keys that the jail does not
// have. It overwrites their texts.
func newSSH(hostKey []byte, keys []egress.SSHKey) (func(*egress.SSHConn), error) {
	s := &sshServer{keys: map[string][]*sshKey{}}
	var err error
	if s.host, err = ssh.ParsePrivateKey(hostKey); err != nil {
		return nil, errors.New("the jail's key for ssh cannot be read")
	}
	clear(hostKey)
	for _, k := range keys {
		signer, err := ssh.ParsePrivateKey(k.Private)
		clear(k.Private)
		if missing := new(ssh.PassphraseMissingError); errors.As(err, &missing) {
			return nil, fmt.Errorf("credentials.%s: the key has a passphrase, which cannot be entered (remedy: a key of its own without one, by ssh-keygen -N '', in a file that root alone reads)", k.Name)
		}
		if err != nil { // the error's text may contain a part of the key
			return nil, fmt.Errorf("credentials.%s: not a private key that ssh can use (remedy: one that ssh-keygen has made, of type ed25519, ecdsa or rsa)", k.Name)
		}
		for at, own := range k.HostKeys {
			s.keys[at] = append(s.keys[at], &sshKey{k.Name, k.User, k.Repositories, signer, own})
		}
	}
	return s.serve, nil
}

// serve serves a connection of the jail until it ends.
func (s *sshServer) serve(c *egress.SSHConn) {
	conf := &ssh.ServerConfig{NoClientAuth: true, ServerVersion: sshVersion, MaxAuthTries: 1}
	conf.NoClientAuthCallback = func(m ssh.ConnMetadata) (*ssh.Permissions, error) {
		if slices.ContainsFunc(s.keys[c.Endpoint], func(k *sshKey) bool { return k.user == m.User() }) {
			return nil, nil
		}
		err := fmt.Errorf("user %.64q at %s has no key in policy", m.User(), c.Endpoint)
		c.Refused(err)
		return nil, &ssh.BannerError{Err: err, Message: sshRefusal(err, "the user of credentials.NAME.ssh")}
	}
	conf.AddHostKey(s.host)
	if c.Client.SetDeadline(time.Now().Add(shakeTime)) != nil {
		return
	}
	conn, channels, requests, err := ssh.NewServerConn(c.Client, conf)
	if err != nil {
		return
	}
	defer conn.Close()
	go ssh.DiscardRequests(requests) // forwarding of ports begins with one: each is denied
	j := &sshConn{s: s, c: c, user: conn.User()}
	free := make(chan struct{}, 1)
	for n := 0; ; {
		// The connection has a deadline only while there is no session.
		if len(free) == 0 && c.Client.SetDeadline(time.Now().Add(sshIdleTime)) != nil {
			return
		}
		request, ok := <-channels
		if !ok {
			return
		}
		if kind := request.ChannelType(); kind != "session" {
			c.Refused(fmt.Errorf("ssh: a channel of type %.64q", kind))
			_ = request.Reject(ssh.Prohibited, "refused: this key is for git alone")
			continue
		}
		if n++; n > maxSessions {
			_ = request.Reject(ssh.ResourceShortage, "refused: too many sessions of one connection")
			return
		}
		select {
		case free <- struct{}{}:
		default:
			_ = request.Reject(ssh.ResourceShortage, "refused: another session of this connection is open")
			continue
		}
		channel, wants, err := request.Accept()
		if err != nil {
			return
		}
		_ = c.Client.SetDeadline(time.Now().Add(sshIdleTime)) // until it begins
		go func() {
			j.session(channel, wants)
			_ = c.Client.SetDeadline(time.Now().Add(sshIdleTime))
			<-free
			channel.Close() // last: the client begins its next session when it sees that
		}()
	}
}

// sshRefusal returns the message for the user.
func sshRefusal(err error, remedy string) string {
	return fmt.Sprintf("agentjail: refused: %v (remedy: %s)\r\n", err, remedy)
}

// sshConn is one connection of the jail.
type sshConn struct {
	s    *sshServer
	c    *egress.SSHConn
	user string
}

// session serves one session.
func (j *sshConn) session(channel ssh.Channel, wants <-chan *ssh.Request) {
	protocol := ""
	for r := range wants {
		switch r.Type {
		case "env":
			var v struct{ Name, Value string }
			ok := ssh.Unmarshal(r.Payload, &v) == nil && v.Name == "GIT_PROTOCOL" && plainValue(v.Value)
			if ok {
				protocol = v.Value
			}
			_ = r.Reply(ok, nil)
		case "exec":
			var v struct{ Command string }
			if ssh.Unmarshal(r.Payload, &v) != nil {
				return
			}
			_ = r.Reply(true, nil)
			j.run(channel, wants, v.Command, protocol)
			return
		case "shell":
			_ = r.Reply(true, nil)
			j.refuse(channel, errors.New("ssh: a shell"))
			return
		default: // terminals, subsystems, agents, X11
			j.c.Refused(fmt.Errorf("ssh: a request of type %.64q", r.Type))
			_ = r.Reply(false, nil)
		}
	}
}

// plainValue reports whether a value of GIT_PROTOCOL is well formed.
func plainValue(v string) bool {
	return v != "" && len(v) <= 64 && strings.Trim(v, "abcdefghijklmnopqrstuvwxyz0123456789:=.-") == ""
}

// refuse ends a session that is not allowed.
func (j *sshConn) refuse(channel ssh.Channel, err error) {
	j.c.Refused(err)
	_, _ = io.WriteString(channel.Stderr(), sshRefusal(err, "with this key git clones, fetches and pushes, and nothing else"))
	sendExit(channel, 1)
}

// sendExit sends a session's exit status.
func sendExit(channel ssh.Channel, status uint32) {
	_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
}

// key returns the key for a repository, or nil.
func (j *sshConn) key(path string) *sshKey {
	for _, k := range j.s.keys[j.c.Endpoint] {
		if k.user == j.user && k.serves(path) {
			return k
		}
	}
	return nil
}

// serves reports whether a key is for a repository.
func (k *sshKey) serves(path string) bool {
	return len(k.repositories) == 0 || slices.ContainsFunc(k.repositories, func(r string) bool {
		below, all := strings.CutSuffix(r, "*")
		return path == r || all && strings.HasPrefix(path, below)
	})
}

// run runs one of git's programs on the server.
func (j *sshConn) run(channel ssh.Channel, wants <-chan *ssh.Request, command, protocol string) {
	program, path, err := parseCommand(command)
	if err != nil {
		j.refuse(channel, err)
		return
	}
	k := j.key(path)
	if k == nil {
		j.refuse(channel, fmt.Errorf("ssh: no key is for repository %q", path))
		return
	}
	up := j.c.Dial()
	if up == nil {
		return // the refusal has been sent
	}
	defer up.Close()
	client, err := k.dial(up, j.c.Endpoint)
	if err != nil {
		j.c.Refused(err)
		_, _ = io.WriteString(channel.Stderr(), fmt.Sprintf("agentjail: %v\r\n", err))
		sendExit(channel, 255)
		return
	}
	defer client.Close()
	if j.c.Client.SetDeadline(time.Time{}) != nil {
		return
	}
	j.c.Allowed(fmt.Sprintf("%s %q, credentials.%s", program, path, k.name))
	go func() { // until the jail closes the session
		for r := range wants {
			_ = r.Reply(false, nil)
		}
		client.Close()
	}()
	status, err := j.copy(channel, client, program+" '"+path+"'", protocol)
	if err != nil {
		_, _ = io.WriteString(channel.Stderr(), "agentjail: the server has ended the connection\r\n")
		status = 255
	}
	sendExit(channel, status)
}

// dial connects to the server and checks the server's key.
func (k *sshKey) dial(up net.Conn, endpoint string) (*ssh.Client, error) {
	conf := &ssh.ClientConfig{
		User: k.user, Auth: []ssh.AuthMethod{ssh.PublicKeys(k.signer)}, HostKeyAlgorithms: algorithms(k.hostKeys),
		HostKeyCallback: func(_ string, _ net.Addr, got ssh.PublicKey) error {
			if slices.ContainsFunc(k.hostKeys, func(own []byte) bool { return string(own) == string(got.Marshal()) }) {
				return nil
			}
			return errors.New("the server's key is not one of credentials." + k.name + ".known_hosts")
		},
	}
	if err := up.SetDeadline(time.Now().Add(shakeTime)); err != nil {
		return nil, err
	}
	conn, channels, requests, err := ssh.NewClientConn(up, endpoint, conf)
	if err != nil {
		return nil, fmt.Errorf("ssh with %s: %q", endpoint, err.Error())
	}
	client := ssh.NewClient(conn, channels, requests) // what the server requests is denied
	if err := up.SetDeadline(time.Time{}); err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
}

// algorithms returns the host key algorithms for a list of keys.
func algorithms(keys [][]byte) []string {
	var out []string
	for _, k := range keys {
		p, err := ssh.ParsePublicKey(k)
		switch {
		case err != nil:
		case p.Type() == ssh.KeyAlgoRSA:
			out = append(out, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		default:
			out = append(out, p.Type())
		}
	}
	if len(out) == 0 {
		return []string{ssh.KeyAlgoED25519} // none of them will be the server's
	}
	return slices.Compact(out)
}

// copy runs a command on the server and copies both ways.
func (j *sshConn) copy(channel ssh.Channel, client *ssh.Client, command, protocol string) (status uint32, err error) {
	s, err := client.NewSession()
	if err != nil {
		return 0, err
	}
	defer s.Close()
	in, err := s.StdinPipe()
	if err != nil {
		return 0, err
	}
	s.Stdout, s.Stderr = counted{channel, j.c.Got}, counted{channel.Stderr(), j.c.Got}
	if protocol != "" {
		_ = s.Setenv("GIT_PROTOCOL", protocol) // a server need not take it
	}
	if err := s.Start(command); err != nil {
		return 0, err
	}
	go func() {
		_, _ = io.Copy(counted{in, j.c.Sent}, channel)
		_ = in.Close()
	}()
	err = s.Wait()
	if ended := new(ssh.ExitError); errors.As(err, &ended) {
		return uint32(ended.ExitStatus()), nil
	}
	return 0, err
}

// counted counts the bytes that are written.
type counted struct {
	io.Writer
	count func(int)
}

// Write writes and counts.
func (c counted) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.count(n)
	return n, err
}
