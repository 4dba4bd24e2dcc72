// Package addrpool gives names addresses of 127.64.0.0/10, by which a connection reports what name
// it is for.
//
// An address is given to one name and never to another: a program that kept an address, and with it
// a password for the name, cannot reach another name by it (what happened to proxies that reuse
// fake addresses). Exact names of the policy have their addresses from the beginning, in the order
// of the policy, and keep them. Names that a wildcard allows come and go: of more than MaxWildcard
// the one that was requested longest ago is forgotten, and gets a new address when it is requested
// again, so that a jail that requests many names takes away the overflow user's address and no
// memory. A name with a living connection is not forgotten.
//
// No address ends in 0 or 255, which some programs take for a network's own and for broadcast. When
// all 4,145,280 addresses of wildcard names were given, new names get none until the jail's end.
package addrpool

import (
	"container/list"
	"net/netip"
	"sync"
)

// Limits of a pool.
const (
	// MaxWildcard is how many names without a pin are known at a time.
	MaxWildcard = 16384
	// MaxExact is how many names can be pinned.
	MaxExact = 254 * 64
	// Total is how many addresses there are: of 127.64.0.0/10 those that end in 1 to 254.
	Total = 254 * 16384
	step  = 16384 // addresses that are noted at a time
)

// Range holds every address of a pool.
var Range = netip.MustParsePrefix("127.64.0.0/10")

// A Pool is safe for use by many goroutines.
type Pool struct {
	mu     sync.Mutex
	byName map[string]*entry
	byAddr map[netip.Addr]*entry
	old    *list.List // of *entry: neither pinned nor held, requested longest ago first
	exact  int        // addresses given to exact names
	next   int        // the next address of a wildcard name
	// noted tells somebody who outlives the pool that all addresses before one may have been given;
	// ahead is the last one that it was told.
	noted func(below int) bool
	ahead int
}

type entry struct {
	name   string
	addr   netip.Addr
	held   int
	pinned bool
	place  *list.Element // in old, or nil
}

// New makes a pool in which exact names have addresses. Those beyond MaxExact have none.
func New(exact []string) *Pool {
	p := &Pool{byName: map[string]*entry{}, byAddr: map[netip.Addr]*entry{}, old: list.New(), next: MaxExact}
	p.Add(exact)
	return p
}

// From has names of wildcards get addresses from the number next on, each after noted was told of a
// number beyond it. Without noted's true there is none.
func (p *Pool) From(next int, noted func(below int) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = min(max(next, MaxExact), Total)
	p.noted, p.ahead = noted, p.next
}

// note reports whether the next address may be given.
func (p *Pool) note() bool {
	if p.next == Total {
		return false
	}
	if p.noted != nil && p.next == p.ahead {
		to := min(p.next+step, Total)
		if !p.noted(to) {
			return false
		}
		p.ahead = to
	}
	return true
}

// address is the i-th of the range.
func address(i int) netip.Addr {
	block := i / 254
	return netip.AddrFrom4([4]byte{127, byte(64 + block>>8), byte(block), byte(1 + i%254)})
}

// Add pins further exact names. One that has an address keeps it. What was pinned stays so: its
// address is nobody else's. It returns false if there were more than MaxExact.
func (p *Pool) Add(exact []string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range exact {
		e := p.byName[name]
		if e != nil && e.pinned {
			continue
		}
		if p.exact == MaxExact {
			return false
		}
		at := address(p.exact)
		p.exact++ // also for a name with an address: the same names in the same order leave the same addresses to those that follow
		if e != nil {
			e.pinned = true
			p.settle(e)
			continue
		}
		p.put(&entry{name: name, addr: at, pinned: true})
	}
	return true
}

// Addr is the address of a name, a new one for a name that is not known. It returns false when
// there is none left. Who calls it has checked whether the name is allowed.
func (p *Pool) Addr(name string) (netip.Addr, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.byName[name]
	if e == nil {
		if !p.note() {
			return netip.Addr{}, false
		}
		if p.old.Len() >= MaxWildcard {
			p.forget()
		}
		e = &entry{name: name, addr: address(p.next)}
		p.next++
		p.put(e)
	} else if e.place != nil {
		p.old.MoveToBack(e.place)
	}
	return e.addr, true
}

// forget forgets the name that was requested longest ago. Held names are not in the list; there are
// at most as many as connections.
func (p *Pool) forget() {
	e := p.old.Remove(p.old.Front()).(*entry)
	delete(p.byName, e.name)
	delete(p.byAddr, e.addr)
}

func (p *Pool) put(e *entry) {
	p.byName[e.name], p.byAddr[e.addr] = e, e
	p.settle(e)
}

// settle puts an entry into the list of what can be forgotten, or takes it out.
func (p *Pool) settle(e *entry) {
	switch free := !e.pinned && e.held == 0; {
	case free && e.place == nil:
		e.place = p.old.PushBack(e)
	case !free && e.place != nil:
		p.old.Remove(e.place)
		e.place = nil
	}
}

// Name is the name that an address was given to. It returns false for an address of nobody, and of
// a name that was forgotten.
func (p *Pool) Name(addr netip.Addr) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.byAddr[addr.Unmap()]; e != nil {
		return e.name, true
	}
	return "", false
}

// Hold keeps a name from being forgotten until Release is called as often. It returns false for a
// name that is not known (any more): a connection to it has no name.
func (p *Pool) Hold(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.byName[name]
	if e == nil {
		return false
	}
	e.held++
	p.settle(e)
	return true
}

// Release undoes one Hold.
func (p *Pool) Release(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.byName[name]; e != nil && e.held > 0 {
		e.held--
		if p.settle(e); p.old.Len() > MaxWildcard {
			p.forget()
		}
	}
}
