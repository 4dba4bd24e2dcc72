package collector

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"agentjail.dev/runtime/observe/ebpf"
)

// Two processes make up the collector. The reader has the two capabilities that eBPF takes, and an
// id of its own; the writer may write the journals, and has no capability. Frames are what the
// first sends the second: a kind, then as many bytes as the kind has.
const (
	frameStatus = 'S' // a length, then JSON
	frameEvent  = 'E' // an event, as the kernel wrote it
	frameExec   = 'X' // one of a program that is executed
	frameCounts = 'C' // five numbers
)

// maxStatus bounds the status.
const maxStatus = 64 << 10

const countsSize = 5 * 8

// frames writes what the reader sends.
type frames struct{ w *bufio.Writer }

func (f frames) status(s Status) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	head := binary.LittleEndian.AppendUint32([]byte{frameStatus}, uint32(len(data)))
	_, err = f.w.Write(append(head, data...))
	return errors.Join(err, f.w.Flush())
}

func (f frames) event(raw []byte) error {
	kind := byte(frameEvent)
	switch len(raw) {
	case ebpf.Size:
	case ebpf.ExecSize:
		kind = frameExec
	default:
		return nil // never the kernel's
	}
	if err := f.w.WriteByte(kind); err != nil {
		return err
	}
	_, err := f.w.Write(raw)
	return err
}

func (f frames) counts(c ebpf.Counts) error {
	b := []byte{frameCounts}
	for _, n := range []uint64{c.Jail, c.Refused, c.Seen, c.Dropped, c.Lost} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	_, err := f.w.Write(b)
	return err
}

// A sink gets what frames hold.
type sink interface {
	status(Status)
	event(ebpf.Event)
	counts(ebpf.Counts)
	// bad gets the error of an event that is none.
	bad(error)
}

// readFrames reads frames until their end. The reader's output is not trusted: it comes from
// programs that jails called.
func readFrames(r io.Reader, s sink) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		kind, err := in.ReadByte()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = readFrame(in, kind, s)
		}
		if err != nil {
			return fmt.Errorf("the reader's frames: %w", err)
		}
	}
}

func readFrame(in *bufio.Reader, kind byte, s sink) error {
	switch kind {
	case frameEvent, frameExec:
		var all [ebpf.ExecSize]byte
		raw := all[:ebpf.Size]
		if kind == frameExec {
			raw = all[:]
		}
		if _, err := io.ReadFull(in, raw); err != nil {
			return err
		}
		e, err := ebpf.Parse(raw)
		if err != nil {
			s.bad(err)
			return nil
		}
		s.event(e)
	case frameCounts:
		var raw [countsSize]byte
		if _, err := io.ReadFull(in, raw[:]); err != nil {
			return err
		}
		n := func(i int) uint64 { return binary.LittleEndian.Uint64(raw[8*i:]) }
		s.counts(ebpf.Counts{Jail: n(0), Refused: n(1), Seen: n(2), Dropped: n(3), Lost: n(4)})
	case frameStatus:
		var size [4]byte
		if _, err := io.ReadFull(in, size[:]); err != nil {
			return err
		}
		n := binary.LittleEndian.Uint32(size[:])
		if n > maxStatus {
			return fmt.Errorf("a status of %d bytes", n)
		}
		data := make([]byte, n)
		if _, err := io.ReadFull(in, data); err != nil {
			return err
		}
		var st Status
		if err := json.Unmarshal(data, &st); err != nil {
			return err
		}
		s.status(st)
	default:
		return fmt.Errorf("kind %d is none", kind)
	}
	return nil
}
