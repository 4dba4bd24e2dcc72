package http1

import (
	"bufio"
	"bytes"
	"io"
	"sync"
)

// A merger writes through a buffer, so that small parts that arrive together are sent together.
// Otherwise a client with tiny parts could cause a write and a packet for each byte. The buffer is
// flushed before each read that can block, so that written data never waits.
type merger struct {
	w   io.Writer
	buf []byte // nil where it is empty: a connection has none while it waits
}

// mergers is a pool of buffers. They are overwritten after use, since heads can contain
// credentials.
var mergers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// Write buffers the bytes if there is room. Large data is written directly.
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

// flush writes the buffered bytes.
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

// until flushes unless the next text, up to and including end, is in the reader's buffer already.
func (m *merger) until(r *bufio.Reader, end string) error {
	if m.buf == nil {
		return nil
	}
	if have, _ := r.Peek(r.Buffered()); bytes.Contains(have, []byte(end)) {
		return nil
	}
	return m.flush()
}

// count is like until, for a number of bytes.
func (m *merger) count(r *bufio.Reader, n int) error {
	if r.Buffered() >= n {
		return nil
	}
	return m.flush()
}
