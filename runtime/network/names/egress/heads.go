package egress

import (
	"errors"
	"io"
	"time"
)

// Bounds of what is read of connections before it is judged: a hello, a head. Every connection may hold a small one. Of larger ones only
// some are read at a time: the others wait.
const (
	smallHead  = 4 << 10 // bytes
	largeHeads = 32
)

// heads are the places for large heads.
type heads struct {
	places chan struct{}
	wait   time.Duration
}

func newHeads() *heads { return &heads{places: make(chan struct{}, largeHeads), wait: helloTime} }

// errTooLarge ends a connection that waited in vain.
var errTooLarge = errors.New("too many large heads at once")

// head is a connection's side that is read and kept until it is judged.
type head struct {
	io.Reader
	of    *heads
	have  int // bytes that are kept
	large bool
}

func (h *heads) of(r io.Reader) *head { return &head{Reader: r, of: h} }

// Read reads no more than there is room for.
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
		return nil
	case <-late.C:
		return errTooLarge
	}
}

// done says that nothing is kept any more.
func (h *head) done() {
	h.have = 0
	if h.large {
		h.large = false
		<-h.of.places
	}
}
