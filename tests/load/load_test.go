// Package load keeps many jails alive at once under an engine whose parts are killed at random, and tests that nothing
// fails but what was killed, and that nothing is left afterwards.
//
// By default it is small enough for every test run; `make load` makes it large.
package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/env"
)

// opWait bounds one operation: a machine full of jails is slow, but nothing may hang.
const opWait = 4 * time.Minute

// A size reports how much load there is. The environment overrides it: AGENTJAIL_LOAD_JAILS, _PARALLEL, and _TIME.
type size struct {
	jails    int           // alive at once
	parallel int           // operations at once
	length   time.Duration // of the killing, which has leastKills tries at least
}

// leastKills are the tries to kill something in which each daemon has its turn, on a slow machine too.
const leastKills = 30

func sizeOf(t *testing.T) size {
	t.Helper()
	s := size{jails: 16, parallel: 6, length: 5 * time.Second}
	for name, into := range map[string]*int{"AGENTJAIL_LOAD_JAILS": &s.jails, "AGENTJAIL_LOAD_PARALLEL": &s.parallel} {
		if text := os.Getenv(name); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				t.Fatalf("%s=%q is not a number", name, text)
			}
			*into = n
		}
	}
	if text := os.Getenv("AGENTJAIL_LOAD_TIME"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("AGENTJAIL_LOAD_TIME: %v", err)
		}
		s.length = d
	}
	return s
}

// A door is a way to containers: an engine.
type door interface {
	// start makes a container that runs until it is killed, and returns its id.
	start(ctx context.Context) (string, error)
	// exec runs a command in it and returns what it printed.
	exec(ctx context.Context, id string, args ...string) (string, error)
	// remove kills and removes it. One that is gone is no error.
	remove(ctx context.Context, id string) error
	// pid is the container's first process, on the host.
	pid(ctx context.Context, id string) (int, error)
	// daemons are the engine's own programs; crash kills one, starts it again and waits until it answers.
	daemons() []string
	crash(name string) error
	// outlives reports whether a failure is what a daemon's earlier death leaves of its own doing after it is back.
	outlives(err error) bool
	// gone waits until nothing is left of all containers, and reports what is.
	gone(ids []string) []string
}

// A jail is one that the test started.
type jail struct {
	id string
	// victim is set before something of the jail's own is killed: from then on it may fail.
	victim atomic.Bool
	// busy: one operation at a time, so that each failure has one cause.
	busy sync.Mutex
}

// A load is a test under way.
type load struct {
	t    *testing.T
	door door
	size size

	mu    sync.Mutex
	jails map[string]*jail
	all   []string

	// outages counts the daemons' comings and goings: even while the engine is whole.
	outages atomic.Int64

	ops, excused, killed atomic.Int64
	failMu               sync.Mutex
	failures             []string
}

// op runs an operation and records its failure, unless a daemon was killed meanwhile or the jail is a victim.
func (l *load) op(what string, j *jail, f func(ctx context.Context) error) bool {
	before := l.outages.Load()
	ctx, cancel := context.WithTimeout(context.Background(), opWait)
	defer cancel()
	err := f(ctx)
	l.ops.Add(1)
	if err == nil {
		return true
	}
	if before%2 == 1 || l.outages.Load() != before || j != nil && j.victim.Load() || before > 0 && l.door.outlives(err) {
		l.excused.Add(1)
		// Hanging is never excused.
		if ctx.Err() == nil {
			return false
		}
	}
	l.failMu.Lock()
	defer l.failMu.Unlock()
	l.failures = append(l.failures, fmt.Sprintf("%s: %v", what, err))
	return false
}

// add starts a jail.
func (l *load) add() {
	var id string
	if !l.op("start", nil, func(ctx context.Context) (err error) { id, err = l.door.start(ctx); return err }) {
		// The engine may have made it all the same.
		if id != "" {
			l.mu.Lock()
			l.all = append(l.all, id)
			l.mu.Unlock()
		}
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jails[id] = &jail{id: id}
	l.all = append(l.all, id)
}

// pick takes a jail at random that no one else is busy with, locked, or nil.
func (l *load) pick() *jail {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range l.jails { // in random order
		if j.busy.TryLock() {
			return j
		}
	}
	return nil
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.jails)
}

// remove takes a jail away.
func (l *load) remove(j *jail) {
	l.mu.Lock()
	delete(l.jails, j.id)
	l.mu.Unlock()
	l.op("remove", j, func(ctx context.Context) error { return l.door.remove(ctx, j.id) })
}

