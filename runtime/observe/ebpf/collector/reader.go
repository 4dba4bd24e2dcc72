package collector

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/privileges"
	"agentjail.dev/runtime/observe/ebpf"
	"agentjail.dev/runtime/observe/ebpf/jailmap"
)

// ReaderVerb is how the collector calls its own program as the reader. It is no verb of people's.
const ReaderVerb = "reader"

// Descriptors of the reader.
const (
	fdPins   = 3
	fdFrames = 4
)

// needed are the reader's capabilities.
var needed = []int{unix.CAP_BPF, unix.CAP_PERFMON}

// flushEvery is how long an event may wait to be written, and countEvery how often counters are
// read.
const (
	flushEvery = 100 * time.Millisecond
	countEvery = time.Second
)

// Read is the reader: it loads the programs that its only argument selects, and passes on their
// reports, until it is killed or the writer is gone. It gives up its privileges as its tasks end:
// two capabilities remain, and then a few calls.
func Read(options string) error {
	if err := privileges.Keep(needed...); err != nil {
		return fmt.Errorf("%w (remedy: CAP_BPF and CAP_PERFMON, or root)", err)
	}
	var o ebpf.Options
	if err := json.Unmarshal([]byte(options), &o); err != nil {
		return err
	}
	if o.Pins != "" {
		o.Pins = fmt.Sprintf("/proc/self/fd/%d", fdPins)
	}
	go endWithWriter()
	out := &locked{frames: frames{bufio.NewWriterSize(os.NewFile(fdFrames, "frames"), 64<<10)}}
	set, err := ebpf.Load(o)
	if err != nil {
		return errors.Join(err, out.status(Status{Error: err.Error()}))
	}
	defer set.Close()
	if err := out.status(Status{
		Pinned: o.Pins != "", Programs: set.Programs, Acting: set.Acting(),
		Verdict: o.Verdict.Names(),
	}); err != nil {
		return err
	}
	go out.count(set)
	var spaces []jailmap.Space
	if err := json.NewDecoder(os.Stdin).Decode(&spaces); err != nil {
		return fmt.Errorf("the jails that are there already: %w", err)
	}
	if err := set.Register(spaces); err != nil {
		return err
	}
	return out.follow(set)
}

// endWithWriter ends the process when the writer is gone, which has no capability by which its
// death could end another's process.
func endWithWriter() {
	for {
		p := []unix.PollFd{{Fd: fdFrames}}
		if _, err := unix.Poll(p, -1); err == unix.EINTR {
			continue
		}
		os.Exit(1)
	}
}

// locked has one writer of frames at a time.
type locked struct {
	sync.Mutex
	frames
}

// follow sends every event.
func (l *locked) follow(set *ebpf.Set) error {
	ring, err := ringbuf.NewReader(set.Events())
	if err != nil {
		return fmt.Errorf("reading the programs' events: %w", err)
	}
	defer ring.Close()
	if err := confineReader(); err != nil {
		return err
	}
	var rec ringbuf.Record
	for {
		ring.SetDeadline(time.Now().Add(flushEvery))
		err := ring.ReadInto(&rec)
		l.Lock()
		switch {
		case err == nil:
			if err = l.event(rec.RawSample); err == nil && ring.AvailableBytes() == 0 {
				err = l.w.Flush()
			}
		case errors.Is(err, os.ErrDeadlineExceeded):
			err = l.w.Flush()
		}
		l.Unlock()
		if err != nil {
			return err
		}
	}
}

// count reports losses.
func (l *locked) count(set *ebpf.Set) {
	sent := map[uint64]ebpf.Counts{}
	for range time.Tick(countEvery) {
		l.Lock()
		for _, c := range set.Counts() {
			if before := sent[c.Jail]; before.Dropped != c.Dropped || before.Lost != c.Lost {
				sent[c.Jail] = c
				_ = l.counts(c)
			}
		}
		_ = l.w.Flush()
		l.Unlock()
	}
}
