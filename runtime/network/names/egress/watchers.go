package egress

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"agentjail.dev/runtime/network/names/internal/helperproto"
)

const (
	maxWatchers = 8
	// sendTime is how long a watcher may take to read a line. The connection of a slower watcher is
	// closed.
	sendTime = 100 * time.Millisecond
)

// watchers are the connections of processes that can decide on a name. The lock of approvals is
// held.
type watchers []*net.UnixConn

// attached reports whether a watcher is left, and closes the connections whose other end is gone.
func (w *watchers) attached() bool {
	*w = slices.DeleteFunc(*w, func(c *net.UnixConn) bool {
		gone := abandoned(c)
		if gone {
			c.Close()
		}
		return gone
	})
	return len(*w) > 0
}

// send sends a line to each watcher, and closes the connections that do not take it.
func (w *watchers) send(v any) {
	*w = slices.DeleteFunc(*w, func(c *net.UnixConn) bool {
		failed := sendLine(c, v) != nil
		if failed {
			c.Close()
		}
		return failed
	})
}

func sendLine(c *net.UnixConn, v any) error {
	line, err := json.Marshal(v)
	if err == nil {
		err = c.SetWriteDeadline(time.Now().Add(sendTime))
	}
	if err == nil {
		_, err = c.Write(append(line, '\n'))
	}
	return err
}

// attach keeps a connection whose sender can decide, and sends it what waits already. After an
// error the connection is the caller's.
func (a *approvals) attach(c *net.UnixConn) error {
	if a == nil {
		return errors.New("the jail's policy has no network.approval = \"prompt\"")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.watchers.attached(); len(a.watchers) >= maxWatchers {
		return fmt.Errorf("%d processes are attached already", maxWatchers)
	}
	if err := sendLine(c, helperproto.Answer{}); err != nil {
		return err
	}
	for _, q := range a.listed() {
		if err := sendLine(c, q); err != nil {
			return err
		}
	}
	a.watchers, a.expectUntil = append(a.watchers, c), time.Time{}
	return nil
}
