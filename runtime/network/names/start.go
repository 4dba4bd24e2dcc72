package names

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/internal/crash"
	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/network/helper"
	"agentjail.dev/runtime/network/names/activator"
	"agentjail.dev/runtime/network/names/callfilters"
	"agentjail.dev/runtime/network/names/decisions"
	"agentjail.dev/runtime/network/names/helperproto"
	"agentjail.dev/runtime/network/names/jailsock"
	"agentjail.dev/runtime/spec/credential"
	"agentjail.dev/runtime/spec/netrules"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/publish"
)

const firstFD = helperproto.LogFD

// launch starts a helper, in the network namespace that it connects from, and returns when it waits
// for its work.
func launch(j network.Jail) (*helper.Record, error) {
	r, err := j.Rules()
	if err != nil {
		return nil, fmt.Errorf("the jail's rules: %w", err)
	}
	from, err := whereFrom(j)
	if err != nil {
		return nil, err
	}
	if from != nil {
		defer from.Close()
	}
	var files [helperproto.LastFD - firstFD + 1]*os.File
	defer func() {
		for _, f := range files {
			if f != nil {
				f.Close()
			}
		}
	}()
	log, err := decisions.Open(j.Dir)
	if err != nil {
		return nil, err
	}
	files[helperproto.LogFD-firstFD], files[helperproto.OtherLogFD-firstFD] = log[0], log[1]
	if files[helperproto.GivenFD-firstFD], err = openGiven(j.Dir); err != nil {
		return nil, err
	}
	if files[helperproto.RootFD-firstFD], err = emptyRoot(j.Dir); err != nil {
		return nil, err
	}
	if files[helperproto.ControlFD-firstFD], err = listenControl(j.Dir); err != nil {
		return nil, err
	}
	setup := helperproto.Setup{
		UID: j.HelperID, GID: j.HelperID, Owner: uint32(os.Geteuid()), Publishes: len(r.Publish) > 0, Authorities: len(r.Credentials) > 0,
	}
	o := helper.Options{
		Dir: j.Dir, Name: program(j.Dir), Beside: j.InitPid, Group: "agentjail-egress-" + j.Key, Files: files[:], Netns: from,
	}
	if activatable(j.Dir, r) {
		if h, err := activate(o, setup); err == nil {
			return h, nil
		}
		// A host may have nothing executed that is in memory: the helper itself can always be
		// started.
		if err := helper.End(j.Dir); err != nil {
			return nil, err
		}
		o.Files[helperproto.ProgramFD-firstFD] = nil
	}
	how, err := json.Marshal(setup)
	if err != nil {
		return nil, err
	}
	return begin(o, how)
}

// findHelper starts a helper and returns when it is ready.
func begin(o helper.Options, how []byte) (*helper.Record, error) {
	p, err := helper.Begin(o)
	if err != nil {
		return nil, err
	}
	crash.Point("create.helping")
	h, err := p.Ready(how)
	crash.Point("create.helped")
	return h, err
}

// maxHeld bounds the rules' text of a helper that an activator starts, in bytes: the whole work has
// to fit into a socket's buffer, since nobody reads it (net.core.wmem_default, 208 KiB).
const maxHeld = 16 << 10

// activatable reports whether a helper may be started by an activator, when the jail first uses its
// network: one that serves the jail alone, and whose work cannot fail by what is outside.
func activatable(dir string, r network.Rules) bool {
	return len(r.Publish)+len(r.Credentials) == 0 && r.Size() <= maxHeld && program(dir) == helperproto.Program
}

// activate starts an activator in the helper's place.
func activate(o helper.Options, setup helperproto.Setup) (h *helper.Record, err error) {
	path, err := helper.Path(o.Name)
	if err != nil {
		return nil, err
	}
	if o.Files[helperproto.ProgramFD-firstFD], err = os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0); err != nil {
		return nil, err
	}
	if o.Program, err = activator.Program(); err != nil {
		return nil, err
	}
	defer o.Program.Close()
	setup.Activated = true
	how, err := json.Marshal(setup)
	if err != nil {
		return nil, err
	}
	if how, err = activator.Setup(setup.UID, setup.GID, callfilters.Activation(), how); err != nil {
		return nil, err
	}
	return begin(o, how)
}

// program is the helper's that can do all that a jail may need of it.
func program(dir string) string {
	for _, name := range []string{credential.AuthorityFile, credential.HostKeyFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return helperproto.KeysProgram
		}
	}
	return helperproto.Program
}

