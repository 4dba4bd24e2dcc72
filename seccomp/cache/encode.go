package cache

import (
	"encoding/binary"
	"errors"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/seccomp"
)

// An encoder writes values so that no two lists of them read alike.
type encoder struct{ buf []byte }

func (e *encoder) number(n uint64) { e.buf = binary.AppendUvarint(e.buf, n) }

func (e *encoder) text(s string) {
	e.number(uint64(len(s)))
	e.buf = append(e.buf, s...)
}

func (e *encoder) flag(b bool) {
	if b {
		e.number(1)
	} else {
		e.number(0)
	}
}

func (e *encoder) optional(n *uint) {
	e.flag(n != nil)
	if n != nil {
		e.number(uint64(*n))
	}
}

func texts[T ~string](e *encoder, list []T) {
	e.number(uint64(len(list)))
	for _, s := range list {
		e.text(string(s))
	}
}

func (e *encoder) section(s *specs.LinuxSeccomp) {
	e.text(string(s.DefaultAction))
	e.optional(s.DefaultErrnoRet)
	texts(e, s.Architectures)
	texts(e, s.Flags)
	e.text(s.ListenerPath)
	e.text(s.ListenerMetadata)
	e.number(uint64(len(s.Syscalls)))
	for _, c := range s.Syscalls {
		texts(e, c.Names)
		e.text(string(c.Action))
		e.optional(c.ErrnoRet)
		e.number(uint64(len(c.Args)))
		for _, a := range c.Args {
			e.number(uint64(a.Index))
			e.number(a.Value)
			e.number(a.ValueTwo)
			e.text(string(a.Op))
		}
	}
}

func (e *encoder) list(l *seccomp.List) {
	e.text(l.About)
	e.text(l.Extends)
	e.number(uint64(len(l.Allow)))
	for _, g := range l.Allow {
		texts(e, g.Names)
		texts(e, g.When)
		e.text(g.Why)
	}
}

// encode writes a filter: its section, notes and program. Every create reads it again,
// and JSON's decoder would take it most of the time that reading the bundle takes.
func encode(f *Filter) []byte {
	e := encoder{buf: make([]byte, 0, 64<<10)}
	e.section(f.Delegates)
	texts(&e, f.Notes)
	e.text(string(f.Program))
	return e.buf
}

// errCut is a file that is not what encode wrote.
var errCut = errors.New("no whole filter")

// A decoder reads what an encoder wrote. After an error it reads zeros; its strings
// are parts of the whole text.
type decoder struct {
	rest string
	err  error
}

func (d *decoder) number() uint64 {
	// A varint has at most ten bytes (encoding/binary).
	n, size := binary.Uvarint([]byte(d.rest[:min(len(d.rest), binary.MaxVarintLen64)]))
	if size <= 0 {
		d.rest, d.err = "", errCut
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

func (d *decoder) text() string {
	n := d.number()
	if n > uint64(len(d.rest)) {
		d.rest, d.err = "", errCut
		return ""
	}
	s := d.rest[:n]
	d.rest = d.rest[n:]
	return s
}

// length is the number of a list's elements, each of which takes a byte or more.
func (d *decoder) length() int {
	n := d.number()
	if n > uint64(len(d.rest)) {
		d.rest, d.err = "", errCut
		return 0
	}
	return int(n)
}

func (d *decoder) flag() bool { return d.number() != 0 }

func (d *decoder) optional() *uint {
	if !d.flag() {
		return nil
	}
	n := uint(d.number())
	return &n
}

func textsOf[T ~string](d *decoder) []T {
	var out []T
	n := d.length()
	if n > 0 {
		out = make([]T, n)
	}
	for i := range n {
		out[i] = T(d.text())
	}
	return out
}

func (d *decoder) section() *specs.LinuxSeccomp {
	s := &specs.LinuxSeccomp{DefaultAction: specs.LinuxSeccompAction(d.text()), DefaultErrnoRet: d.optional()}
	s.Architectures = textsOf[specs.Arch](d)
	s.Flags = textsOf[specs.LinuxSeccompFlag](d)
	s.ListenerPath, s.ListenerMetadata = d.text(), d.text()
	for range d.length() {
		c := specs.LinuxSyscall{Names: textsOf[string](d), Action: specs.LinuxSeccompAction(d.text()), ErrnoRet: d.optional()}
		for range d.length() {
			c.Args = append(c.Args, specs.LinuxSeccompArg{
				Index: uint(d.number()), Value: d.number(), ValueTwo: d.number(), Op: specs.LinuxSeccompOperator(d.text()),
			})
		}
		s.Syscalls = append(s.Syscalls, c)
	}
	return s
}

// decode reads what encode wrote, and nothing that is shorter or longer.
func decode(data []byte) (*Filter, error) {
	d := decoder{rest: string(data)}
	f := &Filter{Delegates: d.section(), Notes: textsOf[string](&d)}
	f.Program = []byte(d.text())
	switch {
	case d.err != nil:
		return nil, d.err
	case d.rest != "" || len(f.Program) == 0 || len(f.Delegates.Syscalls) == 0:
		return nil, errCut
	}
	return f, nil
}
