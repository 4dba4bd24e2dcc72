package install

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"agentjail.dev/runtime/kernel/atomicfile"
)

const (
	// apiWait bounds one question to the daemon.
	apiWait = 5 * time.Second
	// apiMost bounds its answer, in bytes.
	apiMost = 8 << 20
)

// get requests path from the daemon's API over its socket and returns the body of a good answer.
func get(ctx context.Context, socket, path string) ([]byte, error) {
	var dialer net.Dialer
	client := http.Client{
		Timeout: apiWait,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, "unix", socket)
			},
		},
		// The daemon redirects no client.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker"+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := atomicfile.ReadAll(resp.Body, apiMost)
	switch {
	case err != nil:
		return nil, fmt.Errorf("GET %s: %w", path, err)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("GET %s: %s: %s", path, resp.Status, bytes.TrimSpace(body[:min(len(body), 200)]))
	}
	return body, nil
}
