package collector

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/internal/budget"
	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/procstatus"
	"agentjail.dev/runtime/observe/ebpf"
	"agentjail.dev/runtime/observe/ebpf/jailmap"
	"agentjail.dev/runtime/observe/ebpf/status"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/state"
)

// writeEvery is how long an event may wait for others, and maxPending how many wait at most.
const (
	writeEvery = 200 * time.Millisecond
	maxPending = 4096
)

// A writer writes events to the journals of jails.
type writer struct {
	place journal.Place
	logf  func(format string, args ...any)
	// print, if not nil, gets every event, whether or not its jail has a journal.
	print func(journal.Event)

	// registered, if not nil, takes the jails that the reader is to register.
	registered io.WriteCloser

	mu sync.Mutex
	// jails are those that were last seen to have these host ids: a jail may be gone before what it
	// did is written.
	jails   map[uint64]known
	pending map[uint64][]counted // by jail
	n       int
	lost    map[uint64]uint64 // dropped and lost, by jail, as last reported
	failed  error
	wrong   int
}

// known are the records of jails, as they were.
type known struct {
	at     time.Time
	briefs []*state.Brief
	// words are what is left for arguments and directories of its programs.
	words budget.Bucket
}

// words bounds arguments and working directories in a jail's journal. Those beyond the bound are
// left out of their event: long arguments must not evict refusals from the bounded journal.
var words = budget.Budget{Burst: 512 << 10, Rate: 16 << 10}

// trimArgs leaves arguments and directory out of an event of a jail that has had its share of them.
func (w *writer) trimArgs(jail uint64, e *journal.Event) {
	if len(e.Argv) == 0 && e.Cwd == "" {
		return
	}
	n := int64(len(e.Cwd))
	for _, s := range e.Argv {
		n += int64(len(s))
	}
	w.mu.Lock()
	k := w.jails[jail]
	enough := k.words.Take(words, n, time.Now())
	w.jails[jail] = k
	w.mu.Unlock()
	if !enough {
		e.Argv, e.Cwd, e.ArgvOmitted = nil, "", true
	}
}

// lookupEvery is how long an answer is valid. No jail gets the host ids of another so soon after
// its end.
const lookupEvery = time.Second

// counted is an event, and how many of its kind there were.
type counted struct {
	ebpf.Event
	count uint64
}

func newWriter(place journal.Place, o Options) *writer {
	return &writer{
		place: place, logf: o.Logf, print: o.Print, jails: map[uint64]known{}, pending: map[uint64][]counted{},
		lost: map[uint64]uint64{},
	}
}

func (w *writer) status(s Status) {
	if s.Error != "" {
		w.failed = errors.New(s.Error)
		return
	}
	w.logf("programs act on: %s", strings.Join(s.Acting, ", "))
	for why, names := range missing(s.Programs) {
		w.logf("without %s: %s", strings.Join(names, ", "), why)
	}
	if data, err := json.Marshal(s); err == nil {
		if err := atomicfile.Write(status.StatusFile, data, 0o644); err != nil {
			w.logf("%v", err)
		}
	}
	w.register()
	ready()
}

func (w *writer) registry() jailmap.Registry { return jailmap.Registry{Root: w.place.Store.Root} }

// register has the reader register the jails that were there before the programs.
func (w *writer) register() {
	if w.registered == nil {
		return
	}
	defer w.registered.Close()
	spaces, err := w.registry().All()
	if err == nil || errors.Is(err, os.ErrNotExist) {
		err = json.NewEncoder(w.registered).Encode(spaces)
	}
	if err != nil {
		w.logf("the jails that are there already: %v", err)
	}
}

// missing are the programs that are not there, by the reason.
func missing(programs []ebpf.Loaded) map[string][]string {
	out := map[string][]string{}
	for _, p := range programs {
		if p.Why != "" {
			out[p.Why] = append(out[p.Why], p.Name)
		}
	}
	return out
}

// bad counts events that are none: one line reports it.
func (w *writer) bad(err error) {
	if w.wrong++; w.wrong == 1 {
		w.logf("%v: left out, as are further ones", err)
	}
}

func (w *writer) event(e ebpf.Event) {
	w.mu.Lock()
	list := w.pending[e.Jail]
	recent := list[max(0, len(list)-7):]
	if i := slices.IndexFunc(recent, func(c counted) bool { return same(&c.Event, &e) }); i >= 0 {
		recent[i].count++
	} else {
		w.pending[e.Jail] = append(list, counted{e, 1})
		w.n++
	}
	full := w.n >= maxPending
	w.mu.Unlock()
	if full {
		w.flush()
	}
}

// same reports whether two events differ in nothing but their time and process.
func same(a, b *ebpf.Event) bool {
	x, y := *a, *b
	x.Time, y.Time, x.Pid, y.Pid, x.Parent, y.Parent = 0, 0, 0, 0, 0, 0
	return x == y
}

func (w *writer) counts(c ebpf.Counts) {
	w.mu.Lock()
	now := c.Dropped + c.Lost
	missing := now - w.lost[c.Jail]
	if now < w.lost[c.Jail] {
		missing = now
	}
	if len(w.lost) >= maxKnown { // the reader names jails, and is not trusted: a second report is better than a record for ever
		clear(w.lost)
	}
	w.lost[c.Jail] = now
	w.mu.Unlock()
	if missing == 0 {
		return
	}
	e := journal.Event{
		Kind: journal.JournalLost, Source: journal.SourceEBPF, Dropped: missing,
		Reason: fmt.Sprintf("of %d events so far, %d were beyond what is reported of one jail a second, and for %d the ring was full", c.Seen, c.Dropped, c.Lost),
	}
	for _, b := range w.jailsWithIDs(c.Jail, nil) {
		w.append(b, e)
	}
}

