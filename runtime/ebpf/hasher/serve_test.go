package hasher

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// serving is a server with its client.
func serving(t *testing.T, s *server) *Client {
	t.Helper()
	requests, toRequests := io.Pipe()
	answers, toAnswers := io.Pipe()
	began := time.Now()
	c := NewClientAt(toRequests, func() time.Time { return began }) // no answer is late
	go func() { _ = c.Listen(answers) }()
	ended := make(chan error)
	go func() { ended <- s.serve(requests, toAnswers) }()
	t.Cleanup(func() {
		toRequests.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		toAnswers.Close()
	})
	return c
}

// settle waits for an answer, which comes before patience is over or fails the test.
func settle(t *testing.T, ticket *Ticket) ([32]byte, Why) {
	t.Helper()
	for !ticket.Settled() {
		time.Sleep(time.Millisecond)
	}
	return ticket.Hash()
}

// TestServe: a request is answered with the hash of its file, also of one that comes into its place a moment later.
func TestServe(t *testing.T) {
	at := filepath.Join(shortDir(t), "x")
	write(t, at, "program")
	r := request(t, at, at)
	looked := 0
	c := serving(t, &server{patience: patience, look: func(r *Request) int {
		if looked++; looked == 1 {
			return -1
		}
		return r.find()
	}})
	if sum, why := settle(t, ask(c, 1, *r)); why != None || sum != sha256.Sum256([]byte("program")) {
		t.Errorf("%s", why)
	}
	r.File.Inode++
	if _, why := settle(t, ask(c, 1, *r)); why != Gone {
		t.Errorf("of no file: %s", why)
	}
}

// TestHang: a file system that hangs costs a few threads, for as long as it does, and no more.
func TestHang(t *testing.T) {
	free := make(chan struct{})
	at := filepath.Join(shortDir(t), "x")
	write(t, at, "program")
	s := &server{patience: 20 * time.Millisecond, reading: make(chan struct{}, reading), look: func(r *Request) int {
		<-free
		return r.find()
	}}
	r := request(t, at, at)
	for range 3 * maxStuck {
		if a := s.bounded(r); a.Why != Late {
			t.Fatalf("%s", a.Why)
		}
	}
	if n := s.stuck.Load(); n != maxStuck {
		t.Errorf("%d are stuck", n)
	}
	close(free)
	for s.stuck.Load() > 0 {
		time.Sleep(time.Millisecond)
	}
	s.patience = patience
	if a := s.bounded(r); a.Why != None {
		t.Errorf("when it has come back: %s", a.Why)
	}
}

// TestNoStranger: what is no request ends the server.
func TestNoStranger(t *testing.T) {
	s := &server{look: (*Request).find, patience: patience}
	if err := s.serve(bytes.NewReader([]byte("short")), io.Discard); err == nil {
		t.Error("half a request is one")
	}
}

// TestFIFO: a FIFO that nobody writes to, with all that a file of its name should have, does not hang what looks for it.
func TestFIFO(t *testing.T) {
	at := filepath.Join(shortDir(t), "x")
	if err := unix.Mkfifo(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, why := hashOf(request(t, at, at)); why != Gone {
		t.Errorf("%s", why)
	}
}

func FuzzRequest(f *testing.F) {
	f.Add(make([]byte, binary.Size(Request{})))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Request
		if binary.Read(bytes.NewReader(b), binary.LittleEndian, &r) != nil {
			return
		}
		// Any process, but not one whose files may be another's who is fuzzing.
		r.Pid, r.Roots = uint32(os.Getpid()), [MaxRoots]uint32{}
		if found := r.find(); found >= 0 {
			if !r.File.same(found) {
				t.Error("another file")
			}
			unix.Close(found)
		}
	})
}
