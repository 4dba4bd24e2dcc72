package egress

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"
)

// ends is a connection and its deadline.
type ends struct {
	io.Reader
	at time.Time
}

// SetReadDeadline sets it.
func (e *ends) SetReadDeadline(at time.Time) error { e.at = at; return nil }

// TestHeads: every connection reads a small head, only some a large one at a time, and the rest
// wait in vain or until there is a place.
func TestHeads(t *testing.T) {
	hs := newHeads()
	hs.wait = 20 * time.Second
	read := func(n int) (*head, error) {
		h := hs.of(&ends{Reader: bytes.NewReader(make([]byte, 10*smallHead))})
		_, err := io.ReadFull(h, make([]byte, n))
		return h, err
	}
	var large []*head
	for range largeHeads {
		h, err := read(smallHead + 1)
		if err != nil {
			t.Fatal(err)
		}
		large = append(large, h)
	}
	for range 10 * largeHeads {
		if _, err := read(smallHead); err != nil {
			t.Fatalf("a small head: %v", err)
		}
	}
	hs.wait = time.Millisecond
	if h, err := read(smallHead + 1); !errors.Is(err, errTooLarge) || h.have != smallHead {
		t.Fatalf("a large head more: %v, %d bytes", err, h.have)
	}
	hs.wait = 20 * time.Second
	waits := make(chan error, 1)
	go func() {
		_, err := read(2 * smallHead)
		waits <- err
	}()
	if large[0].conn.(*ends).at.IsZero() {
		t.Error("a large head has all the time")
	}
	large[0].done()
	large[0].done() // frees its place once
	if !large[0].conn.(*ends).at.IsZero() {
		t.Error("what comes after a large head has its deadline")
	}
	if err := <-waits; err != nil {
		t.Fatalf("after one is done: %v", err)
	}
	if got := len(hs.places); got != largeHeads {
		t.Errorf("%d places are taken, want %d", got, largeHeads)
	}
	// What is done with is not counted any more.
	h := hs.of(&ends{Reader: bytes.NewReader(make([]byte, 10*smallHead))})
	for range 9 {
		if _, err := io.ReadFull(h, make([]byte, smallHead)); err != nil {
			t.Fatal(err)
		}
		h.done()
	}
}
