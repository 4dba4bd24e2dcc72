package seal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/env"
)

// A family of addresses on lo.
type loFamily struct {
	name   string
	number int
	at     func(port int) unix.Sockaddr // of lo
	all    func(port int) unix.Sockaddr
	port   func(unix.Sockaddr) int
}

var (
	lo4 = loFamily{
		"IPv4", unix.AF_INET, func(p int) unix.Sockaddr { return &unix.SockaddrInet4{Port: p, Addr: [4]byte{127, 0, 0, 1}} },
		func(p int) unix.Sockaddr { return &unix.SockaddrInet4{Port: p} },
		func(a unix.Sockaddr) int { return a.(*unix.SockaddrInet4).Port },
	}
	lo6 = loFamily{
		"IPv6", unix.AF_INET6, func(p int) unix.Sockaddr { return &unix.SockaddrInet6{Port: p, Addr: [16]byte{15: 1}} },
		func(p int) unix.Sockaddr { return &unix.SockaddrInet6{Port: p} },
		func(a unix.Sockaddr) int { return a.(*unix.SockaddrInet6).Port },
	}
)

// socket opens a TCP socket at a port of lo (0 is any), which others may take as well.
func (f loFamily) socket(port int) (fd, at int, err error) { return f.bound(f.at(port)) }

// bound opens one at an address.
func (f loFamily) bound(to unix.Sockaddr) (fd, at int, err error) {
	if fd, err = unix.Socket(f.number, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return fd, 0, err
	}
	for _, o := range []int{unix.SO_REUSEADDR, unix.SO_REUSEPORT} {
		if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, o, 1); err != nil {
			return fd, 0, err
		}
	}
	if err = unix.Bind(fd, to); err != nil {
		return fd, 0, err
	}
	a, err := unix.Getsockname(fd)
	if err != nil {
		return fd, 0, err
	}
	return fd, f.port(a), nil
}

// listen listens at a port of all addresses.
func (f loFamily) listen(port int) (fd, at int, err error) {
	if fd, at, err = f.bound(f.all(port)); err == nil {
		err = unix.Listen(fd, 4096)
	}
	return fd, at, err
}

// connect connects a socket to a port. It waits for the connection only where it is to come.
func (f loFamily) connect(fd, port int, wait bool) error {
	if err := unix.SetNonblock(fd, !wait); err != nil {
		return err
	}
	if err := unix.Connect(fd, f.at(port)); err != unix.EINPROGRESS {
		return err
	}
	return nil
}

func reset(fd int) error {
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
		return err
	}
	return unix.Close(fd)
}

// An abandonment makes n connections to a port that no process accepts, and keeps no descriptor of
// theirs. Those after the first wait are not waited for.
type abandonment func(f loFamily, port, n, wait int) error

// firstPort is that of the first connection's client.
const firstPort = 10000

// each abandons each connection by end.
func each(end func(fd int) error) abandonment {
	return func(f loFamily, port, n, wait int) error {
		for i := range n {
			fd, _, err := f.socket(firstPort + i) // never one twice
			if err == nil {
				err = f.connect(fd, port, i < wait)
			}
			if err == nil && i < wait {
				_, err = unix.Write(fd, []byte{1})
			}
			if err != nil {
				return fmt.Errorf("connection %d: %w", i, err)
			}
			if err := end(fd); err != nil {
				return err
			}
		}
		return nil
	}
}

// over has each reset connection's addresses used anew by one that use makes, so that something is
// sent between them by a descriptor.
func over(use func(f loFamily, client, port int) error) abandonment {
	return func(f loFamily, port, n, wait int) error {
		for i := range n {
			fd, client, err := f.socket(firstPort + i)
			if err == nil {
				err = f.connect(fd, port, i < wait)
			}
			if err != nil {
				return fmt.Errorf("connection %d: %w", i, err)
			}
			if err := reset(fd); err != nil {
				return err
			}
			if i < wait {
				if err := use(f, client, port); err != nil {
					return fmt.Errorf("addresses of connection %d: %w", i, err)
				}
			}
		}
		return nil
	}
}

// mirrored connects the listener's address to the client's, where another listener accepts.
func mirrored(f loFamily, client, port int) error {
	l, _, err := f.listen(client)
	if err != nil {
		return err
	}
	return f.pass(l, port, client)
}

