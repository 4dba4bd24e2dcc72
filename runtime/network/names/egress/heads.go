package egress

import (
	"errors"
	"io"
	"time"
)

// Bounds of the data that is read from a connection before it is judged: a ClientHello or a
// request's head. Every connection may hold a small head. Only some large heads are read at a time;
// the others wait.
const (
	smallHead  = 4 << 10 // bytes
	largeHeads = 32
	// headTime is how long a large head may wait for a place, and then occupy it: its client is on
	// the same machine.
	headTime = 5 * time.Second
)

// heads are the places for large heads.
type heads struct {
	places chan struct{}
	wait   time.Duration
}

func newHeads() *heads { return &heads{places: make(chan struct{}, largeHeads), wait: headTime} }

// errTooLarge ends a connection that got no place in time.
var errTooLarge = errors.New("too many large heads at once")

// head is one side of a connection whose data is kept until it is judged.
type head struct {
	io.Reader
	of    *heads
	conn  source
	have  int // bytes that are kept
	large bool
}

// source is the part of a connection that a head needs. Its deadline limits the time of a large
// head.
type source interface {
	io.Reader
	SetReadDeadline(time.Time) error
}

func (h *heads) of(c source) *head { return &head{Reader: c, of: h, conn: c} }

// Read reads at most as much as there is room for.
func (h *head) Read(b []byte) (int, error) {
	if h.have >= smallHead && !h.large {
		if err := h.grow(); err != nil {
			return 0, err
		}
	}
	if !h.large {
		b = b[:min(len(b), smallHead-h.have)]
	}
	n, err := h.Reader.Read(b)
	h.have += n
	return n, err
}

func (h *head) grow() error {
	late := time.NewTimer(h.of.wait)
	defer late.Stop()
	select {
	case h.of.places <- struct{}{}:
		h.large = true
		// A place is temporary, also for a second request, which has no other deadline.
		return h.conn.SetReadDeadline(time.Now().Add(h.of.wait))
	case <-late.C:
		return errTooLarge
	}
}

// done frees the kept data and the place.
func (h *head) done() {
	h.have = 0
	if h.large {
		h.large = false
		<-h.of.places
		_ = h.conn.SetReadDeadline(time.Time{})
	}
}
