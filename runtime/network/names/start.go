package names

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/internal/crash"
	"agentjail.dev/runtime/kernel/programs"
	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/network/helper"
	"agentjail.dev/runtime/network/names/decisions"
	"agentjail.dev/runtime/network/names/internal/activator"
	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/network/names/internal/jailsock"
	"agentjail.dev/runtime/spec/credential"
	"agentjail.dev/runtime/spec/netrules"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/publish"
)

const firstFD = helperproto.LogFD

// launch starts a helper in the network namespace that it connects from, and returns when the
// helper waits for its work.
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
	if files[helperproto.ReservedFD-firstFD], err = openReserved(j.Dir); err != nil {
		return nil, err
	}
	if files[helperproto.RootFD-firstFD], err = emptyRoot(j.Dir); err != nil {
		return nil, err
	}
	if files[helperproto.ControlFD-firstFD], err = listenControl(j.Dir); err != nil {
		return nil, err
	}
	setup := helperproto.Setup{
		UID: j.HelperID, GID: j.HelperID, Owner: uint32(os.Geteuid()), Publishes: len(r.Publish) > 0,
		Authorities: len(r.Credentials) > 0,
	}
	o := helper.Options{
		Dir: j.Dir, Name: program(j.Dir), Beside: j.InitPid, Group: "agentjail-egress-" + j.Key, Files: files[:], Netns: from,
	}
	if activatable(j.Dir, r) {
		if h, err := activate(o, setup); err == nil {
			return h, nil
		}
		// A host may forbid to execute a file in memory. The helper itself can always be started.
		if err := helper.End(j.Dir); err != nil {
			return nil, err
		}
		o.Files[helperproto.ProgramFD-firstFD] = nil
	}
	how, err := json.Marshal(setup)
	if err != nil {
		return nil, err
	}
	return helper.Start(o, how)
}

// otherPorts are the ports at which a helper of the way Listeners listens for names without a rule.
var otherPorts = []uint16{443, 80}

// maxHeld bounds the rules' text of a helper that an activator starts, in bytes. The whole work has
// to fit into a socket's buffer, since the activator does not read it (net.core.wmem_default, 208
// KiB).
const maxHeld = 16 << 10

// activatable reports whether an activator may start the helper when the jail first uses its
// network. Such a helper serves only the jail, and its work cannot fail for reasons outside.
func activatable(dir string, r network.Rules) bool {
	return len(r.Publish)+len(r.Credentials) == 0 && r.Size() <= maxHeld && program(dir) == helperproto.Program
}

// activate starts an activator in the helper's place.
func activate(o helper.Options, setup helperproto.Setup) (h *helper.Record, err error) {
	path, err := programs.Path(o.Name)
	if err != nil {
		return nil, err
	}
	if o.Files[helperproto.ProgramFD-firstFD], err = os.Open(path); err != nil { // the caller closes it
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
	if how, err = activator.Setup(setup.UID, setup.GID, helperproto.ActivationFilter(), how); err != nil {
		return nil, err
	}
	return helper.Start(o, how)
}

// program returns the name of the helper program with all functions that the jail may need.
func program(dir string) string {
	for _, name := range []string{credential.AuthorityFile, credential.HostKeyFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return credential.IssueProgram // it also terminates TLS, HTTP/2 and ssh for a credential
		}
	}
	return helperproto.Program
}

// helperStart starts the service of a jail's helper while the network is sealed.
type helperStart struct {
	jail    network.Jail
	helper  *helper.Record
	work    *helperproto.Work
	netns   *os.File          // the jail's
	sockets *jailsock.Sockets // ours in it
	conn    *net.UnixConn     // to the helper
	// arrival is how the jail's connections arrive at the helper.
	arrival helperproto.Arrival
}

// serve seals the network by seal and has a helper serve it. The jail's program waits for it, so
// independent steps run in parallel. When serve returns, the jail's requests arrive at the helper's
// sockets. If the function wait is not nil, the caller must call it once, at any time: it returns
// when the helper has acknowledged that it serves.
func (s *helperStart) serve(seal func() error) (wait func() error, err error) {
	err = thread.Together(seal, s.findHelper)
	if err == nil {
		j := s.jail
		err = thread.Together(func() error { return s.openSockets(j) }, s.buildAssignment)
	}
	crash.Point("start.helping")
	if err == nil {
		err = s.sendAssignment()
	}
	s.closeFiles()
	switch {
	case err != nil:
		return nil, errors.Join(err, s.endHelper())
	case s.canFail():
		return nil, s.awaitAck()
	}
	return s.awaitAck, nil
}

// canFail reports whether the helper's work can fail for reasons outside, such as a port of the
// host that another program has. In that case the jail is not started before the helper serves. The
// rules cannot fail: this process has parsed them already.
func (s *helperStart) canFail() bool { return s.work.Publishes() || len(s.work.Credentials) > 0 }

