package names

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"agentjail.dev/runtime/network/helper"
	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/spec/netrules"
	"agentjail.dev/runtime/spec/network"
)

// Approve sends a decision on a name that no rule has to the helper of a running jail. It returns
// how many connections that ended.
func (Mode) Approve(j network.Jail, v network.Approval) (ended int, err error) {
	if err := checkServing(j); err != nil {
		return 0, err
	}
	a, err := request(j.Dir, helperproto.Request{Verb: helperproto.Decide, Decision: &v}, controlTime)
	return a.Ended, err
}

// Waiting returns what waits for a decision in a running jail.
func (Mode) Waiting(j network.Jail) ([]network.Waiting, error) {
	if err := checkServing(j); err != nil {
		return nil, err
	}
	a, err := request(j.Dir, helperproto.Request{Verb: helperproto.Waiting}, controlTime)
	if err != nil {
		return nil, err
	}
	for _, w := range a.Waiting {
		if err := checkWaiting(w); err != nil {
			return nil, err
		}
	}
	return a.Waiting, nil
}

// checkServing returns an error if a jail's helper cannot be sent a request.
func checkServing(j network.Jail) error {
	h, err := helper.Load(j.Dir)
	switch {
	case err != nil:
		return err
	case !j.Started:
		return errors.New("the jail is not started")
	case !serves(h):
		return network.ErrNoHelper
	}
	return nil
}

// Attach attaches this process to the helper of a running jail, as one that can decide, until the
// result is closed. Without it the helper refuses a name that no rule has at once.
func (Mode) Attach(j network.Jail) (network.Attached, error) {
	if err := checkServing(j); err != nil {
		return nil, err
	}
	return attach(j.Dir)
}

func attach(dir string) (*attached, error) {
	c, err := send(dir, helperproto.Request{Verb: helperproto.Attach}, controlTime)
	if err != nil {
		return nil, err
	}
	w := &attached{conn: c, lines: bufio.NewReaderSize(c, helperproto.MaxLine)}
	var a helperproto.Answer
	if err = w.read(&a); err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err == nil {
		err = c.SetDeadline(time.Time{})
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return w, nil
}

// attached is a connection to a helper. The helper is exposed to a jail: its lines are read with
// limits.
type attached struct {
	conn  *net.UnixConn
	lines *bufio.Reader
}

// read reads a line.
func (w *attached) read(v any) error {
	line, err := w.lines.ReadSlice('\n')
	if err != nil {
		if errors.Is(err, bufio.ErrBufferFull) {
			err = fmt.Errorf("the helper sent a line of more than %d bytes", helperproto.MaxLine)
		}
		return err
	}
	if err := json.Unmarshal(line, v); err != nil {
		return fmt.Errorf("the helper sent a malformed line: %w", err)
	}
	return nil
}

// Next returns the next connection that waits. It returns io.EOF when the helper has ended.
func (w *attached) Next() (network.Waiting, error) {
	var v network.Waiting
	err := w.read(&v)
	if errors.Is(err, net.ErrClosed) {
		err = io.EOF
	}
	if err == nil {
		err = checkWaiting(v)
	}
	return v, err
}

// Close ends the attachment.
func (w *attached) Close() error { return w.conn.Close() }

// checkWaiting refuses a name or a port that no helper sends.
func checkWaiting(v network.Waiting) error {
	name, err := netrules.Canonical(v.Name)
	if err == nil && (name != v.Name || v.Port == 0) {
		err = errors.New("not a canonical name with a port")
	}
	if err != nil {
		return fmt.Errorf("the helper sent a name that no connection can have: %w", err)
	}
	return nil
}
