package cri

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// channels talks to a streaming server over a WebSocket (RFC 6455) whose messages begin with the number of a channel
// (v4.channel.k8s.io): 0 is standard input, 1 and 2 are outputs, 3 reports how it ended.
func (n *node) channels(address string, stdin []byte, out *[256][]byte) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	var conn net.Conn
	if err := n.InNetns(func() error {
		conn, err = net.DialTimeout("tcp", u.Host, callWait)
		return err
	}); err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(callWait)); err != nil {
		return err
	}
	req, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	for k, v := range map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
		"Sec-WebSocket-Key": "YWdlbnRqYWlsIHRlc3RzIQ==", "Sec-WebSocket-Protocol": "v4.channel.k8s.io", "Origin": "http://localhost",
	} {
		req.Header.Set(k, v)
	}
	if err := req.Write(conn); err != nil {
		return err
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("the streaming server answers %s", resp.Status)
	}
	sent := make(chan error, 1)
	go func() { sent <- sendChannel(conn, 0, stdin) }()
	for {
		op, payload, err := readFrame(r)
		if errors.Is(err, io.EOF) || op == 8 {
			break
		}
		if err != nil {
			return err
		}
		if len(payload) > 0 && (op == 1 || op == 2) {
			out[payload[0]] = append(out[payload[0]], payload[1:]...)
		}
	}
	return <-sent
}

// sendChannel sends data in binary messages. The mask of zeros leaves it as it is.
func sendChannel(w io.Writer, channel byte, data []byte) error {
	const most = 30000
	for len(data) > 0 {
		n := min(len(data), most)
		frame := []byte{0x82, 0x80 | 126, 0, 0, 0, 0, 0, 0, channel}
		binary.BigEndian.PutUint16(frame[2:], uint16(n+1))
		if _, err := w.Write(append(frame, data[:n]...)); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// readFrame reads one unfragmented frame of a server.
func readFrame(r io.Reader) (op byte, payload []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := uint64(head[1] & 0x7f)
	if n >= 126 {
		long := make([]byte, map[uint64]int{126: 2, 127: 8}[n])
		if _, err := io.ReadFull(r, long); err != nil {
			return 0, nil, err
		}
		n = 0
		for _, b := range long {
			n = n<<8 | uint64(b)
		}
	}
	if n > 1<<24 {
		return 0, nil, fmt.Errorf("a frame of %d bytes", n)
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(r, payload)
	return head[0] & 0x0f, payload, err
}
