package hasher

import (
	"encoding/binary"
	"io"
	"sync"
	"time"

	"agentjail.dev/runtime/internal/budget"
)

// Bounds of what waits, is remembered and is read. A jail is one number of the eBPF programs: a pod's containers may share it.
const (
	maxFlights     = 256
	maxJailFlights = 32
	maxCached      = 16384
	maxJailCached  = 1024
	maxJails       = 4096
)

// How many bytes may be hashed, of a jail and in all.
var (
	jailBudget  = budget.Budget{Burst: 512 << 20, Rate: 16 << 20}
	wholeBudget = budget.Budget{Burst: 1 << 30, Rate: 64 << 20}
)

// A Client asks for hashes and remembers them.
type Client struct {
	to  io.Writer
	now func() time.Time

	mu      sync.Mutex
	number  uint64
	flights map[uint64]*flight // by number
	jails   map[uint64]*jail
	cached  int // in all jails
	whole   budget.Bucket
	missing [whys]uint64
	ended   bool
}

// A jail is what is known of one.
type jail struct {
	flights map[File]*flight
	cache   map[File][32]byte
	left    budget.Bucket
}

// A flight is a request that is not answered yet, or has been.
type flight struct {
	jail   uint64
	file   File
	until  time.Time
	done   bool
	answer Answer
}

// A Ticket is for the hash of one event's program.
type Ticket struct {
	c *Client
	f *flight
}

// NewClient has requests written to a hasher. Nobody waits for it: what it may have to read fits into a pipe.
func NewClient(to io.Writer) *Client { return NewClientAt(to, time.Now) }

// NewClientAt is NewClient with another clock.
func NewClientAt(to io.Writer, now func() time.Time) *Client {
	return &Client{to: to, now: now, flights: map[uint64]*flight{}, jails: map[uint64]*jail{}}
}

// Ask asks for the hash of a file that a jail executed. Where fills in where it may be (Pid, Roots, Path), if somebody has to look.
func (c *Client) Ask(of uint64, file File, where func(*Request)) *Ticket {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	j := c.of(of)
	f := j.flights[file]
	if f != nil {
		return &Ticket{c, f}
	}
	f = &flight{jail: of, file: file, until: now.Add(Wait)}
	if sum, ok := j.cache[file]; ok {
		f.done, f.answer.Sum = true, sum
		return &Ticket{c, f}
	}
	if f.answer.Why = c.refuse(j, &file, now); f.answer.Why != None {
		f.done = true
		return &Ticket{c, f}
	}
	var r Request
	where(&r)
	c.number++
	r.Number, r.File = c.number, file
	c.flights[r.Number], j.flights[file] = f, f
	if binary.Write(c.to, binary.LittleEndian, &r) != nil {
		c.end()
	}
	return &Ticket{c, f}
}

// of is what is known of a jail; the lock is the caller's, as below.
func (c *Client) of(number uint64) *jail {
	j := c.jails[number]
	if j != nil {
		return j
	}
	if len(c.jails) >= maxJails {
		// What waits is answered all the same, and the rest is found anew.
		clear(c.jails)
		c.cached = 0
	}
	j = &jail{flights: map[File]*flight{}, cache: map[File][32]byte{}}
	c.jails[number] = j
	return j
}

// refuse is why a file is not asked for, or None, and what it takes is taken from what the jail and all may have.
func (c *Client) refuse(j *jail, f *File, now time.Time) Why {
	j.left.Fill(jailBudget, now)
	c.whole.Fill(wholeBudget, now)
	size := int64(f.Size)
	switch {
	case c.ended:
		return Ended
	case f.Size > MaxSize:
		return TooLarge
	case !f.known():
		return FileSystem
	case len(c.flights) >= maxFlights || len(j.flights) >= maxJailFlights:
		return Busy
	case j.left.Left < size || c.whole.Left < size:
		return Budget
	}
	j.left.Left -= size
	c.whole.Left -= size
	return None
}

// Listen takes answers until their end. Then there are no more hashes.
func (c *Client) Listen(from io.Reader) error {
	for {
		var a Answer
		err := binary.Read(from, binary.LittleEndian, &a)
		c.mu.Lock()
		if err != nil {
			c.end()
			c.mu.Unlock()
			return err
		}
		c.take(a)
		c.mu.Unlock()
	}
}

func (c *Client) take(a Answer) {
	f := c.flights[a.Number]
	if f == nil {
		return
	}
	delete(c.flights, a.Number)
	f.done, f.answer = true, a
	j := c.jails[f.jail]
	if j == nil {
		return
	}
	if j.flights[f.file] == f {
		delete(j.flights, f.file)
	}
	switch a.Why {
	case None:
		c.remember(j, f.file, a.Sum)
	case Gone: // nothing was read
		j.left.Left += int64(f.file.Size)
		c.whole.Left += int64(f.file.Size)
	}
}

// remember keeps a hash. A jail that fills its share loses its own; many of them, all.
func (c *Client) remember(j *jail, f File, sum [32]byte) {
	if len(j.cache) >= maxJailCached {
		c.cached -= len(j.cache)
		clear(j.cache)
	}
	if c.cached >= maxCached {
		for _, other := range c.jails {
			clear(other.cache)
		}
		c.cached = 0
	}
	j.cache[f] = sum
	c.cached++
}

// end is the end of the hasher.
func (c *Client) end() {
	c.ended = true
	for n, f := range c.flights {
		f.done, f.answer = true, Answer{Why: Ended}
		delete(c.flights, n)
	}
	for _, j := range c.jails {
		clear(j.flights)
	}
}

// Settled says whether there is nothing more to wait for.
func (t *Ticket) Settled() bool {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	return t.f.done || !t.c.now().Before(t.f.until)
}

// Hash is the file's hash, or why there is none. What is without one is counted.
func (t *Ticket) Hash() (sum [32]byte, why Why) {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	why = t.f.answer.Why
	if !t.f.done {
		why = Late
	}
	if why >= whys {
		why = Unreadable
	}
	if why != None {
		t.c.missing[why]++
	}
	return t.f.answer.Sum, why
}

// Missing is how many events had no hash since it was asked last, by the reason.
func (c *Client) Missing() map[Why]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[Why]uint64{}
	for why, n := range c.missing {
		if n > 0 {
			out[Why(why)] = n
		}
	}
	c.missing = [whys]uint64{}
	return out
}
