package http1

import (
	"bufio"
	"bytes"
	"io"
	"sync"
)

// A merger writes by a buffer: small parts that come together are sent together. One that chooses
// how small the parts of its body are would otherwise choose how many writes and packets a byte
// costs. What is written waits for nothing: before a read that can wait it is flushed.
type merger struct {
	w   io.Writer
	buf []byte // nil where it is empty: a connection has none while it waits
}

// mergers are buffers. Heads can have credentials: what was in one is overwritten.
var mergers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// Write keeps what there is room for. What is large is written by itself.
func (m *merger) Write(b []byte) (int, error) {
	if len(m.buf)+len(b) > bufferSize {
		if err := m.flush(); err != nil {
			return 0, err
		}
	}
	if len(b) >= bufferSize {
		return m.w.Write(b)
	}
	if m.buf == nil {
		m.buf = mergers.Get().(*[bufferSize]byte)[:0]
	}
	m.buf = append(m.buf, b...)
	return len(b), nil
}

// flush writes what is kept.
func (m *merger) flush() error {
	if m.buf == nil {
		return nil
	}
	b := m.buf
	m.buf = nil
	_, err := m.w.Write(b)
	clear(b)
	mergers.Put((*[bufferSize]byte)(b[:bufferSize]))
	return err
}

// until flushes unless what is read next has come already: all of it up to and with end.
func (m *merger) until(r *bufio.Reader, end string) error {
	if m.buf == nil {
		return nil
	}
	if have, _ := r.Peek(r.Buffered()); bytes.Contains(have, []byte(end)) {
		return nil
	}
	return m.flush()
}

// count is until, for a number of bytes.
func (m *merger) count(r *bufio.Reader, n int) error {
	if r.Buffered() >= n {
		return nil
	}
	return m.flush()
}
