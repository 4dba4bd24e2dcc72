package sources

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/network/names/decisions"
	"agentjail.dev/runtime/observe/journal"
)

// A Follower returns events as they happen, of all jails of a place or of some. Files are watched
// (inotify(7)); counters, of whose changes not every layout of control groups notifies, are looked
// at once a second.
type Follower struct {
	place journal.Place
	// wanted are ids or their beginnings; none is all jails.
	wanted []string
	jails  map[string]*followed
	notify int // inotify
	kmsg   int // -1 where it may not be read
	quit   [2]int
	// changed reports that the list of jails may have changed, and begun that it was read.
	changed, begun bool
}

// A followed jail is one of a Follower's, and how far it was read.
type followed struct {
	jail   *journal.Jail
	tail   *journal.Tail
	net    *decisions.Reader
	counts map[journal.Kind]uint64
	kernel *auditParser
	gone   bool
}

// tick is how often counters are looked at.
const tick = time.Second

// NewFollower begins to follow.
func NewFollower(p journal.Place, wanted []string) (*Follower, error) {
	f := &Follower{place: p, wanted: wanted, jails: map[string]*followed{}, changed: true, kmsg: -1, quit: [2]int{-1, -1}}
	var err error
	if f.notify, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err != nil {
		return nil, fmt.Errorf("watching: %w (remedy: fs.inotify.max_user_instances)", err)
	}
	if err := unix.Pipe2(f.quit[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		f.Close()
		return nil, err
	}
	if fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
		f.kmsg = fd
		_, _ = unix.Seek(fd, 0, unix.SEEK_END)
	}
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		f.Close()
		return nil, fmt.Errorf("the journals: %w", err)
	}
	if err := f.watch(p.Dir); err != nil {
		f.Close()
		return nil, err
	}
	_ = f.watch(filepath.Join(p.Store.Root, "jails")) // before the first jail there is none
	return f, nil
}

// Close ends it.
func (f *Follower) Close() {
	for _, fd := range []int{f.notify, f.kmsg, f.quit[0], f.quit[1]} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	for _, j := range f.jails {
		j.close()
	}
}

func (j *followed) close() {
	if j.tail != nil {
		j.tail.Close()
	}
	if j.net != nil {
		j.net.Close()
	}
}

func (f *Follower) watch(path string) error {
	_, err := unix.InotifyAddWatch(f.notify, path,
		unix.IN_MODIFY|unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_MOVED_FROM|unix.IN_DELETE|unix.IN_ONLYDIR)
	if err != nil {
		return fmt.Errorf("watching %s: %w (remedy: fs.inotify.max_user_watches)", path, err)
	}
	return nil
}

// Run hands each event on as it happens, until ctx ends or each fails.
func (f *Follower) Run(ctx context.Context, each func(journal.Event) error) error {
	stop := context.AfterFunc(ctx, func() { _, _ = unix.Write(f.quit[1], []byte{0}) })
	defer stop()
	for ctx.Err() == nil {
		events, more, err := f.next()
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := each(e); err != nil {
				return err
			}
		}
		if !more {
			if err := f.wait(); err != nil {
				return err
			}
		}
	}
	return nil
}

// wait waits until something may have happened.
func (f *Follower) wait() error {
	fds := []unix.PollFd{
		{Fd: int32(f.notify), Events: unix.POLLIN},
		{Fd: int32(f.quit[0]), Events: unix.POLLIN},
		{Fd: int32(f.kmsg), Events: unix.POLLIN},
	}
	if _, err := unix.Poll(fds, int(tick.Milliseconds())); err != nil && !errors.Is(err, unix.EINTR) {
		return err
	}
	// Of a burst, all is read at once.
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(f.notify, buf)
		if err != nil || n <= 0 {
			return nil
		}
		f.changed = f.changed || structural(buf[:n])
	}
}

// structural reports whether a directory's members changed, or events were lost.
func structural(buf []byte) bool {
	for len(buf) >= unix.SizeofInotifyEvent {
		mask, size := binary.NativeEndian.Uint32(buf[4:]), int(binary.NativeEndian.Uint32(buf[12:]))
		if mask&^unix.IN_MODIFY != 0 {
			return true
		}
		buf = buf[min(len(buf), unix.SizeofInotifyEvent+size):]
	}
	return false
}

