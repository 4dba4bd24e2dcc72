package names

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentjail.dev/runtime/kernel/procstatus"
	"agentjail.dev/runtime/network/helper"
	"agentjail.dev/tests/env"
)

// How much a jail sends.
const (
	crowd      = 2500  // connections at once
	heavy      = 1600  // connections with a large head that does not end
	slow       = 200   // connections with a byte now and then
	wildNames  = 20000 // names of a wildcard: more than are known at a time (maxWildcard)
	wrongOnes  = 8000  // names without a rule: more than are remembered as reported (maxReported)
	streams    = 3000  // connections one after the other
	maxWaiting = 200   // ports of the host in TIME_WAIT, more than before
	floodTime  = 3 * time.Minute
)

// floods are what the attacker does at the name of a part. Their errors are of what should have worked.
var floods = map[string]func() (string, error){"crowd": beCrowd, "jam": beginJam, "jam-ends": endJam, "wild-names": wild, "wrong-names": wrong, "streams": stream}

// TestFloods: a jail that sends its helper as much as it can neither ends it nor fills its memory, the host's ports or the log, and what
// is allowed works meanwhile.
func TestFloods(t *testing.T) {
	n := newInternet(t)
	n.widen(t)
	resolveBy(t, dnsAddr)
	l := newLab(t, n)
	begun := func() (*attack, record, string) {
		before := helpers(t, l)
		a := beginAttack(t, overDelegate(t, l, "runc", ""))
		if a == nil {
			t.FailNow()
		}
		r := newHelper(t, l, before)
		a.helper = r.Pid
		dir := ""
		for path, h := range helpers(t, l) {
			if h.Pid == r.Pid {
				dir = filepath.Dir(path)
			}
		}
		return a, r, dir
	}
	one, oneHelper, _ := begun()
	two, twoHelper, dir := begun()
	waiting := env.Sockstat(t, "TCP", "tw")
	var wg sync.WaitGroup
	wg.Go(func() {
		one.floods(t, oneHelper.Pid, "crowd", partControls)
	})
	wg.Go(func() {
		two.floods(t, twoHelper.Pid, partControls, "jam", partControls, "wild-names", "wrong-names", partControls, "streams", partControls, "jam-ends", partControls)
	})
	wg.Wait()
	if now := env.Sockstat(t, "TCP", "tw"); now > waiting+maxWaiting {
		t.Errorf("%d ports of the host wait, %d before", now, waiting)
	}
	if fi, err := os.Stat(filepath.Join(dir, "network.log")); err != nil || fi.Size() > 4<<20 {
		t.Errorf("the log: %v, %v", fi.Size(), err)
	}
	one.end(t)
	two.end(t)
}

// floods has the attacker do one part after the other, and looks at the helper after each.
func (a *attack) floods(t *testing.T, pid int, parts ...string) {
	t.Helper()
	for _, p := range parts {
		begun := time.Now()
		said := ""
		a.part(t, p, func(v verdict) {
			if p != partControls {
				said = v.Got
			}
			if !v.Passed {
				t.Errorf("%s: %s: %s", p, v.What, v.Got)
			}
		})
		peak := peakMemory(pid)
		t.Logf("%s: %s %v, the helper had at most %d MiB", p, said, time.Since(begun).Round(time.Millisecond), peak>>20)
		if peak == 0 || peak > helper.MemoryMax {
			t.Errorf("%s: the helper had %d bytes, or has ended", p, peak)
		}
	}
}

// peakMemory is the most memory that a process had, 0 for one that has ended.
func peakMemory(pid int) int64 {
	status, _ := procstatus.Read(pid)
	kib, _, _ := strings.Cut(status.Field("VmHWM"), " ")
	n, _ := strconv.ParseInt(kib, 10, 64)
	return n << 10
}

// addressOf is where the jail connects to a name.
func addressOf(name string) (string, error) { return look(attempt{at: name}) }

// beCrowd makes many connections at once, each of which is served, and resets them.
func beCrowd() (string, error) {
	at, err := addressOf("api.example.test")
	if err != nil {
		return "", err
	}
	var served atomic.Int32
	errs := make(chan error, crowd)
	var wg sync.WaitGroup
	for range crowd {
		wg.Go(func() {
			c, err := net.DialTimeout("tcp4", at+":80", floodTime)
			if err != nil {
				errs <- err
				return
			}
			_ = c.SetDeadline(time.Now().Add(floodTime))
			_, err = get(c, "api.example.test")
			_ = c.(*net.TCPConn).SetLinger(0)
			c.Close()
			if err != nil {
				errs <- err
				return
			}
			served.Add(1)
		})
	}
	wg.Wait()
	if n := served.Load(); n != crowd {
		return "", fmt.Errorf("%d of %d are served: %w", n, crowd, <-errs)
	}
	return fmt.Sprintf("%d are served,", crowd), nil
}

// jam are connections that are kept.
var jam struct {
	wg   sync.WaitGroup
	left atomic.Int32
}

