package egress

import (
	"encoding/json"
	"os"
	"sync"
	"time"

	"agentjail.dev/runtime/network/names/decisions"
)

// Bounds of the log. A jail can cause any number of events.
const (
	logBurst     = 2000
	logPerSecond = 100
	// maxReported bounds the refused names that are remembered, so that each is logged once.
	maxReported = 4096
)

// events is the log of decisions.
type events struct {
	mu       sync.Mutex
	files    []*os.File
	turn     int    // which of them is written
	seq      uint64 // of the last event
	max      int64  // bytes of a file
	size     int64
	dropped  int
	limit    *bucket
	reported map[string]bool
}

// newEvents continues a log, which has at most max bytes in all its files.
func newEvents(max int64, turn int, seq uint64, files ...*os.File) *events {
	e := &events{
		files: files, turn: turn % len(files), seq: seq, max: max / int64(len(files)), limit: newBucket(logBurst, logPerSecond),
		reported: map[string]bool{},
	}
	if fi, err := files[e.turn].Stat(); err == nil {
		e.size = fi.Size()
	}
	return e
}

// add writes an event. A failed write does not stop the connection.
func (e *events) add(v decisions.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.limit.try() {
		e.dropped++
		return
	}
	v.Seq, v.Time, v.Dropped = e.seq+1, time.Now().UTC().Format(time.RFC3339Nano), e.dropped
	line, err := json.Marshal(v)
	if err != nil {
		return
	}
	e.dropped = 0
	e.write(append(line, '\n'))
}

// write writes a line to the current file. If that is full, the next file is truncated and becomes
// the current one.
func (e *events) write(line []byte) {
	if e.size+int64(len(line)) > e.max {
		turn := (e.turn + 1) % len(e.files)
		if e.files[turn].Truncate(0) != nil {
			return
		}
		e.turn, e.size = turn, 0
	}
	e.seq++
	n, err := e.files[e.turn].Write(line)
	if err != nil && e.files[e.turn].Truncate(e.size) == nil {
		return // no part of a line is left
	}
	e.size += int64(n)
}

// refusedName logs a name that was requested and is not allowed, once.
func (e *events) refusedName(name, reason, remedy string) {
	e.mu.Lock()
	known := e.reported[name]
	if !known {
		if len(e.reported) >= maxReported {
			clear(e.reported)
		}
		e.reported[name] = true
	}
	e.mu.Unlock()
	if !known {
		e.add(decisions.Event{What: decisions.Name, Verdict: refused, Name: name, Reason: reason, Remedy: remedy})
	}
}

// forget lets names be logged again under new rules.
func (e *events) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.reported)
}

const (
	allowed = "allowed"
	refused = "refused"
)
