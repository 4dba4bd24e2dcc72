package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Beside other tests, machines take only what those leave of the processors, and nothing in them
// may notice: what waits for ten seconds in a machine that gets a tenth of a processor would fail,
// and so would the tests beside if the machine got more. So an emulated machine stands still while
// it gets too little (QEMU's stop and cont, which stop its clocks too), and only one of them is up
// at a time.

const (
	// look is how often it is decided whether a machine stands still.
	look = 2 * time.Second
	// starved is the share of the time that it wants to run below which a machine stands still.
	// Three machines by themselves on two processors have two thirds.
	starved = 0.3
	// left is how much of a processor must be idle for a machine to go on.
	left = 0.35
)

// others reports whether other tests run: then hack/background.sh keeps its file.
func (o options) others() bool {
	if o.background == "" {
		return false
	}
	_, err := os.Stat(o.background)
	return err == nil
}

// takeTurn waits until no machine that has the turn is up, or until there are no other tests any
// more: then all machines run at once.
func (o options) takeTurn(ctx context.Context, turn chan struct{}) (done func()) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for o.others() {
		select {
		case turn <- struct{}{}:
			return func() { <-turn }
		case <-ctx.Done():
			return func() {}
		case <-tick.C:
		}
	}
	return func() {}
}

// A pauser has a machine stand still while other tests want the processors.
type pauser struct {
	name    string
	others  func() bool
	pid     int // QEMU's
	control func() (*qmp, error)
	monitor *qmp // nil until it is used
	still   bool
	stood   time.Duration
}

// monitorGone is how long after a failure of its monitor QEMU may take to have ended by itself.
const monitorGone = 10 * time.Second

// yield has QEMU yield to other tests. done is closed when ctx has ended and that is over.
func (m machine) yield(ctx context.Context, accel string, pid int, cancel context.CancelCauseFunc) (done <-chan struct{}) {
	over := make(chan struct{})
	if accel == "kvm" { // which takes little, and whose clocks go on
		close(over)
		return over
	}
	p := pauser{name: m.kind, others: m.others, pid: pid, control: func() (*qmp, error) { return dialMonitor(m.path("monitor")) }}
	go func() {
		defer close(over)
		err := p.run(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(monitorGone):
			cancel(err)
		}
	}()
	return over
}

// run returns when there are no others any more, or at ctx's end. An error means that the machine
// may stand still for ever.
func (p *pauser) run(ctx context.Context) error {
	if !p.others() {
		return nil
	}
	defer func() {
		if p.monitor != nil {
			p.monitor.conn.Close()
		}
	}()
	tick := time.NewTicker(look)
	defer tick.Stop()
	for before := measure(p.pid); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now, others := measure(p.pid), p.others()
		if p.still {
			p.stood += now.at.Sub(before.at)
		}
		if word := now.since(before).decide(p.still, others); word != "" {
			if err := p.sendCommand(word); err != nil {
				return fmt.Errorf("QEMU's monitor: %s: %w", word, err)
			}
		}
		before = now
		if !others {
			logf("%s: stood still for %v, while other tests wanted the processors", p.name, p.stood.Round(time.Second))
			return nil
		}
	}
}

// sendCommand sends a command to the monitor. If the monitor is not there yet, the next call tries
// again.
func (p *pauser) sendCommand(word string) (err error) {
	if p.monitor == nil {
		if p.monitor, err = p.control(); err != nil {
			p.monitor = nil
			return nil
		}
	}
	if err := p.monitor.do(word); err != nil {
		return err
	}
	p.still = word == "stop"
	return nil
}

// A load is what a process has had of the processors, and what stayed idle, since they were started
// or between two moments.
type load struct {
	at          time.Time
	ran, waited time.Duration // for a processor
	idle        time.Duration // all processors together
	length      time.Duration // of time, between two moments
}

// measure reads the load. What cannot be read is 0, which decides for running on.
func measure(pid int) load {
	l := load{at: time.Now()}
	// Each thread's time on a processor, time waiting for one, both in nanoseconds
	// (Documentation/scheduler/sched-stats.rst).
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*/schedstat", pid))
	for _, thread := range threads {
		var ran, waited int64
		if text, err := os.ReadFile(thread); err == nil {
			_, _ = fmt.Sscan(string(text), &ran, &waited)
		}
		l.ran, l.waited = l.ran+time.Duration(ran), l.waited+time.Duration(waited)
	}
	// user, nice, system, idle, iowait, in hundredths of a second (proc_stat(5)).
	if text, err := os.ReadFile("/proc/stat"); err == nil {
		var name string
		var n [5]int64
		_, _ = fmt.Sscan(string(text), &name, &n[0], &n[1], &n[2], &n[3], &n[4])
		l.idle = time.Duration(n[3]+n[4]) * time.Second / 100
	}
	return l
}

func (l load) since(before load) load {
	return load{at: l.at, ran: l.ran - before.ran, waited: l.waited - before.waited, idle: l.idle - before.idle, length: l.at.Sub(before.at)}
}

// decide returns the command for the monitor after a time with this load: stop, cont, or nothing.
func (l load) decide(still, others bool) string {
	wanted := l.ran + l.waited
	switch {
	case still && (!others || l.idle >= part(l.length, left)):
		return "cont"
	case !still && others && wanted > part(l.length, left) && l.ran < part(wanted, starved):
		return "stop"
	}
	return ""
}

func part(d time.Duration, share float64) time.Duration { return time.Duration(float64(d) * share) }

// A qmp is a connection to QEMU's monitor (docs/interop/qmp-spec.rst of QEMU).
type qmp struct {
	conn net.Conn
	in   *bufio.Reader
}

// monitorWait bounds an answer: QEMU ends its disks' requests first.
const monitorWait = time.Minute

// dialMonitor connects to a monitor's socket.
func dialMonitor(socket string) (*qmp, error) {
	conn, err := net.DialTimeout("unix", socket, monitorWait)
	if err != nil {
		return nil, err
	}
	q := &qmp{conn: conn, in: bufio.NewReader(conn)}
	if err := q.do("qmp_capabilities"); err != nil {
		conn.Close()
		return nil, err
	}
	return q, nil
}

// do has a command without arguments executed. The greeting and events may come before its answer.
func (q *qmp) do(command string) error {
	if err := q.conn.SetDeadline(time.Now().Add(monitorWait)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(q.conn, "{\"execute\": %q}\n", command); err != nil {
		return err
	}
	for {
		line, err := q.in.ReadBytes('\n')
		if err != nil {
			return err
		}
		var answer struct {
			Return json.RawMessage
			Error  *struct{ Desc string }
		}
		switch err := json.Unmarshal(line, &answer); {
		case err != nil:
			return fmt.Errorf("%q: %w", strings.TrimSpace(string(line)), err)
		case answer.Error != nil:
			return errors.New(answer.Error.Desc)
		case answer.Return != nil:
			return nil
		}
	}
}
