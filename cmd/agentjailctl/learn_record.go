package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/kernel/procstatus"
	"agentjail.dev/runtime/network/modes"
	"agentjail.dev/runtime/network/names/decisions"
	"agentjail.dev/runtime/observe/learn"
	"agentjail.dev/runtime/observe/learn/record"
	"agentjail.dev/runtime/rootfs/changes"
	"agentjail.dev/runtime/state"
	"agentjail.dev/seccomp/bpf"
)

// A runRecorder records the runs of jails for learn.
type runRecorder struct {
	store    state.Store
	recorder *record.Recorder
	jail     *state.Jail
	watched  map[string]*watchedJail
	runs     []learn.Run
}

// A watchedJail is the record of one jail while it runs.
type watchedJail struct {
	number uint32
	late   bool
	log    *decisions.Reader
	used   learn.Used
}

// prepare loads the recorder for jails of a profile.
func (p *runRecorder) prepare(profile string) (err error) {
	p.watched = map[string]*watchedJail{}
	p.recorder, err = record.New(learn.Masks(profile, runtime.GOARCH))
	return err
}

func (p *runRecorder) close() {
	if p.recorder != nil {
		p.recorder.Close()
	}
	for _, l := range p.watched {
		if l.log != nil {
			l.log.Close()
		}
	}
}

// ownFilters is the least number of filters of a jail's program: with fewer, the process is still
// the delegate or the init step.
const ownFilters = 2

// Made begins to watch a jail.
func (p *runRecorder) Made(j *state.Jail) error {
	if err := hostsCalls(j.Delegate, "learn"); err != nil {
		return err
	}
	number, err := p.recorder.Watch(j.InitPid, ownFilters)
	if err != nil {
		return fmt.Errorf("%s: watching it: %w", j.ID, err)
	}
	l := &watchedJail{number: number, late: started(j.InitPid)}
	l.log, _ = decisions.NewReader(p.store.Dir(j.Key)) // none without a network by name
	p.jail, p.watched[j.Key] = j, l
	return nil
}

// started reports whether a jail's program runs already: its filters are all there.
func started(pid int) bool {
	s, err := procstatus.Read(pid)
	filters := s.Field("Seccomp_filters") // since Linux 5.9
	return err != nil || filters != "0" && filters != "1"
}

// peaks are the counters of control groups for the largest use (cgroups(7)).
var peaks = []struct {
	file string
	of   func(*learn.Used) *uint64
}{
	{"memory.peak", func(u *learn.Used) *uint64 { return &u.Memory }},
	{"memory.max_usage_in_bytes", func(u *learn.Used) *uint64 { return &u.Memory }},
	{"pids.peak", func(u *learn.Used) *uint64 { return &u.Pids }},
	{"pids.current", func(u *learn.Used) *uint64 { return &u.Pids }},
}

// readPeaks reads the counters of a jail's control groups.
func (p *runRecorder) readPeaks(j *state.Jail) {
	l := p.watched[j.Key]
	for _, dir := range j.CgroupDirs {
		for _, c := range peaks {
			text, _ := cgroups.Read(dir, c.file)
			n, _ := cgroups.Number(text, "")
			to := c.of(&l.used)
			*to = max(*to, n)
		}
	}
}

// Ended records the run of a jail that has ended.
func (p *runRecorder) Ended(j *state.Jail) {
	p.readPeaks(j)
	l := p.watched[j.Key]
	run := learn.Run{ID: j.ID, Late: l.late, Used: l.used}
	var err error
	if run.Seen, run.Lost, err = p.recorder.Read(l.number); err != nil {
		fmt.Fprintf(os.Stderr, "agentjail: %s: its system calls: %v\n", j.ID, err)
	}
	if raw, err := atomicfile.Read(filepath.Join(p.store.Dir(j.Key), state.FilterFile), 8*bpf.MaxInsns); err == nil {
		run.Filter, _ = bpf.Parse(raw)
	}
	if mode, err := modes.Named(j.Network.Mode); err == nil {
		run.ByName = mode.Terms(j.Network).ByRules
	}
	if l.log != nil {
		if events, err := l.log.Next(); err == nil {
			run.Reached, run.Refused = reached(events)
		}
	}
	if list, err := changes.OfJail(context.Background(), p.store, j); err == nil {
		for _, c := range list {
			run.Files = append(run.Files, c.String())
		}
	}
	p.runs = append(p.runs, run)
}

// reached returns the names that were connected to, and those that were refused.
func reached(events []decisions.Event) (names, not []string) {
	for _, e := range events {
		if e.What != decisions.Connect || e.Name == "" {
			continue
		}
		entry := fmt.Sprintf("%s:%d", e.Name, e.Port)
		if e.Verdict == "allowed" {
			names = append(names, entry)
		} else {
			not = append(not, entry)
		}
	}
	slices.Sort(names)
	slices.Sort(not)
	return slices.Compact(names), slices.Compact(not)
}
