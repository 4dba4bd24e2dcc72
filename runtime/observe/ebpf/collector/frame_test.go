package collector

import (
	"bufio"
	"bytes"
	"testing"
	"time"

	"agentjail.dev/runtime/observe/ebpf"
)

type heard struct {
	statuses []Status
	events   []ebpf.Event
	lost     []ebpf.Counts
	wrong    int
}

func (h *heard) status(s Status)      { h.statuses = append(h.statuses, s) }
func (h *heard) event(e ebpf.Event)   { h.events = append(h.events, e) }
func (h *heard) counts(c ebpf.Counts) { h.lost = append(h.lost, c) }
func (h *heard) bad(error)            { h.wrong++ }

func written3(t testing.TB) []byte {
	t.Helper()
	var buf bytes.Buffer
	f := frames{bufio.NewWriter(&buf)}
	bad := make([]byte, ebpf.Size)
	bad[16] = 200
	for _, err := range []error{
		f.status(Status{Acting: []string{"socket"}}), f.event(make([]byte, ebpf.Size)), f.event(bad), f.event([]byte("short")),
		f.counts(ebpf.Counts{Jail: 1, Refused: 2, Seen: 3, Dropped: 4, Lost: 5}), f.w.Flush(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return buf.Bytes()
}

func TestFrames(t *testing.T) {
	var h heard
	if err := readFrames(bytes.NewReader(written3(t)), &h); err != nil {
		t.Fatal(err)
	}
	if len(h.statuses) != 1 || len(h.events) != 1 || h.wrong != 1 || len(h.lost) != 1 || h.lost[0].Lost != 5 || h.statuses[0].Acting[0] != "socket" {
		t.Errorf("%+v", h)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(written3(f))
	f.Add([]byte{frameStatus, 255, 255, 255, 255})
	f.Fuzz(func(_ *testing.T, b []byte) { _ = readFrames(bytes.NewReader(b), &heard{}) })
}

// TestDescribe: every hook has a kind that the journal knows, refused and not, and what a jail
// chose is cleaned.
func TestDescribe(t *testing.T) {
	now := time.Now()
	for h := ebpf.Socket; h <= ebpf.Syscall; h++ {
		for _, refused := range []bool{true, false} {
			if h == ebpf.Syscall && refused {
				continue
			}
			e := describe(&ebpf.Event{Hook: h, Refused: refused, Result: -38, Number: 425, Program: "a\x1b[31m\nb", Text: "\u202ex"}, 3, now, now)
			if e.Kind.String() == "" {
				t.Errorf("%v, refused %v: kind %d", h, refused, e.Kind)
			}
			if err := e.Complete(); err != nil {
				t.Error(err)
			}
			e.Clean()
			if bytes.ContainsAny([]byte(e.Program), "\x1b\n") || e.Count != 3 {
				t.Errorf("%q, %d times", e.Program, e.Count)
			}
		}
	}
}