// awaitAck waits for the helper's answer, and records that the helper serves. It ends the helper
// after an error.
func (s *helperStart) awaitAck() error {
	err := readAck(s.conn, s.jail.Dir)
	if err != nil {
		err = fmt.Errorf("sending the helper, process %d, its work: %w", s.helper.Pid, err)
	}
	crash.Point("start.served")
	var text []byte
	if err == nil {
		text, err = json.Marshal(s.arrival)
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

// closeFiles closes this process's files of the jail, and overwrites the credentials that were sent
// to the helper.
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

// findHelper checks the helper that was launched with the jail. It starts a new one if the helper
// is not idle any more, for example after a start that was killed, or runs in another namespace.
func (s *helperStart) findHelper() (err error) {
	if s.jail, err = located(s.jail); err != nil {
		return err
	}
	// The namespace is checked again: the helper keeps a namespace that the engine has removed.
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

// restart ends the helper, if there is one, and starts a new one.
func (s *helperStart) restart() (err error) {
	if err := helper.End(s.jail.Dir); err != nil {
		return err
	}
	s.helper, err = launch(s.jail)
	return err
}

// isIdle reports whether the helper waits for its work.
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

// openSockets makes the helper's sockets in the jail's network namespace. The namespace is sealed,
// and no former helper has sockets in it.
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
		ports := jailsock.Ports(set)
		if r.Approval { // a name without a rule has ports, too
			ports = append(ports, otherPorts...)
			slices.Sort(ports)
			ports = slices.Compact(ports)
		}
		return ports, nil
	})
	return err
}

// buildAssignment records that the helper gets its work, builds the work and connects to the
// helper. The work is sent only after the record is written.
func (s *helperStart) buildAssignment() error {
	record := func() error { return s.helper.Assign(s.jail.Dir) }
	if s.jail.Decision.Hook == nil {
		return thread.Together(record, s.connect)
	}
	// The record also precedes the engine's hook, which can run only once for a namespace.
	if err := record(); err != nil {
		return err
	}
	if err := s.requestEngineNetwork(); err != nil {
		return err
	}
	return s.connect()
}

// connect builds the work and connects to the helper.
func (s *helperStart) connect() (err error) {
	if s.work, err = buildWork(s.jail); err != nil {
		return err
	}
	if s.conn, err = dialControl(s.jail.Dir); err != nil {
		return fmt.Errorf("connecting to the helper, process %d: %w", s.helper.Pid, err)
	}
	return nil
}

// sendAssignment sends the helper its work with its sockets in the jail.
func (s *helperStart) sendAssignment() error {
	pidfd, err := unix.PidfdOpen(s.jail.InitPid, 0)
	if err != nil {
		return fmt.Errorf("opening process %d: %w", s.jail.InitPid, err)
	}
	defer unix.Close(pidfd)
	fds, what, err := s.sockets.Descriptors()
	if err != nil {
		return err
	}
	s.work.Sockets, s.arrival = what, what.Arrival
	fds = append([]int{pidfd}, fds...)
	if s.work.Publishes() {
		fds = append(fds, int(s.netns.Fd()))
	}
	if err := s.writeAssignment(fds); err != nil {
		return fmt.Errorf("sending the helper, process %d, its work: %w", s.helper.Pid, err)
	}
	return nil
}

// writeAssignment writes the work and the descriptors to the connection.
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
	// The descriptors come with the first part.
	n, _, err := s.conn.WriteMsgUnix(data, unix.UnixRights(fds...), nil)
	if err != nil {
		return err
	}
	if _, err := s.conn.Write(data[n:]); err != nil {
		return err
	}
	return s.conn.CloseWrite()
}

// stderrSuffix returns a helper's last error output, as the end of a sentence.
func stderrSuffix(dir string) string {
	if text := helper.LastError(dir); text != "" {
		return ", with the error " + text
	}
	return ""
}

// readAck reads the helper's answer, but not the end of file after it: an activator leaves its work
// unread, so that its exit resets the connection.
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

// buildWork returns the helper's work without its sockets.
func buildWork(j network.Jail) (*helperproto.Work, error) {
	r, err := j.Rules()
	if err != nil {
		return nil, fmt.Errorf("the jail's rules: %w", err)
	}
	w := &helperproto.Work{Allow: r.Allow, Deny: r.Deny, Pinned: r.Pinned, LogMax: logMax}
	if err := continueFrom(w, j.Dir); err != nil {
		return nil, err
	}
	if w.Servers, err = serversOf(j.Decision, r); err != nil {
		return nil, err
	}
	if w.Approval = r.Approval; w.Approval {
		w.Attended = j.Attended != nil && j.Attended()
		if w.Search, err = hostSearches(); err != nil {
			return nil, err
		}
	}
	if w.Publish, w.Engine, err = publish.List(r.Publish); err != nil {
		return nil, err
	}
	if j.Decision.Outside == "" {
		w.Engine = nil // the helper is in the host's network
	}
	if w.Host, err = hosts(j.Decision); err != nil {
		return nil, err
	}
	if w.Ports, err = ports(j); err != nil {
		return nil, err
	}
	if w.Credentials, err = fetchCredentials(r); err != nil {
		return nil, err
	}
	if err := readOwnKeys(j.Dir, w); err != nil {
		w.Wipe()
		return nil, err
	}
	return w, nil
}
