// Package egress is the helper process of a jail whose network is by name (network.mode = "names"):
// it runs outside the jail, in its starter's network, and has sockets inside. There it answers the
// jail's DNS queries and accepts its connections. It connects outside if the rules allow it.
//
// It is started while its jail is being made, and drops all other rights before it gets any data of
// the jail: see confine. At start it gets its sockets and its rules. If possible, an activator does
// these steps in its place, and becomes the helper when the jail first uses its network (package
// activator). The helper parses data from the jail. It exits with the jail's first process.
package egress

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/network/helper/child"
	"agentjail.dev/runtime/network/names/internal/helperproto"
)

// Main runs the program with implementations of the protocols that are terminated for credentials.
// It returns only after an error, with the exit status.
func Main(protocols Protocols) int {
	if err := run(protocols); err != nil {
		// No process reads the standard error of an activated helper, so it is recorded
		// (helper.LastError).
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func run(protocols Protocols) error {
	// It was executed by a descriptor, whose number would be its name (proc_pid_comm(5)).
	_ = os.WriteFile("/proc/self/comm", []byte(os.Args[0]), 0)
	h, err := begin(protocols)
	if !h.setup.Activated {
		err = reportReady(err)
	}
	if err != nil {
		return err
	}
	e, err := h.awaitAssignment()
	if err != nil {
		return err
	}
	if err = h.serve(e); err != nil {
		_ = e.answer(err) // to the starter, if that waits
	}
	return err
}

// helper is a helper before its work.
type helper struct {
	setup helperproto.Setup
	ctl   *control
	rt    *routes
	// roots are the host's certificate authorities; nil if no credential needs them.
	roots     *x509.CertPool
	protocols Protocols
}

// reportReady reports to the starter that the helper is ready, or err, which it returns.
func reportReady(err error) error {
	ready := os.NewFile(child.ReadyFD, "ready")
	if err != nil {
		fmt.Fprintln(ready, err)
		return err
	}
	if _, err := io.WriteString(ready, child.Ready); err != nil {
		return err
	}
	ready.Close()
	return nil
}

// awaitAssignment waits for the work. An activator has waited for it already.
func (h *helper) awaitAssignment() (*assignment, error) {
	if h.setup.Activated {
		return takeHeld(os.NewFile(helperproto.WorkFD, "work"))
	}
	return h.ctl.awaitAssignment()
}

// begin does all that needs files or privileges, and then drops them. The helper is returned with
// an error, too, for its set-up.
func begin(protocols Protocols) (*helper, error) {
	debug.SetMemoryLimit(maxMemory)
	debug.SetMaxThreads(maxThreads)
	h := &helper{protocols: protocols}
	var err error
	if h.setup, err = readSetup(os.NewFile(child.SetupFD, "setup")); err != nil {
		return h, err
	}
	if !h.setup.Activated {
		if err := closeOthers(); err != nil {
			return h, fmt.Errorf("closing what was left open: %w", err)
		}
	}
	// No program inherits Go's own files. These came through exec.
	for fd := child.ReadyFD; fd <= helperproto.LastFD; fd++ {
		unix.CloseOnExec(fd)
	}
	if h.ctl, err = openControl(os.NewFile(helperproto.ControlFD, "control socket"), h.setup.Owner); err != nil {
		return h, err
	}
	if h.rt, err = openRoutes(); err != nil {
		return h, err
	}
	if h.setup.Authorities {
		if h.roots, err = authorities(); err != nil {
			return h, err
		}
	}
	if h.setup.Publishes {
		return h, nil // the privileges are needed inside the jail, which does not exist yet
	}
	return h, confine(h.setup)
}

// serve does the work. It returns after an error, or when the jail's first process has ended.
func (h *helper) serve(e *assignment) error {
	w := e.work
	in, err := openInbound(w, e.netns)
	if err != nil {
		return err
	}
	// The sockets keep the namespace until they are closed with the jail.
	if e.netns != nil {
		if err := e.netns.Close(); err != nil {
			return err
		}
	}
	if h.setup.Publishes {
		if err := confine(h.setup); err != nil {
			return err
		}
	}
	creds, err := newCredentials(w, h.roots, h.protocols)
	if err != nil {
		return err
	}
	log := newEvents(w.LogMax, w.LogTurn, w.LogSeq, os.NewFile(helperproto.LogFD, "log"), os.NewFile(helperproto.OtherLogFD, "log"))
	server, err := newServer(w, creds, log, h.rt)
	if err != nil {
		return err
	}
	server.served = e.sockets.Served()
	server.reserveAddresses(w.Reserved, os.NewFile(helperproto.ReservedFD, helperproto.ReservedFile))
	for range dnsWorkers {
		go server.answerUDP(e.sockets.UDP, e.sockets.Reply)
	}
	go server.answerTCP(e.sockets.DNS)
	for _, l := range e.sockets.In {
		go server.accept(l, func(c *net.TCPConn) { server.connection(c, e.sockets.Destination) })
	}
	go server.accept(e.sockets.Connect, server.connect)
	go server.accept(e.sockets.SOCKS, server.socks)
	in.serve(server)
	// The starter may have been killed: then the jail is not started, and needs no helper.
	if err := e.answer(nil); err != nil {
		return err
	}
	go h.ctl.serve(server.handleRequest, server.approvals.attach)
	return waitForExit(e.init)
}

// dnsWorkers is the number of queries that are answered at once.
const dnsWorkers = 2

// maxSetup bounds the set-up's text, in bytes.
const maxSetup = 4 << 10

// readSetup reads the set-up. An end of file at once means that the starter was killed.
func readSetup(from *os.File) (s helperproto.Setup, err error) {
	defer from.Close()
	data, err := atomicfile.ReadAll(from, maxSetup)
	if err != nil {
		return s, fmt.Errorf("reading the set-up: %w", err)
	}
	if len(data) == 0 {
		return s, errors.New("the set-up is empty")
	}
	return s, helperproto.Strict(data, &s)
}

// waitForExit waits for the end of a process, by its pidfd.
func waitForExit(pidfd int) error {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, -1)
		if n > 0 {
			return nil
		}
		if err != nil && err != unix.EINTR {
			return err
		}
	}
}