// takenOver connects the client's address to the listener's, which another listener has for lo
// alone.
func takenOver(f loFamily, client, port int) error {
	l, _, err := f.socket(port)
	if err != nil {
		return err
	}
	if err := unix.Listen(l, 1); err != nil {
		return err
	}
	return f.pass(l, client, port)
}

// pass connects two ports where a listener accepts, and has both ends send. It closes all, the
// listener as well. A connection that does not come about is no failure.
func (f loFamily) pass(listener, from, to int) error {
	defer unix.Close(listener)
	fd, _, err := f.socket(from)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.SetNonblock(listener, true); err != nil {
		return err
	}
	if err := f.connect(fd, to, false); err != nil {
		return err
	}
	if _, err := unix.Write(fd, []byte{1}); err != nil {
		return nil
	}
	a, _, err := unix.Accept(listener)
	if err != nil {
		return err
	}
	_, _ = unix.Write(a, []byte{1})
	return unix.Close(a)
}

// swept waits until a connection to a port succeeds, or until it is certain that none does (full):
// elements that have timed out do not count any more then. The kernel sends again after 1 and 3
// seconds.
func (f loFamily) swept(port int) (full bool, err error) {
	fd, _, err := f.socket(0)
	if err != nil {
		return false, err
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: 4}); err != nil {
		return false, err
	}
	_ = f.connect(fd, port, true)
	_, err = unix.Getpeername(fd)
	return err != nil, unix.Close(fd)
}

// connections are the fields of the namespace's TCP sockets (proc_net_tcp).
func (s *space) connections(t *testing.T) (out [][]string) {
	t.Helper()
	for _, file := range []string{"tcp", "tcp6"} {
		var text []byte
		var err error
		s.do(func() { text, err = os.ReadFile("/proc/thread-self/net/" + file) })
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 9 {
				out = append(out, f)
			}
		}
	}
	return out
}

// waitingAt is how many connections wait at a namespace's listeners (rx_queue of one that listens).
func (s *space) waitingAt(t *testing.T) int {
	t.Helper()
	n := 0
	for _, f := range s.connections(t) {
		if f[3] != "0A" {
			continue
		}
		_, rx, _ := strings.Cut(f[4], ":")
		v, err := strconv.ParseUint(rx, 16, 32)
		if err != nil {
			t.Fatal(err)
		}
		n += int(v)
	}
	return n
}

// TestWaitingConnectionsAreBounded: the number of connections that wait to be accepted, at all listeners together, stays
// below the ceiling, regardless of what a program does with them. Without the ceiling each way
// makes more.
func TestWaitingConnectionsAreBounded(t *testing.T) {
	const most, attempts = 16, 24
	ways := []struct {
		name string
		do   abandonment
		lost int // how many more may wait: those whose addresses were used again
	}{
		{"closed", each(unix.Close), 0},
		{"reset", each(reset), 0},
		{"taken over", over(takenOver), 2 * most / lostShare},
		{"mirrored", over(mirrored), 2 * most / lostShare},
	}
	for _, f := range []loFamily{lo4, lo6} {
		for _, way := range ways {
			t.Run(f.name+" "+way.name, func(t *testing.T) {
				t.Parallel()
				for _, bounded := range []bool{false, true} {
					s := newSpace(t)
					mustSeal(t, s)
					wait, c := attempts, ceiling{attempts * 4 * lostShare, MostConnections}
					if bounded {
						wait, c = most, ceiling{most, MostConnections}
					}
					if err := inNamespace(s.file, c.table().load); err != nil {
						t.Fatal(err)
					}
					var err error
					s.do(func() {
						for round := range 2 {
							var port int
							if _, port, err = f.listen(0); err == nil && bounded && round > 0 && way.lost > 0 {
								_, err = f.swept(port)
							}
							if err == nil {
								err = way.do(f, port, attempts, wait)
							}
							if wait = 0; !bounded {
								wait = attempts
							}
							if err != nil {
								return
							}
						}
					})
					if err != nil {
						t.Fatal(err)
					}
					n := s.waitingAt(t)
					if bounded && (n < most || n > most+way.lost) || !bounded && n != 2*attempts {
						t.Errorf("bounded %v: %d connections wait", bounded, n)
					}
				}
			})
		}
	}
}

// counted is how many elements a set of the ceiling's has.
func (s *space) counted(t *testing.T, set string) int {
	t.Helper()
	return len(s.elements(t, set))
}

