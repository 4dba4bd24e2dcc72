package exhaust

import (
	"net"
	"testing"
	"time"

	"agentjail.dev/tests/env"
)

// datagrams sends some between two sockets of the host's. One that is not there after so long was dropped.
func datagrams(t *testing.T) {
	t.Helper()
	const many = 100
	in, err := net.ListenPacket("udp4", "127.0.0.1:0")
	env.Check(t, err)
	defer in.Close()
	out, err := net.Dial("udp4", in.LocalAddr().String())
	env.Check(t, err)
	defer out.Close()
	buf := make([]byte, 32<<10)
	for i := range many {
		if _, err := out.Write(buf); err != nil {
			t.Fatalf("datagram %d: %v", i, err)
		}
		env.Check(t, in.SetReadDeadline(time.Now().Add(env.Patience)))
		if _, _, err := in.ReadFrom(buf); err != nil {
			t.Fatalf("datagram %d between the host's own sockets: %v", i, err)
		}
	}
}
