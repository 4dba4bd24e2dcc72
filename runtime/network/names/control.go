package names

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/network/helper"
	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/spec/netrules"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/report"
)

// Bounds of the time in which a helper handles a request, and reports its rules: the helper may
// have to start first. inspect tries four times before it reports a jail as broken.
const (
	controlTime = 10 * time.Second
	stateTime   = 3 * time.Second
)

// backlog is the control socket's: requests are served one after the other.
const backlog = 4

// controlAddr returns the control socket's address relative to an open directory: the path itself
// may be longer than a socket address can be.
func controlAddr(dir *os.File) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), helperproto.ControlSocket)
}

// listenControl makes the control socket in the jail's directory. Only root can connect.
func listenControl(dir string) (*os.File, error) {
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if err := os.Remove(filepath.Join(dir, helperproto.ControlSocket)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("making the control socket: %w", err)
	}
	// The socket's mode, which is set first, becomes the file's.
	for _, f := range []func() error{
		func() error { return unix.Fchmod(fd, 0o600) },
		func() error { return unix.Bind(fd, &unix.SockaddrUnix{Name: controlAddr(d)}) },
		func() error { return unix.Listen(fd, backlog) },
	} {
		if err := f(); err != nil {
			unix.Close(fd)
			return nil, fmt.Errorf("making the control socket: %w", err)
		}
	}
	return os.NewFile(uintptr(fd), helperproto.ControlSocket), nil
}

// dialControl connects to a jail's helper.
func dialControl(dir string) (*net.UnixConn, error) {
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return net.DialUnix("unix", nil, &net.UnixAddr{Name: controlAddr(d), Net: "unix"})
}

// send sends a request to a jail's helper and returns the connection, from which the answer can be
// read until patience has passed. After that the helper ignores the request.
func send(dir string, r helperproto.Request, patience time.Duration) (*net.UnixConn, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if len(data) > helperproto.MaxRequest {
		return nil, fmt.Errorf("the rules have more than %d bytes", helperproto.MaxRequest)
	}
	c, err := dialControl(dir)
	if err != nil {
		return nil, err
	}
	err = c.SetDeadline(time.Now().Add(patience))
	if err == nil {
		_, err = c.Write(data)
	}
	if err == nil {
		err = c.CloseWrite()
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// request sends a request to a jail's helper and returns the answer.
func request(dir string, r helperproto.Request, patience time.Duration) (helperproto.Answer, error) {
	var a helperproto.Answer
	c, err := send(dir, r, patience)
	if err != nil {
		return a, err
	}
	defer c.Close()
	text, err := atomicfile.ReadAll(c, maxAnswer)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return a, fmt.Errorf("the answer: %w", err)
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

const maxAnswer = 64 << 10 // bytes

// Change applies new rules in a running jail. The helper of a jail that is created but not started
// has no rules yet: start sends it the rules on record.
func (Mode) Change(j network.Jail, r network.Rules) (network.Changed, error) {
	h, err := helper.Load(j.Dir)
	if err != nil {
		return network.Changed{}, err
	}
	if !serves(h) {
		if j.Started {
			err = network.ErrNoHelper
		}
		return network.Changed{}, err
	}
	a, err := request(j.Dir, helperproto.Request{Verb: helperproto.Rules, Allow: r.Allow, Deny: r.Deny}, controlTime)
	if err != nil {
		return network.Changed{}, fmt.Errorf("sending the rules to the helper, process %d, which may still have the former rules: %w (remedy: agentjail network restart --force, then reload)", h.Pid, err)
	}
	return network.Changed{Ended: a.Ended, Unserved: a.Unserved}, nil
}

// applied compares a helper's rules with those on record. It returns the fault, or "".
func applied(pid int, dir string, r network.Rules) string {
	set, err := netrules.Parse(r.Allow, r.Deny, nil)
	if err != nil {
		return fmt.Sprintf("the rules on record: %v", err)
	}
	a, err := request(dir, helperproto.Request{Verb: helperproto.State}, stateTime)
	switch {
	case err != nil:
		return fmt.Sprintf("process %d does not report its rules: %v%s (remedy: agentjail network restart --force)", pid, err, stderrSuffix(dir))
	case a.Digest != set.Digest():
		return fmt.Sprintf("the rules on record are not applied: process %d has others (remedy: agentjail network reload)", pid)
	}
	return ""
}

// Restart starts a new helper for a running jail whose helper has exited. With force it ends a
// running helper first.
func (Mode) Restart(j network.Jail, force bool) ([]report.Change, error) {
	h, err := helper.Load(j.Dir)
	if err != nil {
		return nil, err
	}
	// A helper without an answer was left by a start that was killed.
	if serves(h) && !force {
		return nil, fmt.Errorf("its helper, process %d, has not ended (remedy: --force, which ends it, and with it the jail's connections)", h.Pid)
	}
	if !j.Started {
		return nil, errors.New("the jail is not started: start also starts a new helper if the helper has exited")
	}
	if err := helper.End(j.Dir); err != nil {
		return nil, err
	}
	s := helperStart{jail: j}
	wait, err := s.serve(func() error { return nil }) // it is sealed
	if err == nil && wait != nil {
		err = wait()
	}
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("programs of the jail have taken the helper's ports meanwhile, or all of them: %w (remedy: end those programs, or start the jail anew)", err)
	}
	if err != nil {
		return nil, err
	}
	return reportFallback(s.arrival), nil
}
