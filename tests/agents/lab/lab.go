// Package lab is the network behind a test's host: a name server, and servers with the names of the models' APIs, which have an agent
// work.
package lab

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"agentjail.dev/tests/env"
)

// Addresses of the lab. They are of no special range, and lead nowhere but to the lab.
const (
	hostAddr   = "5.5.5.2"
	serverAddr = "5.5.5.10"
)

// served are the names that the lab's servers have.
var served = []string{"api.anthropic.com", "api.openai.com"}

// LastWord is what the model's last answer is.
const LastWord = "the-model-is-done"

// A Lab is the network behind a host.
type Lab struct {
	command string // what the model has the agent run first
	mu      sync.Mutex
	keys    map[string]bool // host, header and value of each request
	asked   []string        // request lines
}

// Files are what a host needs of a lab, by path: its name server, and its authority alone.
type Files map[string][]byte

// Behind makes a lab behind a host, and the host's way there. host calls a function in the host's network. The model has agents run the
// command.
func Behind(t testing.TB, host func(func() error) error, command string) (*Lab, Files) {
	t.Helper()
	l := &Lab{command: command, keys: map[string]bool{}}
	cert, ca := env.Certificate(t, served...)
	place := env.Get(t, env.NewPlace)
	t.Cleanup(place.Close)
	env.Check(t, host(func() error {
		return env.IP("link set lo up", "link add wan type veth peer name net netns "+strconv.Itoa(place.TID), "addr add "+hostAddr+"/24 dev wan",
			"link set wan up", "route add default via "+serverAddr)
	}))
	env.Check(t, place.Do(func() error {
		return errors.Join(env.IP("link set net up", "addr add "+serverAddr+"/24 dev net"), l.serve(cert))
	}))
	return l, Files{"/etc/resolv.conf": []byte("nameserver " + serverAddr + "\n"), "/etc/ssl/certs/ca-certificates.crt": ca}
}

// serve listens in the calling thread's namespace.
func (l *Lab) serve(cert tls.Certificate) error {
	dns, err := net.ListenPacket("udp4", serverAddr+":53")
	if err != nil {
		return err
	}
	go env.ServeNames(dns, func(q dnsmessage.Question) ([]dnsmessage.Resource, bool) {
		for _, name := range served {
			if q.Name.String() == name+"." {
				return env.Address(q, 1, netip.MustParseAddr(serverAddr)), true
			}
		}
		return nil, false
	})
	web, err := net.Listen("tcp4", serverAddr+":443")
	if err != nil {
		return err
	}
	go func() {
		// A client may end a connection before it is one.
		s := &http.Server{Handler: l, ErrorLog: log.New(io.Discard, "", 0)}
		_ = s.Serve(tls.NewListener(web, &tls.Config{Certificates: []tls.Certificate{cert}}))
	}()
	return nil
}

// ServeHTTP is both models.
func (l *Lab) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	l.mu.Lock()
	l.asked = append(l.asked, r.Method+" "+r.Host+r.URL.Path)
	for _, header := range []string{"X-Api-Key", "Authorization"} {
		if v := r.Header.Get(header); v != "" {
			l.keys[r.Host+" "+header+": "+v] = true
		}
	}
	l.mu.Unlock()
	var answer func(*events, []byte, string)
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/v1/messages":
		answer = messages
	case r.Method == http.MethodPost && r.URL.Path == "/v1/responses":
		answer = responses
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	answer(&events{w}, body, l.command)
}

// Seen returns the keys and the request lines of all requests.
func (l *Lab) Seen() (keys, asked string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k := range l.keys {
		keys += k + "\n"
	}
	return keys, strings.Join(l.asked, "\n")
}

// object is a JSON object.
type object = map[string]any

// events are server-sent.
type events struct{ w io.Writer }

func (e *events) send(kind string, o object) {
	o["type"] = kind
	text, _ := json.Marshal(o)
	fmt.Fprintf(e.w, "event: %s\ndata: %s\n\n", kind, text)
}

// messages is Anthropic's API: the first answer to an agent with a shell has the shell run the command, any other is the last word.
func messages(e *events, body []byte, command string) {
	tool := ""
	for _, name := range []string{"Bash", "bash"} {
		if bytes.Contains(body, []byte(`"name":"`+name+`"`)) && !bytes.Contains(body, []byte(`"tool_result"`)) {
			tool = name
		}
	}
	e.send("message_start", object{"message": object{
		"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []any{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": object{"input_tokens": 1, "output_tokens": 1},
	}})
	block, delta, stop := object{"type": "text", "text": ""}, object{"type": "text_delta", "text": LastWord}, "end_turn"
	if tool != "" {
		input, _ := json.Marshal(object{"command": command, "description": "works"})
		block = object{"type": "tool_use", "id": "toolu_1", "name": tool, "input": object{}}
		delta, stop = object{"type": "input_json_delta", "partial_json": string(input)}, "tool_use"
	}
	e.send("content_block_start", object{"index": 0, "content_block": block})
	e.send("content_block_delta", object{"index": 0, "delta": delta})
	e.send("content_block_stop", object{"index": 0})
	e.send("message_delta", object{"delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": 1}})
	e.send("message_stop", object{})
}

// responses is OpenAI's API, in the same way.
func responses(e *events, body []byte, command string) {
	e.send("response.created", object{"response": object{"id": "resp_1"}})
	item := object{"type": "message", "id": "msg_1", "role": "assistant", "content": []any{object{"type": "output_text", "text": LastWord}}}
	if !bytes.Contains(body, []byte(`"type":"custom_tool_call_output"`)) {
		script, _ := json.Marshal(object{"cmd": command})
		item = object{
			"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "exec",
			"input": "const r = await tools.exec_command(" + string(script) + "); text(JSON.stringify(r));",
		}
	}
	e.send("response.output_item.done", object{"output_index": 0, "item": item})
	e.send("response.completed", object{"response": object{
		"id": "resp_1", "usage": object{"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
	}})
}
