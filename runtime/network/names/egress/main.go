// Package egress is the helper process of a jail whose network is by name (network.mode = "names"):
// it lives outside the jail, in the network of whoever started it, and has sockets inside. There it
// answers the jail's questions for names and takes its connections; what rules allow, it connects
// outside.
//
// It is started while its jail is being made, and gives up all else before it knows of the jail:
// see confine. At start it gets its sockets and its rules. Where nothing speaks against it, an
// activator does this much in its place, and becomes the helper when the jail first uses its
// network (package activator). It parses what a jail sends. It ends with the jail's first process.
package egress

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/network/helper/child"
	"agentjail.dev/runtime/network/names/helperproto"
	"agentjail.dev/runtime/network/names/terminate"
)

// Main is the program, with those who speak what is ended for credentials. It returns only after an
// error, with the exit status.
func Main(speak terminate.Speakers) int {
	if err := run(speak); err != nil {
		// Of one that was activated nobody waits to hear it: it goes on record (helper.SaidFile).
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func run(speak terminate.Speakers) error {
	h, err := begin(speak)
	e, err := h.assigned(err)
	if err != nil {
		return err
	}
	err = h.serve(e)
	if err != nil {
		_ = e.answer(err) // to the starter, if that waits
	}
	return err
}

// helper is one that waits for its work.
type helper struct {
	setup helperproto.Setup
	ctl   *control
	rt    *routes
	// roots are the host's certificate authorities; nil where no credential needs them.
	roots *x509.CertPool
	speak terminate.Speakers
}

// assigned reports that the helper is ready, or that it is not, and waits for its work. An
// activator has done both.
func (h *helper) assigned(err error) (*assignment, error) {
	if h.setup.Activated {
		if err != nil {
			return nil, err
		}
		return takeHeld(os.NewFile(helperproto.WorkFD, "work"))
	}
	ready := os.NewFile(child.ReadyFD, "ready")
	if err != nil {
		fmt.Fprintln(ready, err)
		return nil, err
	}
	if _, err := io.WriteString(ready, child.Ready); err != nil {
		return nil, err
	}
	ready.Close()
	return h.ctl.awaitAssignment()
}

// begin makes ready what takes files or privileges, and gives those up. What it knows of its set-up
// is returned with an error, too.
func begin(speak terminate.Speakers) (*helper, error) {
	debug.SetMemoryLimit(maxMemory)
	debug.SetMaxThreads(maxThreads)
	h := &helper{speak: speak}
	var err error
	if h.setup, err = readSetup(os.NewFile(child.TellFD, "setup")); err != nil {
		return h, err
	}
	if !h.setup.Activated {
		if err := closeOthers(); err != nil {
			return h, fmt.Errorf("closing what was left open: %w", err)
		}
	}
	// Go's own files are the overflow user's to inherit; these came through exec.
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
		return h, nil // what takes privileges is inside the jail, and there is none yet
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
	// The sockets alone keep the namespace: they are closed with the jail.
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
	creds, err := newCredentials(w, h.roots, h.speak)
	if err != nil {
		return err
	}
	log := newEvents(w.LogMax, w.LogTurn, w.LogSeq, os.NewFile(helperproto.LogFD, "log"), os.NewFile(helperproto.OtherLogFD, "log"))
	server, err := newServer(w, creds, log, h.rt)
	if err != nil {
		return err
	}
	server.served = e.sockets.Served()
	server.reserveAddresses(w.Given, os.NewFile(helperproto.GivenFD, helperproto.GivenFile))
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
	// Whoever sent the work may have been killed: then the jail is not started, and needs no
	// helper.
	if err := e.answer(nil); err != nil {
		return err
	}
	go h.ctl.serve(server.handleRequest)
	return waitForExit(e.init)
}

// dnsWorkers are how many questions are answered at once.
const dnsWorkers = 2

// maxSetup bounds the set-up's text, in bytes.
const maxSetup = 4 << 10

// readSetup reads the set-up. An end of file without any is of a starter that was killed.
func readSetup(from *os.File) (s helperproto.Setup, err error) {
	defer from.Close()
	data, err := io.ReadAll(io.LimitReader(from, maxSetup+1))
	if err != nil {
		return s, fmt.Errorf("reading the set-up: %w", err)
	}
	if len(data) == 0 || len(data) > maxSetup {
		return s, errors.New("there is no set-up, or too much of it")
	}
	return s, json.Unmarshal(data, &s)
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