// beginJam makes connections whose heads do not end, and keeps them until the helper ends them.
func beginJam() (string, error) {
	at, err := addressOf("api.example.test")
	if err != nil {
		return "", err
	}
	big := strings.Repeat("bypass", 10800)
	kinds := []struct{ at, say string }{
		{at + ":443", "\x16\x03\x01\x3f\x00\x01\x00\x3f\xf0\x03\x03" + big[:0x3efa]},
		{at + ":80", "GET / HTTP/1.1\r\nHost: api.example.test\r\nCookie: " + big},
		{at + ":80", "GET / HTTP/1.1\r\n" + strings.Repeat("X: "+big[:500]+"\r\n", 125)},
		{"127.0.0.1:3128", "CONNECT api.example.test:443 HTTP/1.1\r\nX: " + big},
	}
	for i := range heavy + slow {
		k := kinds[i%len(kinds)]
		c, err := net.DialTimeout("tcp4", k.at, floodTime)
		if err != nil {
			return "", err
		}
		jam.left.Add(1)
		jam.wg.Go(func() {
			defer jam.left.Add(-1)
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(floodTime))
			if i < heavy {
				_, _ = io.WriteString(c, k.say)
			} else {
				go func() {
					tick := time.Tick(500 * time.Millisecond)
					for j := range len(k.say) {
						if _, err := io.WriteString(c, k.say[j:j+1]); err != nil {
							return
						}
						<-tick
					}
				}()
			}
			if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
				jam.left.Add(1 << 16) // the helper kept it
			}
		})
	}
	return fmt.Sprintf("%d connections,", heavy+slow), nil
}

// endJam waits until the helper has ended them all.
func endJam() (string, error) {
	jam.wg.Wait()
	if n := jam.left.Load(); n != 0 {
		return "", fmt.Errorf("%d connections were not ended", n>>16)
	}
	return "all are ended,", nil
}

// queryMany queries the helper for names as fast as it answers, and reports what the first and the last name got.
func queryMany(count int, name func(int) string) (first, last netip.Addr, err error) {
	c, err := net.Dial("udp4", "127.0.0.1:53")
	if err != nil {
		return first, last, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(floodTime))
	// So many at a time that none is lost.
	const window = 64
	buf := make([]byte, 1500)
	for i, done := 0, 0; done < count; {
		for ; i < count && i < done+window; i++ {
			q := binary.BigEndian.AppendUint16(nil, uint16(i))
			if _, err := c.Write(append(q, question(name(i), 1, 1)[2:]...)); err != nil {
				return first, last, err
			}
		}
		n, err := c.Read(buf)
		if err != nil {
			return first, last, fmt.Errorf("after %d answers: %w", done, err)
		}
		if id := binary.BigEndian.Uint16(buf); n > 4 && buf[3]&15 == 0 {
			a, _ := netip.AddrFromSlice(buf[n-4 : n])
			if done < 1<<15 && id == 0 { // a name later on has the number again
				first = a
			}
			last = a
		}
		done++
	}
	return first, last, nil
}

// wild requests so many names of a wildcard that the first are forgotten. The exact name keeps its address, and the first one's address is
// no other name's.
func wild() (string, error) {
	exact, err := addressOf("api.example.test")
	if err != nil {
		return "", err
	}
	first, last, err := queryMany(wildNames, func(i int) string { return fmt.Sprintf("n%d.wild.example.test.", i) })
	if err != nil {
		return "", err
	}
	if now, err := addressOf("api.example.test"); err != nil || now != exact {
		return "", fmt.Errorf("the exact name was at %s and is at %s: %w", exact, now, err)
	}
	if !first.IsValid() || !last.IsValid() || first == last {
		return "", fmt.Errorf("the first name has %s, the last %s", first, last)
	}
	if got, err := talkTo(first.String()+":443", attempt{say: hello(sni("n0.wild.example.test"))}, nil); err == nil {
		return "", fmt.Errorf("a forgotten address works: %s", got)
	}
	again, _, err := queryMany(1, func(int) string { return "n0.wild.example.test." })
	if err != nil || again == first {
		return "", fmt.Errorf("a forgotten name has %s again: %w", again, err)
	}
	return fmt.Sprintf("%d names,", wildNames), nil
}

// wrong requests names without a rule, each of which is an event.
func wrong() (string, error) {
	first, last, err := queryMany(wrongOnes, func(i int) string { return fmt.Sprintf("n%d%s.wrong.example.test.", i, strings.Repeat("x", 50)) })
	if err == nil && (first.IsValid() || last.IsValid()) {
		err = fmt.Errorf("names without a rule have %s and %s", first, last)
	}
	return fmt.Sprintf("%d names,", wrongOnes), err
}

// stream makes connections one after the other, each of which sends a query.
func stream() (string, error) {
	say := framed(question("api.example.test.", 1, 1))
	var buf [512]byte
	for i := range streams {
		c, err := net.DialTimeout("tcp4", "127.0.0.1:53", floodTime)
		if err != nil {
			return "", fmt.Errorf("connection %d: %w", i, err)
		}
		_ = c.SetDeadline(time.Now().Add(floodTime))
		_, err = io.WriteString(c, say)
		if err == nil {
			_, err = c.Read(buf[:])
		}
		_ = c.(*net.TCPConn).SetLinger(0)
		c.Close()
		if err != nil {
			return "", fmt.Errorf("connection %d: %w", i, err)
		}
	}
	return fmt.Sprintf("%d connections,", streams), nil
}
