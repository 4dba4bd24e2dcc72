package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"

	"agentjail.dev/tests/env"
)

// client speaks to dockerd.
func (e *Engine) client() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", e.Socket())
		},
	}}
}

// API requests something of dockerd that the tests' client, Docker 20.10's, has no option for. It returns the response's
// JSON object, and the text of an error of dockerd's.
func (t *T) API(method, path string, body any) (map[string]any, string) {
	t.Helper()
	code, text, err := t.request(method, path, body)
	env.Check(t, err)
	if code >= http.StatusBadRequest {
		return nil, fmt.Sprintf("%d %s: %s", code, http.StatusText(code), text)
	}
	var out map[string]any
	_ = json.Unmarshal(text, &out) // an empty response has none
	return out, ""
}

// request sends dockerd a request and returns its response's status and body.
func (e *Engine) request(method, path string, body any) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), env.CommandWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://docker"+path, bytes.NewReader(jsonOf(body)))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := e.client().Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, text, err
}
