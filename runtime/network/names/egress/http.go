package egress

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"agentjail.dev/runtime/network/names/internal/http1"
)

// An exchange is a connection of plain HTTP. Every request is judged, and written anew to the
// server. The connection to the server is made for the first allowed request.
type exchange struct {
	f        *flow
	head     *head // what is kept of a request
	up       *net.TCPConn
	upgrade  bool          // the first request requests another protocol
	switched chan bool     // whether the server agreed
	done     chan struct{} // the responses have ended
	refusing atomic.Bool   // a refusal is to follow the responses
	scan     *scan         // for placeholders
}

// http serves a connection of plain HTTP.
func (f *flow) http() {
	x := &exchange{
		f: f, head: f.s.heads.of(f.client), scan: f.s.credentials.scan(nil, nil), switched: make(chan bool, 2),
		done: make(chan struct{}),
	}
	if f.client.SetReadDeadline(time.Now().Add(helloTime)) != nil {
		return
	}
	err := http1.Copy(x, x.head, f.name, f.port, x.judged, x.agreed)
	x.head.done()
	if x.up != nil {
		defer hangUp(x.up)
	}
	x.end(err)
	if x.up != nil {
		f.ended()
	}
}

// judged is called with each request before it is sent on.
func (x *exchange) judged(q *http1.Request) error {
	if x.up == nil {
		x.upgrade = q.Upgrade
		_ = x.f.client.SetReadDeadline(time.Time{})
	}
	return x.f.s.credentials.judge(q, nil)
}

// errNotConnected means that the server cannot be reached and that the client has the refusal.
var errNotConnected = errors.New("not connected")

// Write sends to the server.
func (x *exchange) Write(b []byte) (int, error) {
	if x.up == nil {
		if x.up = x.f.dial(); x.up == nil {
			return 0, errNotConnected
		}
		go x.respond()
	}
	if err := x.scan.see(b); err != nil {
		return 0, err
	}
	n, err := x.up.Write(b)
	x.f.sent.Add(int64(n))
	x.head.done()
	return n, err
}

// agreed waits for the server's answer to a request that requests another protocol.
func (x *exchange) agreed() bool { return <-x.switched }

// respond copies the responses.
func (x *exchange) respond() {
	defer close(x.done)
	defer func() { x.switched <- false }() // for a waiting agreed; the channel has room if none waits
	var n int64
	var err error
	if x.upgrade {
		n, err = x.respondFirst()
	}
	if err == nil {
		var more int64
		more, err = io.Copy(x.f.client, x.up)
		n += more
	}
	x.f.got.Add(n)
	switch {
	case err != nil && !x.refusing.Load():
		reset(x.f.client)
		reset(x.up)
	case !x.refusing.Load():
		_ = x.f.client.CloseWrite()
		_ = x.f.client.SetReadDeadline(time.Now().Add(helloTime)) // no server is left
	}
}

// respondFirst copies the response to a request for another protocol, and reports whether the
// server agreed.
func (x *exchange) respondFirst() (int64, error) {
	h := x.f.s.heads.of(x.up)
	defer h.done()
	r := bufio.NewReader(h)
	code, raw, err := http1.Status(r)
	n, werr := x.f.client.Write(raw)
	if err == nil {
		err = werr
	}
	if err != nil {
		return int64(n), err
	}
	rest, _ := r.Peek(r.Buffered())
	k, err := x.f.client.Write(rest)
	x.switched <- code == 101
	return int64(n + k), err
}

// end ends the connection after its last request.
func (x *exchange) end(err error) {
	_, bad := errors.AsType[*http1.Error](err)
	switch {
	case err == nil && x.up == nil, errors.Is(err, errNotConnected):
	case err == nil:
		_ = x.up.CloseWrite()
		<-x.done
	case bad:
		x.refuse(err)
	default:
		if errors.Is(err, os.ErrDeadlineExceeded) && x.up == nil {
			x.f.refuse("no request in time", "")
		}
		if errors.Is(err, errTooLarge) {
			x.f.refuse(err.Error(), "")
		}
		reset(x.f.client)
		if x.up != nil {
			reset(x.up)
			<-x.done
		}
	}
}

// refuse answers a request that is not sent on, after the responses to those before it.
func (x *exchange) refuse(why error) {
	x.f.refuseFor(why)
	if x.up != nil {
		x.refusing.Store(true)
		if x.scan.hit {
			reset(x.up) // there is no response to half a request
		}
		_ = x.up.CloseWrite()
		_ = x.up.SetReadDeadline(time.Now().Add(helloTime))
		<-x.done
	}
	x.f.deny(http1.Refusal(why))
}