// helperStart is a jail's helper at start, while the network is sealed.
type helperStart struct {
	jail    network.Jail
	helper  *helper.Record
	work    *helperproto.Work
	netns   *os.File          // the jail's
	sockets *jailsock.Sockets // ours in it
	conn    *net.UnixConn     // to the helper
}

// startServing has a helper serve the jail's network, which seal seals. The program of the jail
// waits for it: what does not wait for each other is done at once. From when it returns, what the
// jail asks arrives at the helper's sockets, and by serves the helper has answered that it has
// begun: the caller waits for that when it pleases. Unless an error is returned, it calls serves,
// once.
func (s *helperStart) startServing(seal func() error) (got helperproto.Arrival, serves func() error, err error) {
	err = thread.Together(seal, s.findHelper)
	if err == nil {
		j := s.jail
		err = thread.Together(func() error { return s.openSockets(j) }, s.connect)
	}
	crash.Point("start.helping")
	if err == nil {
		got, err = s.sendAssignment()
	}
	s.closeFiles()
	serves = func() error { return s.awaitAck(got) }
	if err == nil && s.canFail() {
		if err = serves(); err == nil {
			serves = func() error { return nil }
		}
		return got, serves, err
	}
	if err != nil {
		err = errors.Join(err, s.endHelper())
	}
	return got, serves, err
}

// canFail reports whether the helper's work can fail by what is outside, such as a port of the
// host's that another program has: then the jail is not started before it serves. Rules that it
// merely parses, this process has parsed.
func (s *helperStart) canFail() bool { return s.work.Publishes() || len(s.work.Credentials) > 0 }

// awaitAck waits for the helper's answer, and records that it serves.
func (s *helperStart) awaitAck(got helperproto.Arrival) error {
	err := readAck(s.conn, s.jail.Dir)
	if err != nil {
		err = fmt.Errorf("giving the helper, process %d, its work: %w", s.helper.Pid, err)
	}
	crash.Point("start.served")
	var text []byte
	if err == nil {
		text, err = json.Marshal(got)
	}
	if err == nil {
		err = s.helper.Serves(s.jail.Dir, string(text))
	}
	if err != nil {
		return errors.Join(err, s.endHelper())
	}
	s.conn.Close()
	return nil
}

// endHelper ends the helper after an error.
func (s *helperStart) endHelper() error {
	if s.conn != nil {
		s.conn.Close()
	}
	return helper.End(s.jail.Dir)
}

// closeFiles closes what is ours of the jail's, and overwrites the credentials that the helper was
// told.
func (s *helperStart) closeFiles() {
	if s.work != nil {
		s.work.Wipe()
	}
	if s.netns != nil {
		s.netns.Close()
	}
	if s.sockets != nil {
		s.sockets.Close()
	}
}

// findHelper finds the helper, and starts another one where that which was launched with the jail
// does not wait any more, or is not where it should be: one that was told by a start that was
// killed, for one.
func (s *helperStart) findHelper() (err error) {
	if s.jail, err = located(s.jail); err != nil {
		return err
	}
	// Looked at again: the helper keeps a namespace that the engine has removed.
	from, err := outside(s.jail)
	if err != nil {
		return err
	}
	if from != nil {
		from.Close()
	}
	waits, err := s.isIdle()
	if err != nil || waits {
		return err
	}
	return s.restart()
}

// restart starts a helper in place of one that there may be.
func (s *helperStart) restart() (err error) {
	if err := helper.End(s.jail.Dir); err != nil {
		return err
	}
	s.helper, err = launch(s.jail)
	return err
}

// isIdle reports whether the helper can be given its work.
func (s *helperStart) isIdle() (bool, error) {
	if !s.helper.Waits() || isOutside(s.helper.Pid, s.jail.Decision) != "" {
		return false, nil
	}
	r, err := s.jail.Rules()
	if err != nil {
		return false, fmt.Errorf("the jail's rules: %w", err)
	}
	return len(r.Publish) > 0 || confined(s.helper.Pid) == "", nil // with published ports it confines itself later
}

// openSockets makes the helper's sockets in the jail's network namespace, which is sealed, and
// where no former helper has any.
func (s *helperStart) openSockets(j network.Jail) (err error) {
	if s.netns, err = j.Open(); err != nil {
		return err
	}
	s.sockets, err = jailsock.Open(s.netns, func() ([]uint16, error) {
		r, err := j.Rules()
		if err != nil {
			return nil, fmt.Errorf("the jail's rules: %w", err)
		}
		set, err := netrules.Parse(r.Allow, r.Deny, nil)
		if err != nil {
			return nil, err
		}
		return jailsock.Ports(set), nil
	})
	return err
}

