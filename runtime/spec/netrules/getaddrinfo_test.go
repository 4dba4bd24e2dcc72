package netrules

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
)

// numericHosts prints those of its lines that the C library reads as an address, with the address.
const numericHosts = `
import socket, sys
for line in sys.stdin:
    try:
        print(line.rstrip("\n"), socket.getaddrinfo(line.rstrip("\n"), None, flags=socket.AI_NUMERICHOST)[0][4][0])
    except (OSError, UnicodeError):
        pass
`

// spellings are texts of which many are an address to some program: of one to four numbers, in
// every base.
func spellings() []string {
	bases := []string{"%d", "0x%x", "0%o", "0X%X", "%02d", "0x%08x", "0%012o", "%d."}
	r := rand.New(rand.NewPCG(1, 2))
	var out []string
	for range 4000 {
		var parts []string
		for range 1 + r.IntN(5) {
			n := []int{0, 1, 5, 10, 127, 169, 254, 255, 256, 65535, 65536, 1<<24 - 1, 84215050, 2130706433, 2852039166, 1<<32 - 1, 1 << 32}[r.IntN(17)]
			parts = append(parts, fmt.Sprintf(bases[r.IntN(len(bases))], n))
		}
		s := strings.Join(parts, ".")
		// Some with one byte that is another.
		if b := []byte(s); r.IntN(4) == 0 {
			b[r.IntN(len(b))] = "0123456789abcdefx.-_:%"[r.IntN(22)]
			s = string(b)
		}
		out = append(out, s)
	}
	return append(out, "::1", "::ffff:1.2.3.4", "fe80::1%lo", "1::", "0x", "0x.0x", "x", "a.0x1", "1.a", "08", "1.09")
}

// TestGetaddrinfo: a text that the C library parses as an address is never a name here.
func TestGetaddrinfo(t *testing.T) {
	const python = "/usr/bin/python3"
	if _, err := exec.LookPath(python); err != nil {
		t.Skipf("needs %s: %v", python, err)
	}
	cmd := exec.Command(python, "-c", numericHosts)
	cmd.Stdin = strings.NewReader(strings.Join(spellings(), "\n"))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	read, other := 0, 0
	for line := range strings.Lines(string(out)) {
		text, addr, _ := strings.Cut(strings.TrimSpace(line), " ")
		if c, err := Canonical(text); err == nil {
			t.Errorf("%q is the name %s, and %s to getaddrinfo", text, c, addr)
		}
		// An entry of policy that is an address is the same one to both.
		if a, ok := literal(text); ok && a.String() != addr {
			if b, err := netip.ParseAddr(addr); err != nil || a != b.Unmap() {
				t.Errorf("%q is %s, and %s to getaddrinfo", text, a, addr)
			}
		} else if !ok {
			other++
		}
		read++
	}
	if read < 500 || other < 500 {
		t.Errorf("getaddrinfo read only %d addresses, %d of them in other forms than ours", read, other)
	}
}