// next returns what is new. more reports that there is more to read at once.
func (f *Follower) next() (out []journal.Event, more bool, err error) {
	if f.changed {
		if err := f.list(); err != nil {
			return nil, false, err
		}
	}
	f.records()
	for key, j := range f.jails {
		events, rest := j.next(f.place)
		more = more || rest
		out = append(out, merged(events, j.jail)...)
		if j.gone && !rest {
			j.close()
			delete(f.jails, key)
		}
	}
	slices.SortStableFunc(out, func(a, b journal.Event) int { return strings.Compare(a.Time, b.Time) })
	return out, more, nil
}

// list looks which jails there are.
func (f *Follower) list() error {
	_ = f.watch(filepath.Join(f.place.Store.Root, "jails"))
	jails, err := f.place.Jails()
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, j := range jails {
		name := j.Key + "@" + j.Born.String()
		known := f.jails[name]
		if known == nil && (j.Brief == nil || !f.wants(j.ID)) {
			continue // it ended before we looked
		}
		there[name] = j.Brief != nil
		if known == nil {
			f.jails[name] = f.begin(j)
		}
	}
	for name, j := range f.jails {
		j.gone = !there[name]
	}
	f.changed, f.begun = false, true
	return nil
}

func (f *Follower) wants(id string) bool {
	return len(f.wanted) == 0 || slices.ContainsFunc(f.wanted, func(w string) bool { return strings.HasPrefix(id, w) })
}

// begin follows a jail: one that was there before us from now on, one that came later from its
// beginning.
func (f *Follower) begin(jail *journal.Jail) *followed {
	j := &followed{jail: jail, counts: map[journal.Kind]uint64{}}
	if jail.Path != "" {
		j.tail = journal.Follow(jail.Path, !f.begun)
	}
	_ = f.watch(f.place.Store.Dir(jail.Key)) // ends with the directory
	if ids, ok := idsOf(jail); ok {
		j.kernel = newParser(jail, ids)
	}
	if !f.begun {
		j.network(f.place)
		j.counted(f.place)
	}
	return j
}

// next returns what is new of a jail.
func (j *followed) next(p journal.Place) (out []journal.Event, more bool) {
	if j.tail != nil {
		events, err := j.tail.Next()
		out, more = append(out, events...), len(events) > 0
		if err != nil {
			out = append(out, journal.Event{Kind: journal.SourceAbsent, Target: journal.SourceOwn, Reason: err.Error()})
			j.tail.Close()
			j.tail = nil
		}
	}
	events := j.network(p)
	out, more = append(out, events...), more || len(events) > 0
	if !j.gone {
		out = append(out, j.counted(p)...)
	}
	if j.kernel != nil {
		out = append(out, j.kernel.out...)
		j.kernel.out = nil
	}
	return out, more
}

// network reads on in the log of the jail's network.
func (j *followed) network(p journal.Place) (out []journal.Event) {
	if j.net == nil {
		var err error
		if j.net, err = decisions.NewReader(p.Store.Dir(j.jail.Key)); err != nil {
			return nil // it has none, or none yet
		}
	}
	events, err := j.net.Next()
	if err != nil {
		return nil
	}
	for _, e := range events {
		out = append(out, fromNetwork(e)...)
	}
	return out
}

// counted are the counters that went up since.
func (j *followed) counted(p journal.Place) (out []journal.Event) {
	if b := j.jail.Brief; b != nil && b.InitPid == 0 {
		// It was being made when it was first seen.
		if b, err := p.Store.Brief(j.jail.Key); err == nil && b.Journal == j.jail.Path {
			j.jail.Brief = b
		}
	}
	events, _ := groupCounters(p.Store, j.jail)
	full, _ := layer(p.Store, j.jail)
	now := map[journal.Kind]bool{}
	for _, e := range slices.Concat(events, full) {
		n := max(1, e.Count)
		if now[e.Kind] = true; n > j.counts[e.Kind] {
			e.Count = n - j.counts[e.Kind]
			j.counts[e.Kind] = n
			out = append(out, e)
		}
	}
	for _, kind := range []journal.Kind{journal.LimitLayer, journal.LimitInodes} {
		if !now[kind] {
			delete(j.counts, kind) // there is room again
		}
	}
	return out
}

// records hands what is new in the kernel's log to all jails.
func (f *Follower) records() {
	if f.kmsg < 0 {
		return
	}
	_ = readKmsg(f.kmsg, func(text string, at time.Time) { // an error is the next call's, too
		for _, j := range f.jails {
			if j.kernel != nil {
				j.kernel.line(text, at)
			}
		}
	})
}
