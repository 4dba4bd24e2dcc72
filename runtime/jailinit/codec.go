package jailinit

import "encoding/binary"

// codec writes or reads the fields of orders. JSON would cost the step more
// time than all of its checks.
type codec interface {
	u32(*uint32)
	u64(*uint64)
	flag(*bool)
	text(*string)
	count(*int)
}

// list visits the elements of a slice, which a decoder makes first.
func list[T any](c codec, s *[]T, each func(*T)) {
	n := len(*s)
	c.count(&n)
	if n != len(*s) {
		*s = make([]T, n)
	}
	for i := range *s {
		each(&(*s)[i])
	}
}

type encoder struct{ buf []byte }

func (e *encoder) u32(v *uint32) { e.buf = binary.LittleEndian.AppendUint32(e.buf, *v) }
func (e *encoder) u64(v *uint64) { e.buf = binary.LittleEndian.AppendUint64(e.buf, *v) }

func (e *encoder) flag(v *bool) {
	var b byte
	if *v {
		b = 1
	}
	e.buf = append(e.buf, b)
}

func (e *encoder) count(n *int) { v := uint32(*n); e.u32(&v) }

func (e *encoder) text(s *string) {
	n := len(*s)
	e.count(&n)
	e.buf = append(e.buf, *s...)
}

// decoder reads what an encoder wrote. Orders come from agentjail alone; the
// bounds keep a damaged file from being taken for orders.
type decoder struct {
	buf []byte
	bad bool
}

func (d *decoder) take(n int) []byte {
	if d.bad || n < 0 || n > len(d.buf) {
		d.bad = true
		return make([]byte, min(max(n, 0), 8))
	}
	b := d.buf[:n]
	d.buf = d.buf[n:]
	return b
}

func (d *decoder) u32(v *uint32) { *v = binary.LittleEndian.Uint32(d.take(4)) }
func (d *decoder) u64(v *uint64) { *v = binary.LittleEndian.Uint64(d.take(8)) }
func (d *decoder) flag(v *bool)  { *v = d.take(1)[0] != 0 }

func (d *decoder) count(n *int) {
	var v uint32
	d.u32(&v)
	// Every element takes at least a byte.
	if int64(v) > int64(len(d.buf)) {
		d.bad = true
	}
	if *n = int(v); d.bad {
		*n = 0
	}
}

func (d *decoder) text(s *string) {
	var n int
	d.count(&n)
	*s = string(d.take(n))
}
