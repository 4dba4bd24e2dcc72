// Package egress is the helper process of a jail whose network is by name (network.mode = "names"): it lives outside the jail, in the
// network of whoever started it, and has sockets inside. There it answers the jail's questions for names and takes its connections; what
// rules allow, it connects outside.
//
// It parses what a jail sends, so once its sockets are made it gives up all else: see confine. It ends with the jail's first process.
package egress

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/helper/child"
	"agentjail.dev/runtime/network/names/ended"
	"agentjail.dev/runtime/network/names/rules"
	"agentjail.dev/runtime/network/names/work"
)

// maxWork bounds the work's text, in bytes.
const maxWork = 8 << 20

// Main is the program, with those who speak what is ended for credentials. It returns only after an error, with the exit status.
func Main(speak ended.Speakers) int {
	if len(os.Args) == 2 && os.Args[1] == work.Probe {
		got, err := probe()
		if err == nil {
			err = json.NewEncoder(os.Stdout).Encode(got)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	ready := os.NewFile(child.ReadyFD, "ready")
	if err := run(ready, speak); err != nil {
		fmt.Fprintln(ready, err)
		return 1
	}
	return 0
}

func run(ready *os.File, speak ended.Speakers) error {
	debug.SetMemoryLimit(maxMemory)
	debug.SetMaxThreads(maxThreads)
	if err := closeOthers(); err != nil {
		return fmt.Errorf("closing what was left open: %w", err)
	}
	w, err := task(os.NewFile(child.WorkFD, "work"))
	if err != nil {
		return err
	}
	// Go's own files are nobody's to inherit; these came through exec.
	for fd := child.ReadyFD; fd <= work.LastFD; fd++ {
		unix.CloseOnExec(fd)
	}
	log := newEvents(w.LogMax, w.LogTurn, w.LogSeq, os.NewFile(work.LogFD, "log"), os.NewFile(work.OtherLogFD, "log"))
	ctl, err := openControl(os.NewFile(work.ControlFD, "control socket"))
	if err != nil {
		return err
	}
	netns := os.NewFile(work.NetnsFD, "network namespace")
	s, err := open(netns, func() ([]uint16, error) {
		set, err := rules.Parse(w.Allow, w.Deny, nil)
		return portsOf(set), err
	})
	if err != nil {
		return err
	}
	in, err := openInbound(w.Publish, netns)
	if err != nil {
		return err
	}
	// The sockets alone keep the namespace: they are closed with the jail.
	if err := netns.Close(); err != nil {
		return err
	}
	rt, err := openRoutes()
	if err != nil {
		return err
	}
	// While there are files.
	creds, err := newCredentials(w, speak)
	if err != nil {
		return err
	}
	if err := confine(w); err != nil {
		return err
	}
	server, err := newServer(w, creds, log, rt)
	if err != nil {
		return err
	}
	server.served = s.served()
	server.givesFrom(w.Given, os.NewFile(work.GivenFD, work.GivenFile))
	for range dnsWorkers {
		go server.answerUDP(s.udp, s.reply)
	}
	go server.answerTCP(s.dns)
	for _, l := range s.in {
		go server.accept(l, func(c *net.TCPConn) { server.connection(c, s.destination) })
	}
	go server.accept(s.connect, server.connect)
	go server.accept(s.socks, server.socks)
	go ctl.serve(server.follow)
	in.serve(server)
	// Whoever started it may have been killed: then the jail is not started, and needs no child.
	answer, err := json.Marshal(s.taken)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(ready, child.Serves(string(answer))); err != nil {
		return err
	}
	ready.Close()
	return outlive(work.InitFD)
}

// dnsWorkers are how many questions are answered at once.
const dnsWorkers = 2

// task reads the work. An end of file without any is of a starter that was killed.
func task(from *os.File) (*work.Work, error) {
	defer from.Close()
	data, err := io.ReadAll(io.LimitReader(from, maxWork+1))
	if err != nil {
		return nil, fmt.Errorf("reading the work: %w", err)
	}
	if len(data) == 0 || len(data) > maxWork {
		return nil, errors.New("there is no work, or too much of it")
	}
	w, err := work.Decode(data)
	clear(data) // credentials are in it
	return w, err
}

// outlive waits for the end of a process, by its pidfd.
func outlive(pidfd int) error {
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
