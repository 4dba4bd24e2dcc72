package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

const (
	// apiWait bounds one question to the daemon.
	apiWait = 5 * time.Second
	// apiMost bounds its answer, in bytes.
	apiMost = 8 << 20
)

// get asks the daemon's API for path over its socket and returns the body of a good answer. It speaks HTTP/1.0, in which the
// connection's end ends the body (RFC 1945, 7.2.2), by hand: net/http, with TLS behind it, would cost every start of a jail a quarter
// of a millisecond before main, and this program three megabytes.
func get(ctx context.Context, socket, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, apiWait)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, err
		}
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.0\r\nHost: docker\r\n\r\n", path); err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, apiMost+1))
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	if len(answer) > apiMost {
		return nil, fmt.Errorf("GET %s: the answer has more than %d bytes", path, apiMost)
	}
	head, body, whole := bytes.Cut(answer, []byte("\r\n\r\n"))
	first, _, _ := bytes.Cut(head, []byte("\r\n"))
	version, status, _ := bytes.Cut(first, []byte(" "))
	if !whole || !bytes.HasPrefix(version, []byte("HTTP/1.")) {
		return nil, errors.New("GET " + path + ": not an HTTP answer")
	}
	if !bytes.HasPrefix(status, []byte("200 ")) {
		return nil, fmt.Errorf("GET %s: %s: %s", path, status, bytes.TrimSpace(body[:min(len(body), 200)]))
	}
	return body, nil
}
