package hasher

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// asked is a request for a file of an overlay.
func asked(inode, size uint64) Request {
	return Request{File: File{Kind: unix.OVERLAYFS_SUPER_MAGIC, Inode: inode, Size: size}}
}

// ask asks a client.
func ask(c *Client, jail uint64, r Request) *Ticket {
	return c.Ask(jail, r.File, func(to *Request) { *to = r })
}

// answered gives a client an answer to each of its requests so far, and says how many there were.
func answered(c *Client, out *bytes.Buffer, a Answer) (n int) {
	for {
		var r Request
		if binary.Read(out, binary.LittleEndian, &r) != nil {
			return n
		}
		n++
		a.Number = r.Number
		c.mu.Lock()
		c.take(a)
		c.mu.Unlock()
	}
}

func why(t *Ticket) Why {
	_, why := t.Hash()
	return why
}

// TestCache: a file is hashed once for a jail, and for each jail; and again once it is another.
func TestCache(t *testing.T) {
	var out bytes.Buffer
	c := NewClient(&out)
	first, same := ask(c, 1, asked(5, 100)), ask(c, 1, asked(5, 100))
	if first.Settled() || same.Settled() {
		t.Error("settled without an answer")
	}
	if n := answered(c, &out, Answer{Sum: [32]byte{7}}); n != 1 {
		t.Errorf("one file was asked for %d times", n)
	}
	again := ask(c, 1, asked(5, 100))
	for name, ticket := range map[string]*Ticket{"the first": first, "one beside it": same, "one after it": again} {
		if sum, why := ticket.Hash(); !ticket.Settled() || why != None || sum[0] != 7 {
			t.Errorf("%s: %x, %s", name, sum, why)
		}
	}
	other := asked(5, 100)
	other.File.Changed++
	ask(c, 1, other)
	ask(c, 2, asked(5, 100))
	if n := answered(c, &out, Answer{Why: Changed}); n != 2 {
		t.Errorf("another file, and another jail: %d requests", n)
	}
	if ask(c, 1, other); out.Len() == 0 {
		t.Error("what had no hash is not asked for again")
	}
}

// TestRefused: what is too large, or on a file system that may hang, is not asked for, and it is said why.
func TestRefused(t *testing.T) {
	var out bytes.Buffer
	c := NewClient(&out)
	fuse := asked(1, 1)
	fuse.File.Kind = unix.FUSE_SUPER_MAGIC
	for _, row := range []struct {
		r    Request
		want Why
	}{{asked(1, MaxSize+1), TooLarge}, {asked(1, 1<<63), TooLarge}, {fuse, FileSystem}} {
		if got := why(ask(c, 1, row.r)); got != row.want {
			t.Errorf("%+v: %s, not %s", row.r.File, got, row.want)
		}
	}
	if out.Len() != 0 {
		t.Error("a hasher was asked")
	}
}

// TestFlood: a jail that executes a hundred thousand large files takes neither more than its share of what is read, nor another jail's place, nor what a
// pipe does not hold; and each of its files is counted.
func TestFlood(t *testing.T) {
	const files = 100_000
	var out bytes.Buffer
	c := NewClient(&out)
	start := time.Now()
	now := start
	c.now = func() time.Time { return now }
	var read uint64
	for i := range uint64(files) {
		if ask(c, 1, asked(i, MaxSize)).Settled() {
			ask(c, 1, asked(i, MaxSize)).Hash()
			continue
		}
		read += MaxSize
		answered(c, &out, Answer{Why: Changed})
		now = now.Add(time.Millisecond) // as many a second as are reported
	}
	if most := uint64(jailBudget.Burst) + uint64(now.Sub(start).Seconds()*float64(jailBudget.Rate)); read > most || read < uint64(jailBudget.Burst) {
		t.Errorf("%d bytes were read, and %d may be", read, most)
	}
	if n := c.Missing(); n[Budget] != files-read/MaxSize || len(c.Missing()) != 0 {
		t.Errorf("counted: %v, of %d", n, files)
	}
	if ask(c, 2, asked(1, MaxSize)).Settled() {
		t.Error("another jail has no place any more")
	}
	answered(c, &out, Answer{Why: Gone})
	for i := range uint64(files) {
		ask(c, 1, asked(i, 0))
	}
	if ask(c, 3, asked(1, 1)).Settled() {
		t.Error("another jail has no place beside small files")
	}
	for i := range uint64(maxFlights) {
		ask(c, i+10, asked(1, 0))
	}
	if got := why(ask(c, 2, asked(2, 1))); got != Busy {
		t.Errorf("more than can wait: %s", got)
	}
	if room := 64 << 10; out.Len() > room || out.Len() != maxFlights*binary.Size(Request{}) {
		t.Errorf("%d bytes wait in a pipe of %d", out.Len(), room)
	}
}