func (w *writer) flushAlways(ctx context.Context) {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.flush()
		}
	}
}

// flush writes the events that wait.
func (w *writer) flush() {
	boot := booted()
	w.mu.Lock()
	pending := w.pending
	w.pending, w.n = map[uint64][]counted{}, 0
	w.mu.Unlock()
	for jail, list := range pending {
		briefs := w.jailsWithIDs(jail, list)
		shares := make([][]journal.Event, len(briefs))
		for i := range list {
			for _, n := range owners(&list[i].Event, briefs) {
				e := describe(&list[i].Event, list[i].count, boot, journal.Of(briefs[n]).Born)
				w.trimArgs(jail, &e)
				shares[n] = append(shares[n], e)
			}
		}
		for n, b := range briefs {
			w.append(b, shares[n]...)
		}
	}
}

// owners returns the indices of the jails whose event it is, of all that have its host ids, as
// those of a pod do. A mount namespace is one jail's at a time. Where none of them is known to have
// the event's, its process's parents decide. An event that is found to be no jail's is every
// jail's: none is lost.
func owners(e *ebpf.Event, all []*state.Brief) []int {
	var mounted, parents, every []int
	for i, b := range all {
		every = append(every, i)
		if len(all) == 1 || hasMounts(b, e) {
			mounted = append(mounted, i)
		}
	}
	if len(mounted) > 0 {
		return lastBorn(e, all, mounted)
	}
	for i, b := range all {
		if descends(int(e.Pid), b.InitPid) {
			parents = append(parents, i)
		}
	}
	if len(parents) > 0 {
		return parents
	}
	return every
}

// lastBorn returns, of jails that have had a mount namespace of the same number, the one that was
// made last before the event. The kernel gives a number anew when a jail has ended, whose record
// stays until it is deleted.
func lastBorn(e *ebpf.Event, all []*state.Brief, of []int) []int {
	then := e.Time / uint64(time.Second/state.StartTicks)
	born := slices.DeleteFunc(slices.Clone(of), func(i int) bool { return all[i].InitStart > then })
	if len(born) == 0 {
		return of
	}
	return []int{slices.MaxFunc(born, func(i, j int) int { return cmp.Compare(all[i].InitStart, all[j].InitStart) })}
}

// hasMounts reports whether a jail is known to have the mount namespace of an event.
func hasMounts(b *state.Brief, e *ebpf.Event) bool { return e.Mounts != 0 && b.MountNS == e.Mounts }

// append writes to the journal of a jail, where it has one, and prints after that: a reader of what
// is printed finds it in the journal.
func (w *writer) append(b *state.Brief, events ...journal.Event) {
	if len(events) == 0 {
		return
	}
	err := journal.Of(b).Log().Append(events...)
	if err != nil && !errors.Is(err, journal.ErrNone) && !errors.Is(err, os.ErrNotExist) {
		w.logf("%v", err)
	}
	if w.print == nil {
		return
	}
	for _, e := range events {
		e.Jail, e.Key = b.ID, b.Key
		if e.Complete() == nil {
			e.Clean()
			w.print(e)
		}
	}
}

// jailsWithIDs returns the jails that have these host ids, or had. They are read anew where an
// event is of a mount namespace that none of them that lives was known to have: a jail's is
// recorded after the jail, a pod gets further jails, and an ended jail's number is given to others.
func (w *writer) jailsWithIDs(jail uint64, list []counted) []*state.Brief {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.jails[jail]
	if time.Since(k.at) < lookupEvery && ofLiving(k.briefs, list) {
		return k.briefs
	}
	var now []*state.Brief
	dir := filepath.Join(w.place.Store.Root, "ids", strconv.FormatUint(jail>>32, 10))
	if jail>>32 == 0 {
		dir = w.registry().Dir(uint32(jail))
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if b, err := w.place.Store.Brief(e.Name()); err == nil {
			now = append(now, b)
		}
	}
	gone := slices.DeleteFunc(slices.Clone(k.briefs), func(b *state.Brief) bool {
		same := func(o *state.Brief) bool { return o.Key == b.Key }
		has := func(c counted) bool { return hasMounts(b, &c.Event) }
		return slices.ContainsFunc(now, same) || len(now) > 0 && !slices.ContainsFunc(list, has)
	})
	now = append(now, gone...)
	if len(w.jails) >= maxKnown {
		clear(w.jails)
	}
	w.jails[jail] = known{at: time.Now(), briefs: now, words: k.words}
	return now
}

// ofLiving reports whether all events are of mount namespaces that living jails are known to have.
func ofLiving(jails []*state.Brief, list []counted) bool {
	living := slices.DeleteFunc(slices.Clone(jails), func(b *state.Brief) bool { return !b.InitAlive() })
	return !slices.ContainsFunc(list, func(c counted) bool {
		return !slices.ContainsFunc(living, func(b *state.Brief) bool { return hasMounts(b, &c.Event) })
	})
}

// booted is when the machine was, by the clock that events have.
func booted() time.Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return time.Time{}
	}
	return time.Now().Add(-time.Duration(ts.Nano()))
}

// maxParents bounds the search for a process's jail.
const maxParents = 128

// maxKnown bounds what is remembered of jails.
const maxKnown = 4096

// descends reports whether a process is another's descendant, or the other. A process that has
// exited has no known parents, so it may be any jail's.
func descends(pid, of int) bool {
	for range maxParents {
		if pid == of {
			return true
		}
		parent, err := parentOf(pid)
		if err != nil {
			return true
		}
		if parent <= 1 {
			return false
		}
		pid = parent
	}
	return false
}

func parentOf(pid int) (int, error) {
	f, err := procstatus.Stat(pid)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(f[1])
}