// elements are the keys of those in a set of the ceiling's.
func (s *space) elements(t *testing.T, set string) (out [][]byte) {
	t.Helper()
	table := ceilingOpen.table()
	err := inNamespace(s.file, func() error {
		c, err := dial(unix.NETLINK_NETFILTER)
		if err != nil {
			return err
		}
		defer c.close()
		m := table.message(unix.NFT_MSG_GETSETELEM, 0)
		m.attrString(unix.NFTA_SET_ELEM_LIST_TABLE, table.name)
		m.attrString(unix.NFTA_SET_ELEM_LIST_SET, set)
		return c.dump(m, maxNft, func() { out = nil }, func(body []byte) error {
			list := nftAttributes(body).get(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
			for _, a := range attributes(list) {
				key := attributes(a.data).get(unix.NFTA_SET_ELEM_KEY)
				value := attributes(key).get(unix.NFTA_DATA_VALUE)
				out = append(out, bytes.Clone(value))
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestAccepted: connections that a process accepts soon count for nothing, however they end, and
// however many there are together.
func TestAccepted(t *testing.T) {
	const many = 20
	for _, f := range []loFamily{lo4, lo6} {
		s := newSpace(t)
		mustSeal(t, s)
		ends := map[string]func(client, server int) error{
			"the client first": func(c, a int) error { return errors.Join(unix.Close(c), unix.Close(a)) },
			"the server first": func(c, a int) error { return errors.Join(unix.Close(a), unix.Close(c)) },
			"by reset": func(c, a int) error {
				_, err := unix.Write(a, []byte{1})
				return errors.Join(err, reset(c), unix.Close(a))
			},
			"by the server's own": func(c, a int) error { return errors.Join(reset(a), unix.Close(c)) },
			"unread": func(c, a int) error {
				_, err := unix.Write(c, []byte{1})
				return errors.Join(err, unix.Close(a), unix.Close(c))
			},
		}
		for name, end := range ends {
			var err error
			s.do(func() {
				l, port, lerr := f.listen(0)
				if err = lerr; err != nil {
					return
				}
				defer unix.Close(l)
				var open [][2]int
				for range many {
					c, _, cerr := f.socket(0)
					if err = cerr; err == nil {
						err = f.connect(c, port, true)
					}
					a := -1
					if err == nil {
						a, _, err = unix.Accept(l)
					}
					if err == nil {
						_, err = unix.Write(a, []byte{1}) // from here it is known to be accepted
					}
					if err != nil {
						return
					}
					open = append(open, [2]int{c, a})
				}
				for _, o := range open {
					err = errors.Join(err, end(o[0], o[1]))
				}
			})
			if err != nil {
				t.Errorf("%s, ended %s: %v", f.name, name, err)
			}
			for _, set := range []string{"waiting", "open", "half"} {
				for s.counted(t, set) > 0 {
					runtime.Gosched()
				}
			}
		}
	}
}

// TestConnectionsClosedAtOnceStopCounting: a connection whose ends send their last packets at once, on two processors, ceases to
// count. One that ends after all others has the last elements that a sweep removes.
func TestConnectionsClosedAtOnceStopCounting(t *testing.T) {
	const rounds, pairs = 10, 400
	if runtime.NumCPU() < 2 {
		t.Skip("it needs two processors")
	}
	for _, f := range []loFamily{lo4, lo6} {
		s := newSpace(t)
		mustSeal(t, s)
		for range rounds {
			var all [2][]int // the clients' ends, and the servers'
			var client, server, after int
			var err error
			s.do(func() {
				l, port, lerr := f.listen(0)
				for err = lerr; err == nil && len(all[0]) <= pairs; {
					if client, server, err = f.joined(l, 0, port); err == nil {
						all[0], all[1] = append(all[0], client), append(all[1], server)
						_, werr := unix.Write(server, []byte{1})
						_, rerr := unix.Read(client, []byte{0})
						err = errors.Join(werr, rerr)
					}
				}
				if err == nil {
					var at unix.Sockaddr
					at, err = unix.Getsockname(client)
					after = f.port(at)
				}
				err = errors.Join(err, unix.Close(l))
			})
			if err == nil {
				err = closeTogether(all[0][:pairs], all[1][:pairs])
			}
			if err = errors.Join(err, unix.Close(client), unix.Close(server)); err != nil {
				t.Fatal(err)
			}
			for _, set := range []string{"open", "half"} {
				last := func(key []byte) bool { return int(binary.BigEndian.Uint16(key[8:])) == after }
				for slices.ContainsFunc(s.elements(t, set), last) {
					runtime.Gosched()
				}
				// A busy machine handles the others' last packets later.
				if !env.Poll(env.AnswerWait, func() bool { return s.counted(t, set) == 0 }) {
					t.Fatalf("%s: %d of %d connections that ended are in the set %s", f.name, s.counted(t, set), pairs, set)
				}
			}
		}
	}
}

// closeTogether closes the two ends of each connection at the same time, each on a processor.
func closeTogether(clients, servers []int) error {
	var closed atomic.Int64
	errs := make(chan error)
	for processor, ends := range [][]int{clients, servers} {
		go func() {
			runtime.LockOSThread() // the thread, which has a processor of its own, ends with the goroutine
			var set unix.CPUSet
			set.Set(processor)
			err := unix.SchedSetaffinity(0, &set)
			for i, fd := range ends {
				closed.Add(1)
				for closed.Load() < int64(2*(i+1)) {
				}
				err = errors.Join(err, unix.Close(fd))
			}
			errs <- err
		}()
	}
	return errors.Join(<-errs, <-errs)
}

// expr is the first expression of a kind in the rule for what a connection's own end sends.
func expr(t *chainTable, kind string) *nftExpr {
	r := t.chains[0].rules[2]
	return &r[slices.IndexFunc(r, func(e nftExpr) bool { return e.kind == kind })]
}

// TestVerifyWaiting: only the ceiling that was set holds.
func TestVerifyWaiting(t *testing.T) {
	s := newSpace(t)
	if f := VerifyWaiting(s.file); f.OK {
		t.Error("none holds for one")
	}
	for _, tt := range []struct {
		what string
		do   func(*chainTable)
	}{
		{"a higher ceiling", func(t *chainTable) { t.sets[4].size++ }},
		{"forgotten earlier", func(t *chainTable) { t.sets[4].timeout /= 2 }},
		{"swept less often", func(t *chainTable) { t.sets[0].sweep *= 2 }},
		{"a longer element", func(t *chainTable) { t.sets[2].keyLength = 8 }},
		{"a set more", func(t *chainTable) { t.sets = append(t.sets, nftSet{"x", 4, 1, forgotten, sweep}) }},
		{"a rule less", func(t *chainTable) { t.chains[0].rules = t.chains[0].rules[:6] }},
		{"another operation", func(t *chainTable) { expr(t, "dynset").key = unix.NFT_DYNSET_OP_ADD }},
		{"another time", func(t *chainTable) { expr(t, "dynset").timeout *= 2 }},
		{"another set", func(t *chainTable) { expr(t, "lookup").set = "done" }},
		{"what is not in the set", func(t *chainTable) { expr(t, "lookup").key = 1 }},
		{"without a descriptor", func(t *chainTable) { r := &t.chains[0].rules[2]; *r = slices.Delete(*r, 5, 6) }},
		{"other registers", func(t *chainTable) {
			r := t.chains[0].rules[2]
			r[8].reg, r[9].reg = r[9].reg, r[8].reg
		}},
		{"another place", func(t *chainTable) { t.chains[0].rules[2][9].offset = 4 }},
	} {
		if err := BoundWaiting(s.file); err != nil {
			t.Fatal(err)
		}
		if f := VerifyWaiting(s.file); !f.OK {
			t.Fatal(f.Detail)
		}
		table := ceilingOpen.table()
		tt.do(table)
		if err := inNamespace(s.file, table.load); err != nil {
			t.Fatalf("%s: %v", tt.what, err)
		}
		if f := VerifyWaiting(s.file); f.OK {
			t.Errorf("%s: it is stated to hold", tt.what)
		}
	}
}

// orphans is how many closed ends of connections the kernel still has to bring to their end
// (proc_net_tcp: FIN_WAIT1, FIN_WAIT2, LAST_ACK, CLOSING, without a file).
func (s *space) orphans(t *testing.T) int {
	t.Helper()
	n := 0
	for _, f := range s.connections(t) {
		if slices.Contains([]string{"04", "05", "09", "0B"}, f[3]) && f[9] == "0" {
			n++
		}
	}
	return n
}

// fill writes until the other end takes no more.
func fill(fd int) error {
	for {
		if _, err := unix.SendmsgN(fd, make([]byte, 1<<16), nil, nil, unix.MSG_DONTWAIT); err != nil {
			return ignore(err, unix.EAGAIN)
		}
	}
}

func ignore(err error, expected unix.Errno) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// TestClosedEndsAreBounded: a closed end whose last data is not taken counts as long as the kernel keeps it. It
// needs another end, so both together stay below the ceiling, however they came about.
func TestClosedEndsAreBounded(t *testing.T) {
	const most, attempts = 5, 8
	ways := []struct {
		name string
		anew bool                           // between addresses of a connection before, whose client had sent its last packet
		do   func(client, server int) error // closes one end
	}{
		{"client's data", false, func(c, a int) error { return errors.Join(fill(c), unix.Close(c)) }},
		{"server's data", false, func(c, a int) error { return errors.Join(fill(a), unix.Close(a)) }},
		{"after the other's last packet", true, func(c, a int) error {
			return errors.Join(fill(c), unix.Shutdown(a, unix.SHUT_WR), unix.Close(c))
		}},
		{"after its own last packet", false, func(c, a int) error {
			return errors.Join(unix.SetsockoptInt(c, unix.SOL_TCP, unix.TCP_LINGER2, 120), unix.Shutdown(c, unix.SHUT_WR), unix.Close(c))
		}},
	}
	for _, f := range []loFamily{lo4, lo6} {
		for _, way := range ways {
			t.Run(f.name+" "+way.name, func(t *testing.T) {
				t.Parallel()
				for _, bounded := range []bool{false, true} {
					s := newSpace(t)
					mustSeal(t, s)
					c := ceiling{attempts * 4, attempts * 4}
					if bounded {
						c.open = most
					}
					if err := inNamespace(s.file, c.table().load); err != nil {
						t.Fatal(err)
					}
					var full bool
					var err error
					s.do(func() {
						l, port, lerr := f.listen(0)
						if err = lerr; err != nil {
							return
						}
						for i := 0; err == nil && (bounded && i < most || !bounded && i < attempts); i++ {
							err = f.orphan(l, firstPort+i, port, way.anew, way.do)
						}
						if err == nil && bounded {
							full, err = f.swept(port)
						}
					})
					if err != nil {
						t.Fatal(err)
					}
					n := s.orphans(t)
					if bounded && (n != most || !full) || !bounded && n != attempts {
						t.Errorf("bounded %v: %d orphans, and no further connection %v", bounded, n, full)
					}
				}
			})
		}
	}
}

// orphan makes a connection and closes one end of it by do. With anew, the addresses were those of
// a connection before.
func (f loFamily) orphan(listener, from, to int, anew bool, do func(client, server int) error) error {
	if anew {
		c, a, err := f.joined(listener, from, to)
		if err == nil {
			_, err = unix.Write(a, []byte{1}) // known to be accepted
		}
		if err := errors.Join(err, unix.Shutdown(c, unix.SHUT_WR), reset(c), unix.Close(a)); err != nil {
			return fmt.Errorf("the connection before: %w", err)
		}
	}
	c, a, err := f.joined(listener, from, to)
	if err != nil {
		return err
	}
	return do(c, a)
}

// joined returns both ends of a connection.
func (f loFamily) joined(listener, from, to int) (client, server int, err error) {
	if client, _, err = f.socket(from); err == nil {
		err = f.connect(client, to, true)
	}
	if err == nil {
		server, _, err = unix.Accept(listener)
	}
	return client, server, err
}

// TestOlder: a connection that is older than the table ends in order: an upgrade replaces the table,
// and a jail may join the namespace of another container.
func TestOlder(t *testing.T) {
	for _, f := range []loFamily{lo4, lo6} {
		s := newSpace(t)
		mustSeal(t, s)
		var client, server int
		var err error
		s.do(func() {
			l, port, lerr := f.listen(0)
			if err = lerr; err == nil {
				client, server, err = f.joined(l, 0, port)
			}
		})
		if err == nil {
			err = inNamespace(s.file, ceiling{16, 16}.table().load)
		}
		if err == nil {
			err = unix.SetsockoptTimeval(server, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10})
		}
		if err = errors.Join(err, unix.Close(client)); err != nil {
			t.Fatal(err)
		}
		if n, err := unix.Read(server, make([]byte, 1)); n != 0 || err != nil {
			t.Errorf("%s: %d bytes, %v", f.name, n, err)
		}
		unix.Close(server)
	}
}
