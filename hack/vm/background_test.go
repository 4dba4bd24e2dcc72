package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentjail.dev/tests/env"
)

func TestDecide(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name          string
		load          load
		still, others bool
		want          string
	}{
		{"gets what it wants", load{length: 2 * s, ran: 2 * s}, false, true, ""},
		{"gets a half", load{length: 2 * s, ran: s, waited: s}, false, true, ""},
		{"gets a tenth", load{length: 2 * s, ran: s / 5, waited: 9 * s / 5}, false, true, "stop"},
		{"gets a tenth of little", load{length: 2 * s, ran: s / 50, waited: 9 * s / 50}, false, true, ""},
		{"gets a tenth, alone", load{length: 2 * s, ran: s / 5, waited: 9 * s / 5}, false, false, ""},
		{"stands still, others take all", load{length: 2 * s, idle: s / 10}, true, true, ""},
		{"stands still, others take a half", load{length: 2 * s, idle: 2 * s}, true, true, "cont"},
		{"stands still, alone", load{length: 2 * s, idle: s / 10}, true, false, "cont"},
		{"nothing can be measured", load{length: 2 * s}, false, true, ""},
	} {
		if got := c.load.decide(c.still, c.others); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestMeasure: what this process has had of the processors grows while it computes.
func TestMeasure(t *testing.T) {
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip("the kernel keeps no schedstat (CONFIG_SCHED_INFO)")
	}
	before := measure(os.Getpid())
	for deadline := time.Now().Add(30 * time.Second); ; {
		l := measure(os.Getpid()).since(before)
		if l.ran > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("this process has not run: %+v", l)
		}
	}
}

// monitorOf answers on a socket as QEMU's monitor does, and reports which commands it got.
func monitorOf(t *testing.T, answer func(command string) string) (socket string, got <-chan string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "monitor")
	l, err := net.Listen("unix", socket)
	env.Check(t, err)
	t.Cleanup(func() { l.Close() })
	commands := make(chan string, 16)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprintln(conn, `{"QMP": {"version": {"qemu": {"micro": 2, "minor": 0, "major": 10}}, "capabilities": ["oob"]}}`)
		for in := bufio.NewScanner(conn); in.Scan(); {
			command := strings.Split(in.Text(), `"`)[3]
			commands <- command
			fmt.Fprintln(conn, answer(command))
		}
	}()
	return socket, commands
}

// TestMonitor: an answer is found behind greeting and events; a refusal is an error.
func TestMonitor(t *testing.T) {
	socket, got := monitorOf(t, func(command string) string {
		if command == "cont" {
			return `{"error": {"class": "GenericError", "desc": "no bootable device"}}`
		}
		return `{"timestamp": {"seconds": 1}, "event": "STOP"}` + "\n" + `{"return": {}}`
	})
	q, err := dialMonitor(socket)
	env.Check(t, err)
	defer q.conn.Close()
	if err := q.do("stop"); err != nil {
		t.Error(err)
	}
	if err := q.do("cont"); err == nil || !strings.Contains(err.Error(), "no bootable device") {
		t.Errorf("a refusal is %v", err)
	}
	if a, b, c := <-got, <-got, <-got; a != "qmp_capabilities" || b != "stop" || c != "cont" {
		t.Errorf("the monitor got %s, %s, %s", a, b, c)
	}
}

// TestMachineGoesOnWithoutOtherTests: a machine that stands still goes on as soon as there are no other tests.
func TestMachineGoesOnWithoutOtherTests(t *testing.T) {
	socket, got := monitorOf(t, func(string) string { return `{"return": {}}` })
	var others atomic.Bool
	others.Store(true)
	p := pauser{
		name: "test", others: func() bool { return others.Swap(false) }, pid: os.Getpid(), still: true,
		control: func() (*qmp, error) { return dialMonitor(socket) },
	}
	env.Check(t, p.run(t.Context()))
	if a, b := <-got, <-got; a != "qmp_capabilities" || b != "cont" || p.still {
		t.Errorf("the monitor got %s, %s; still: %v", a, b, p.still)
	}
}

// TestMonitorAppears: a monitor that is not there yet is no failure.
func TestMonitorAppears(t *testing.T) {
	p := pauser{control: func() (*qmp, error) { return nil, errors.New("not yet") }}
	if err := p.sendCommand("stop"); err != nil || p.still {
		t.Errorf("%v, still: %v", err, p.still)
	}
}

// TestOneMachineAtATime: beside other tests one machine is up at a time; without them no process waits.
func TestOneMachineAtATime(t *testing.T) {
	file := filepath.Join(t.TempDir(), "background")
	env.Check(t, os.WriteFile(file, nil, 0o600))
	o := options{background: file}
	turn := make(chan struct{}, 1)
	first := o.takeTurn(t.Context(), turn)
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan func())
	go func() { second <- o.takeTurn(ctx, turn) }()
	select {
	case <-second:
		t.Error("two machines have the turn")
	case <-time.After(50 * time.Millisecond): // enough to see a second turn that is there at once
		first()
		(<-second)()
	}
	cancel()
	o.takeTurn(t.Context(), turn)
	env.Check(t, os.Remove(file))
	o.takeTurn(t.Context(), turn)() // does not wait: the file is gone
}
