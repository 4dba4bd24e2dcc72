package names

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/network/helper"
	"agentjail.dev/runtime/network/names/helperproto"
	"agentjail.dev/runtime/spec/netrules"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/report"
)

// How long a helper may take to follow a request, and to say by which rules it goes: it may have to
// start first. inspect asks four times before it reports a jail as broken.
const (
	controlTime = 10 * time.Second
	stateTime   = 3 * time.Second
)

// backlog is of the control socket's: requests are served one after the other.
const backlog = 4

// controlAddr is the control socket's address by way of an open directory: the path itself may be
// longer than an address can be.
func controlAddr(dir *os.File) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), helperproto.ControlSocket)
}

// listenControl makes the control socket in the jail's directory, for root alone.
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
	// The file has the mode that the socket has before it.
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
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: controlAddr(d), Net: "unix"})
	if errors.Is(err, os.ErrNotExist) {
		return nil, errors.New("its helper is an earlier release's, which takes no requests (remedy: start the jail anew)")
	}
	return c, err
}

// request sends a request to a jail's helper, which has some time for it. One that comes late does
// not follow it any more.
func request(dir string, r helperproto.Request, patience time.Duration) (helperproto.Answer, error) {
	var a helperproto.Answer
	data, err := json.Marshal(r)
	if err != nil {
		return a, err
	}
	if len(data) > helperproto.MaxRequest {
		return a, fmt.Errorf("the rules have more than %d bytes", helperproto.MaxRequest)
	}
	c, err := dialControl(dir)
	if err != nil {
		return a, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return a, err
	}
	if _, err := c.Write(data); err != nil {
		return a, err
	}
	if err := c.CloseWrite(); err != nil {
		return a, err
	}
	text, err := io.ReadAll(io.LimitReader(c, maxAnswer))
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

// Change puts other rules in force in a running jail. The helper of one that was created and not
// started has no rules yet, and is told what is on record then.
func (Mode) Change(j network.Jail, r network.Rules) (network.Changed, error) {
	h, err := helper.Load(j.Dir)
	if err != nil {
		return network.Changed{}, err
	}
	switch serves := h != nil && h.Answer != "" && h.Alive() && confined(h.Pid) == ""; {
	case !serves && !j.Started:
		return network.Changed{}, nil
	case !serves:
		return network.Changed{}, network.ErrNoHelper
	}
	a, err := request(j.Dir, helperproto.Request{Verb: helperproto.Rules, Allow: r.Allow, Deny: r.Deny}, controlTime)
	if err != nil {
		return network.Changed{}, fmt.Errorf("telling the helper, process %d, which may have the former rules still: %w (remedy: agentjail network restart --force, then reload)", h.Pid, err)
	}
	return network.Changed{Ended: a.Ended, Unserved: a.Unserved}, nil
}

// applied reports what is wrong with the rules that a helper goes by, held against those on record;
// "" is nothing.
func applied(pid int, dir string, r network.Rules) string {
	set, err := netrules.Parse(r.Allow, r.Deny, nil)
	if err != nil {
		return fmt.Sprintf("the rules on record: %v", err)
	}
	a, err := request(dir, helperproto.Request{Verb: helperproto.State}, stateTime)
	switch {
	case err != nil:
		return fmt.Sprintf("process %d does not say by which rules it goes: %v%s (remedy: agentjail network restart --force)", pid, err, stderrSuffix(dir))
	case a.Digest != set.Digest():
		return fmt.Sprintf("the rules on record are not applied: process %d goes by others (remedy: agentjail network reload)", pid)
	}
	return ""
}

// Restart starts a new helper for a running jail whose helper has ended, or is to be ended by
// force.
func (Mode) Restart(j network.Jail, force bool) ([]report.Change, error) {
	h, err := helper.Load(j.Dir)
	if err != nil {
		return nil, err
	}
	// One without an answer was left by a start that was killed.
	if h != nil && h.Answer != "" && h.Alive() && confined(h.Pid) == "" && !force {
		return nil, fmt.Errorf("its helper, process %d, has not ended (remedy: --force, which ends it, and with it the jail's connections)", h.Pid)
	}
	if !j.Started {
		return nil, errors.New("it was not started yet, which starts its helper anew where that has ended")
	}
	if err := helper.End(j.Dir); err != nil {
		return nil, err
	}
	s := helperStart{jail: j}
	got, serves, err := s.startServing(func() error { return nil }) // it is sealed
	if err == nil {
		err = serves()
	}
	if err != nil && strings.Contains(err.Error(), unix.EADDRINUSE.Error()) && !strings.Contains(err.Error(), helperproto.Publishing) {
		return nil, fmt.Errorf("programs of the jail have taken the helper's ports meanwhile, or all of them: %w (remedy: end those programs, or start the jail anew)", err)
	}
	if err != nil {
		return nil, err
	}
	return reportFallback(got), nil
}
