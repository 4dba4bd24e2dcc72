package egress

import (
	"errors"
	"net"
	"strconv"
	"time"

	"agentjail.dev/runtime/network/names/decisions"
	"agentjail.dev/runtime/network/names/internal/helperproto"
)

const (
	// maxSSH bounds the ssh connections that are terminated at once; each has buffers of some MiB
	// if a side is slow.
	maxSSH = 12
	// sshTime is how long a connection waits for its turn: a program may fetch many repositories at
	// once.
	sshTime = time.Minute
)

// readSSHKeys reads the keys for ssh.
func (c *credentials) readSSHKeys(w *helperproto.Work, list []helperproto.Credential) error {
	if len(list) == 0 {
		return nil
	}
	if c.protocols.SSH == nil || w.HostKey.Empty() {
		return errors.New("this program has no ssh, or the jail has no host key for it (remedy: start the jail anew)")
	}
	c.endpoints = map[string]string{}
	var keys []SSHKey
	for i := range list {
		k := &list[i]
		keys = append(keys, SSHKey{
			Name: k.Name, User: k.SSH.User, Repositories: k.SSH.Repositories, HostKeys: k.SSH.HostKeys,
			Private: k.Value.Reveal(),
		})
		for at := range k.SSH.HostKeys {
			if c.endpoints[at] != "" {
				c.endpoints[at] += " "
			}
			c.endpoints[at] += k.Name
		}
	}
	var err error
	c.ssh, err = c.protocols.SSH(w.HostKey.Reveal(), keys)
	return err
}

// endpoint returns the name and port of a connection.
func (f *flow) endpoint() string { return net.JoinHostPort(f.name, strconv.Itoa(int(f.port))) }

// ssh serves a connection for git, with a key that the jail does not have.
func (f *flow) ssh() {
	c := f.s.credentials
	if !f.place(c.sessions, sshTime) {
		return
	}
	defer func() { <-c.sessions }()
	f.credential = c.endpoints[f.endpoint()]
	c.ssh(&SSHConn{
		Client: f.client, Endpoint: f.endpoint(),
		Dial: func() net.Conn {
			time.Sleep(f.s.rate.take()) // one connection has many
			if up := f.dial(); up != nil {
				return outside{up}
			}
			return nil
		},
		Refused: f.refuseFor,
		Allowed: func(what string) {
			e := f.event(decisions.Connect, allowed)
			e.Reason = what
			f.s.events.add(e)
		},
		Sent: func(n int) { f.sent.Add(int64(n)) }, Got: func(n int) { f.got.Add(int64(n)) },
	})
	f.ended()
}