// connect finds out what to tell the helper, and connects to it. That it is told is on record
// before it is.
func (s *helperStart) connect() error {
	tell := func() error { return s.helper.Tell(s.jail.Dir) }
	if s.jail.Decision.Hook == nil {
		return thread.Together(tell, s.buildAssignment)
	}
	// Before the engine is asked too, which can be only once of one namespace.
	if err := tell(); err != nil {
		return err
	}
	if err := s.requestEngineNetwork(); err != nil {
		return err
	}
	return s.buildAssignment()
}

func (s *helperStart) buildAssignment() (err error) {
	if s.work, err = buildWork(s.jail); err != nil {
		return err
	}
	if s.conn, err = dialControl(s.jail.Dir); err != nil {
		return fmt.Errorf("connecting to the helper, process %d: %w", s.helper.Pid, err)
	}
	return nil
}

// sendAssignment gives the helper its sockets in the jail with its work.
func (s *helperStart) sendAssignment() (got helperproto.Arrival, err error) {
	j := s.jail
	pidfd, err := unix.PidfdOpen(j.InitPid, 0)
	if err != nil {
		return got, fmt.Errorf("opening process %d: %w", j.InitPid, err)
	}
	defer unix.Close(pidfd)
	fds, what, err := s.sockets.Hand()
	if err != nil {
		return got, err
	}
	s.work.Sockets = what
	fds = append([]int{pidfd}, fds...)
	if s.work.Publishes() {
		fds = append(fds, int(s.netns.Fd()))
	}
	if err := s.writeAssignment(fds); err != nil {
		return got, fmt.Errorf("giving the helper, process %d, its work: %w", s.helper.Pid, err)
	}
	return what.Taken, nil
}

// writeAssignment gives the helper its work, with descriptors.
func (s *helperStart) writeAssignment(fds []int) error {
	data, err := s.work.Encode()
	if err != nil {
		return err
	}
	defer clear(data) // credentials are in it
	if len(data) > helperproto.MaxWork {
		return fmt.Errorf("the rules have more than %d bytes", helperproto.MaxWork)
	}
	if err := s.conn.SetDeadline(time.Now().Add(controlTime)); err != nil {
		return err
	}
	// The descriptors come with what is sent of it at once.
	n, _, err := s.conn.WriteMsgUnix(data, unix.UnixRights(fds...), nil)
	if err != nil {
		return err
	}
	if _, err := s.conn.Write(data[n:]); err != nil {
		return err
	}
	return s.conn.CloseWrite()
}

// stderrSuffix is what a jail's helper has said to nobody, as the end of a sentence.
func stderrSuffix(dir string) string {
	if text := helper.Said(dir); text != "" {
		return ", and said " + text
	}
	return ""
}

// readAck reads the helper's answer, and no end of file behind it: an activator leaves its work
// unread, so that its end resets the connection.
func readAck(c *net.UnixConn, dir string) error {
	var a helperproto.Answer
	err := json.NewDecoder(io.LimitReader(c, maxAnswer)).Decode(&a)
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("it has ended" + stderrSuffix(dir))
	case err != nil:
		return fmt.Errorf("the answer: %w", err)
	case a.Error != "":
		return errors.New(a.Error)
	}
	return nil
}

// buildWork is what the helper is told, but for its sockets.
func buildWork(j network.Jail) (*helperproto.Work, error) {
	r, err := j.Rules()
	if err != nil {
		return nil, fmt.Errorf("the jail's rules: %w", err)
	}
	w := &helperproto.Work{Allow: r.Allow, Deny: r.Deny, Pinned: r.Pinned, LogMax: logMax}
	if err := goOn(w, j.Dir); err != nil {
		return nil, err
	}
	if w.Servers, err = serversOf(j.Decision, r); err != nil {
		return nil, err
	}
	if w.Publish, w.Engine, err = publish.List(r.Publish); err != nil {
		return nil, err
	}
	if j.Decision.Outside == "" {
		w.Engine = nil // where it is, is the host's
	}
	if w.Host, err = hosts(j.Decision); err != nil {
		return nil, err
	}
	if w.Ports, err = ports(j); err != nil {
		return nil, err
	}
	if w.Credentials, err = fetch(r); err != nil {
		return nil, err
	}
	if err := own(j.Dir, w); err != nil {
		w.Wipe()
		return nil, err
	}
	return w, nil
}
