package collector

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/ebpf"
	"agentjail.dev/runtime/ebpf/hasher"
	"agentjail.dev/runtime/journal"
	"agentjail.dev/runtime/state"
)

// executed is an event of a program of an overlay, that changed then.
func executed(inode uint64, changed time.Time) ebpf.Event {
	return ebpf.Event{
		Jail: 5 << 32, Hook: ebpf.Exec, Program: "sh", Text: "/bin/x", Args: [6]uint64{uint64(changed.UnixNano()), unix.OVERLAYFS_SUPER_MAGIC << 32, inode, 100},
	}
}

// TestWaits: an event of a program waits for its hash while others are written, unless there is no room; the journal's chain holds.
func TestWaits(t *testing.T) {
	var requests bytes.Buffer
	answers, toAnswers := io.Pipe()
	began := time.Now()
	client := hasher.NewClientAt(&requests, func() time.Time { return began }) // no answer is late
	ended := make(chan struct{})
	go func() { _ = client.Listen(answers); close(ended) }()
	var printed []journal.Event
	w := newWriter(journal.Place{}, Options{Say: t.Logf, Print: func(e journal.Event) { printed = append(printed, e) }})
	w.hashes = client
	b := &state.Brief{ID: "a", Key: "a", Journal: filepath.Join(t.TempDir(), "a@20261124T080000.000000.jsonl")}
	if err := journal.Of(b).Log().Begin(journal.Event{Kind: "jail.create"}); err != nil {
		t.Fatal(err)
	}
	w.jails[5<<32] = known{at: time.Now(), briefs: []*state.Brief{b}}
	born := journal.Of(b).Born
	w.event(executed(3, born.Add(-time.Hour)))
	if w.flush(false); len(printed) != 0 {
		t.Fatalf("without its hash: %+v", printed)
	}
	w.flush(true) // there is no room, or no time
	w.event(executed(1, born.Add(-time.Hour)))
	w.event(ebpf.Event{Jail: 5 << 32, Hook: ebpf.IOUring, Refused: true, Program: "sh"})
	w.event(executed(2, born.Add(time.Second)))
	w.event(executed(4, born.Add(-time.Hour)))
	if w.flush(false); len(printed) != 2 {
		t.Fatalf("before the hashes: %+v", printed)
	}
	sum := sha256.Sum256([]byte("program"))
	for requests.Len() > binary.Size(hasher.Request{}) { // all but the last
		var r hasher.Request
		if err := binary.Read(&requests, binary.LittleEndian, &r); err != nil {
			t.Fatal(err)
		}
		if err := binary.Write(toAnswers, binary.LittleEndian, hasher.Answer{Number: r.Number, Sum: sum}); err != nil {
			t.Fatal(err)
		}
	}
	toAnswers.Close()
	<-ended
	w.flush(false)
	text := "sha256:" + hex.EncodeToString(sum[:])
	want := []struct{ kind, hash, fact string }{
		{"process.exec", "", "unhashed=late"}, {passed, "", ""}, {"process.exec", text, ""}, {"process.written", "", "contents=" + text}, {"process.exec", "", "unhashed=ended"},
	}
	if len(printed) != len(want) || w.n != 0 {
		t.Fatalf("%d wait: %+v", w.n, printed)
	}
	for i, want := range want {
		e := printed[i]
		if e.Kind != want.kind || e.Hash != want.hash || want.fact != "" && !slices.Contains(e.Facts, want.fact) || want.fact == "" && len(e.Facts) > 0 {
			t.Errorf("%d: %s %q %q, not %+v", i, e.Kind, e.Hash, e.Facts, want)
		}
	}
	if r, err := journal.Verify(b.Journal); err != nil || !r.Whole() || r.Events != uint64(len(want)+1) {
		t.Errorf("the chain: %+v, %v", r, err)
	}
}

// TestOldest: what may be shared is judged by the oldest of the jails.
func TestOldest(t *testing.T) {
	a, b := &state.Brief{}, &state.Brief{}
	a.Journal, b.Journal = "/x/a@20261124T080000.000000.jsonl", "/x/b@20261124T070000.000000.jsonl"
	if got := oldest([]*state.Brief{a, b}); got.Hour() != 7 {
		t.Errorf("%v", got)
	}
	if got := oldest([]*state.Brief{a, {}}); !got.IsZero() {
		t.Errorf("of one that does not say: %v", got)
	}
}
