package egress

import (
	"encoding/json"
	"os"
	"sync"
	"time"

	"agentjail.dev/runtime/network/names/work"
)

// Bounds of the log: events of a jail that makes as many as it likes.
const (
	logBurst     = 2000
	logPerSecond = 100
	// maxTold bounds the refused names that are remembered, so that each is told once.
	maxTold = 4096
)

// events is the log of decisions.
type events struct {
	mu      sync.Mutex
	file    *os.File
	max     int64 // bytes
	size    int64
	dropped int
	limit   *bucket
	told    map[string]bool
}

func newEvents(file *os.File, max int64) *events {
	e := &events{file: file, max: max, limit: newBucket(logBurst, logPerSecond), told: map[string]bool{}}
	if fi, err := file.Stat(); err == nil {
		e.size = fi.Size()
	}
	return e
}

// add writes an event. A log that cannot be written stops nothing.
func (e *events) add(v work.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.limit.try() {
		e.dropped++
		return
	}
	v.Time, v.Dropped = time.Now().UTC().Format(time.RFC3339Nano), e.dropped
	line, err := json.Marshal(v)
	if err != nil {
		return
	}
	e.dropped = 0
	line = append(line, '\n')
	if e.size+int64(len(line)) > e.max {
		if e.file.Truncate(0) != nil {
			return
		}
		e.size = 0
	}
	n, _ := e.file.Write(line)
	e.size += int64(n)
}

// refusedName tells of a name that was asked for and is not allowed, once.
func (e *events) refusedName(name, reason, remedy string) {
	e.mu.Lock()
	known := e.told[name]
	if !known {
		if len(e.told) >= maxTold {
			clear(e.told)
		}
		e.told[name] = true
	}
	e.mu.Unlock()
	if !known {
		e.add(work.Event{What: work.Name, Verdict: refused, Name: name, Reason: reason, Remedy: remedy})
	}
}

// forget has names be told of again, by other rules.
func (e *events) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.told)
}

const (
	allowed = "allowed"
	refused = "refused"
)