// TestCacheBound: a jail that executes one file after the other loses its own hashes, and no other's.
func TestCacheBound(t *testing.T) {
	var out bytes.Buffer
	c := NewClient(&out)
	ask(c, 2, asked(1, 1))
	answered(c, &out, Answer{})
	for i := range uint64(3 * maxJailCached) {
		ask(c, 1, asked(i, 0))
		answered(c, &out, Answer{})
	}
	if n := len(c.jails[1].cache); n > maxJailCached {
		t.Errorf("%d are remembered", n)
	}
	if !ask(c, 2, asked(1, 1)).Settled() {
		t.Error("another jail's was lost")
	}
	for i := range uint64(2 * maxCached / maxJailCached) {
		for n := range uint64(maxJailCached) {
			ask(c, i+10, asked(n, 0))
			answered(c, &out, Answer{})
		}
		if c.cached > maxCached {
			t.Fatalf("%d are remembered", c.cached)
		}
	}
	for i := range uint64(2 * maxJails) {
		ask(c, i+1000, asked(1, 0))
		answered(c, &out, Answer{})
	}
	if len(c.jails) > maxJails || c.cached > maxCached {
		t.Errorf("%d jails, %d hashes", len(c.jails), c.cached)
	}
}

// TestLate: no event waits for longer than it may, and an answer that comes later is of use to the next one. When the hasher ends, nothing waits.
func TestLate(t *testing.T) {
	var out bytes.Buffer
	c := NewClient(&out)
	now := time.Now()
	c.now = func() time.Time { return now }
	first := ask(c, 1, asked(1, 1))
	now = now.Add(Wait)
	if !first.Settled() || why(first) != Late {
		t.Errorf("after all that it may wait: settled %v, %s", first.Settled(), why(first))
	}
	answered(c, &out, Answer{})
	if got := why(ask(c, 1, asked(1, 1))); got != None {
		t.Errorf("after the answer: %s", got)
	}
	waits := ask(c, 1, asked(2, 1))
	if err := c.Listen(bytes.NewReader([]byte("half an answer"))); err != io.ErrUnexpectedEOF {
		t.Error(err)
	}
	if why(waits) != Ended || why(ask(c, 1, asked(3, 1))) != Ended || why(ask(c, 1, asked(1, 1))) != None {
		t.Error("without a hasher, what is known is, and nothing waits")
	}
	c = NewClient(broken{})
	if why(ask(c, 1, asked(1, 1))) != Ended {
		t.Error("a request that cannot be sent waits")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// TestAnswers: what an answer says is not trusted.
func TestAnswers(t *testing.T) {
	var out, in bytes.Buffer
	c := NewClient(&out)
	ticket := ask(c, 1, asked(1, 1))
	for _, a := range []Answer{{Number: 99}, {Number: 1, Why: 1 << 20}, {Number: 1}} {
		if err := binary.Write(&in, binary.LittleEndian, a); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Listen(&in); err != io.EOF {
		t.Error(err)
	}
	if why(ticket) != Unreadable {
		t.Errorf("%s", why(ticket))
	}
}
