package egress

import (
	"container/list"
	"net/netip"
	"sync"

	"agentjail.dev/runtime/spec/netrules"
)

// Limits of a pool.
const (
	// maxWildcard is how many names without a pin are known at a time.
	maxWildcard = 16384
	// maxExact is how many names can be pinned.
	maxExact = 254 * 64
	noteStep = 16384 // addresses that are noted at a time
)

// An addrPool assigns addresses of [netrules.Pool] to names, so that a connection's
// destination address identifies the name. It is safe for use by many goroutines.
//
// An address is assigned to one name and never to another: a program that kept an address cannot
// reach another name by it, and send that name a password for the first one (a fault of proxies
// that reuse fake addresses). Exact names of the policy have addresses from the beginning, in the
// order of the policy, and keep them. Wildcard names are bounded: of more than maxWildcard names
// the least recently requested one is forgotten, and gets a new address at its next request. So a
// jail that requests many names takes no other name's address, and no more memory. A name with an
// open connection is not forgotten.
//
// No address ends in 0 or 255, which some programs take for a network's own and for broadcast. When
// all 4,145,280 addresses of wildcard names are assigned, new names get none until the jail's end.
type addrPool struct {
	mu     sync.Mutex
	byName map[string]*poolEntry
	byAddr map[netip.Addr]*poolEntry
	old    *list.List // of *poolEntry: neither pinned nor held, requested longest ago first
	exact  int        // addresses assigned to exact names
	next   int        // the next address of a wildcard name
	// noted records, for later pools of the jail, that all addresses below a number may have been
	// assigned. ahead is the last recorded number.
	noted func(below int) bool
	ahead int
}

type poolEntry struct {
	name   string
	addr   netip.Addr
	held   int
	pinned bool
	place  *list.Element // in old, or nil
}

// newAddrPool makes a pool in which exact names have addresses. Names beyond maxExact have none.
func newAddrPool(exact []string) *addrPool {
	p := &addrPool{byName: map[string]*poolEntry{}, byAddr: map[netip.Addr]*poolEntry{}, old: list.New(), next: maxExact}
	p.pin(exact)
	return p
}

// startFrom sets the first address for wildcard names. noted must record the new bound and return
// true before an address is handed out.
func (p *addrPool) startFrom(next int, noted func(below int) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = min(max(next, maxExact), netrules.PoolSize)
	p.noted, p.ahead = noted, p.next
}

// note reports whether the next address may be assigned.
func (p *addrPool) note() bool {
	if p.next == netrules.PoolSize {
		return false
	}
	if p.noted != nil && p.next == p.ahead {
		to := min(p.next+noteStep, netrules.PoolSize)
		if !p.noted(to) {
			return false
		}
		p.ahead = to
	}
	return true
}

// pin pins further exact names. A name that has an address keeps it. A pinned name stays pinned, so
// that no other name gets its address. It returns false if there are more than maxExact names.
func (p *addrPool) pin(exact []string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range exact {
		e := p.byName[name]
		if e != nil && e.pinned {
			continue
		}
		if p.exact == maxExact {
			return false
		}
		at := netrules.PoolAddress(p.exact)
		p.exact++ // also for a name with an address: the same names in the same order leave the same addresses to those that follow
		if e != nil {
			e.pinned = true
			p.settle(e)
			continue
		}
		p.put(&poolEntry{name: name, addr: at, pinned: true})
	}
	return true
}

// addr returns the address of a name, and assigns a new one to an unknown name. It returns false if
// no address is left. The caller has checked that the name is allowed.
func (p *addrPool) addr(name string) (netip.Addr, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.byName[name]
	if e == nil {
		if !p.note() {
			return netip.Addr{}, false
		}
		if p.old.Len() >= maxWildcard {
			p.forget()
		}
		e = &poolEntry{name: name, addr: netrules.PoolAddress(p.next)}
		p.next++
		p.put(e)
	} else if e.place != nil {
		p.old.MoveToBack(e.place)
	}
	return e.addr, true
}

// forget forgets the least recently requested name. Held names are not in the list; there are at
// most as many as connections.
func (p *addrPool) forget() {
	e := p.old.Remove(p.old.Front()).(*poolEntry)
	delete(p.byName, e.name)
	delete(p.byAddr, e.addr)
}

func (p *addrPool) put(e *poolEntry) {
	p.byName[e.name], p.byAddr[e.addr] = e, e
	p.settle(e)
}

// settle adds an entry to the list of forgettable names, or removes it.
func (p *addrPool) settle(e *poolEntry) {
	switch free := !e.pinned && e.held == 0; {
	case free && e.place == nil:
		e.place = p.old.PushBack(e)
	case !free && e.place != nil:
		p.old.Remove(e.place)
		e.place = nil
	}
}

// name returns the name of an address. It returns false for an unassigned address, and for the
// address of a forgotten name.
func (p *addrPool) name(addr netip.Addr) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.byAddr[addr.Unmap()]; e != nil {
		return e.name, true
	}
	return "", false
}

// hold keeps a name from being forgotten until release is called as often. It returns false for a
// name that is not known (any more): a connection to it has no name.
func (p *addrPool) hold(name string) bool {
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

// release undoes one hold.
func (p *addrPool) release(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.byName[name]; e != nil && e.held > 0 {
		e.held--
		if p.settle(e); p.old.Len() > maxWildcard {
			p.forget()
		}
	}
}