// look reads from a jail something that only a jail has.
func (l *load) look(j *jail) bool {
	return l.op("exec", j, func(ctx context.Context) error {
		out, err := l.door.exec(ctx, j.id, "cat", "/proc/self/uid_map")
		if err != nil {
			return err
		}
		if f := strings.Fields(out); len(f) != 3 || f[0] != "0" {
			return fmt.Errorf("uid_map of %s: %q", j.id, out)
		}
		return nil
	})
}

// work does operations until stop is closed, keeping the number of jails.
func (l *load) work(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		if l.outages.Load()%2 == 1 {
			env.Poll(time.Second, func() bool { return l.outages.Load()%2 == 0 }) // nothing new is requested of a daemon that is away
			continue
		}
		n := l.count()
		switch {
		case n < l.size.jails:
			l.add()
		case rand.IntN(3) == 0:
			if j := l.pick(); j != nil {
				l.remove(j)
				j.busy.Unlock()
			}
		default:
			if j := l.pick(); j != nil {
				if !l.look(j) {
					l.remove(j)
				}
				j.busy.Unlock()
			}
		}
	}
}

// kill kills something at random: a jail, a shim, or, once in a while, a daemon.
func (l *load) kill(n int) {
	if n%10 == 9 {
		names := l.door.daemons()
		name := names[n/10%len(names)]
		l.outages.Add(1)
		if err := l.door.crash(name); err != nil {
			l.t.Errorf("%s does not come back: %v", name, err)
		}
		l.outages.Add(1)
		l.killed.Add(1)
		return
	}
	j := l.pick()
	if j == nil {
		return
	}
	defer j.busy.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), opWait)
	defer cancel()
	pid, err := l.door.pid(ctx, j.id)
	if err != nil || pid <= 1 {
		return
	}
	if n%3 == 0 {
		// The shim is the first process's parent, as it reaps orphans.
		if pid = env.Parent(pid); pid <= 1 {
			return
		}
		if !strings.Contains(env.CommandLine(pid), "containerd-shim") {
			return
		}
	}
	j.victim.Store(true)
	if unix.Kill(pid, unix.SIGKILL) == nil {
		l.killed.Add(1)
	}
}

// loadThrough is the whole test through one door.
func loadThrough(t *testing.T, d door) {
	l := &load{t: t, door: d, size: sizeOf(t), jails: map[string]*jail{}}
	begin := time.Now()
	l.parallel(l.size.jails, func(int) { l.add() })
	if n := l.count(); n < l.size.jails {
		t.Errorf("only %d of %d jails started", n, l.size.jails)
	}
	t.Logf("%d jails live after %v", l.count(), time.Since(begin).Round(time.Second))

	stop := make(chan struct{})
	var workers sync.WaitGroup
	for range l.size.parallel {
		workers.Go(func() { l.work(stop) })
	}
	tick := time.Tick(l.size.length / 100) // spreads the kills over the time
	for n, end := 0, time.Now().Add(l.size.length); n < leastKills || time.Now().Before(end); n++ {
		l.kill(n)
		<-tick
	}
	close(stop)
	workers.Wait()

	// Nothing is lost: what was not killed is still there and can be entered.
	rest := l.take()
	l.parallel(len(rest), func(i int) {
		if !rest[i].victim.Load() {
			l.look(rest[i])
		}
	})
	l.parallel(len(rest), func(i int) { l.remove(rest[i]) })
	t.Logf("%d operations, %d kills, %d failures that kills explain, %d others; %v in all", l.ops.Load(), l.killed.Load(), l.excused.Load(), len(l.failures), time.Since(begin).Round(time.Second))
	for i, f := range l.failures {
		if i == 20 {
			t.Errorf("and %d more", len(l.failures)-i)
			break
		}
		t.Error(f)
	}
	if l.killed.Load() == 0 {
		t.Error("nothing was killed: the test shows nothing")
	}
	for _, left := range d.gone(l.all) {
		t.Errorf("left behind: %s", left)
	}
}

// take lists the jails.
func (l *load) take() []*jail {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*jail
	for _, j := range l.jails {
		out = append(out, j)
	}
	return out
}

// parallel calls f for 0 to n-1, as many at once as the load has operations.
func (l *load) parallel(n int, f func(i int)) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(n, l.size.parallel) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// states lists what the runtime keeps about containers, in its own directory.
func states(ids []string) []string {
	mine := map[string]bool{}
	for _, id := range ids {
		mine[id] = true
	}
	var out []string
	dirs, _ := filepath.Glob("/run/agentjail/jails/*")
	for _, d := range dirs {
		text, err := os.ReadFile(filepath.Join(d, "state.json"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		for id := range mine {
			if strings.Contains(string(text), id) {
				out = append(out, d)
			}
		}
	}
	return out
}
