package seal

import (
	"os"
	"strings"
	"testing"
)

// setting reads or, with a value, writes a setting of the namespace. A failed write is returned.
func (s *space) setting(t *testing.T, path, value string) string {
	t.Helper()
	var text []byte
	var err error
	s.do(func() {
		if value != "" {
			err = os.WriteFile("/proc/sys/net/"+path, []byte(value), 0)
			return
		}
		text, err = os.ReadFile("/proc/sys/net/" + path)
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

// TestBuffers: the seal lowers large buffers, keeps small ones, and reports those that were raised
// again.
func TestBuffers(t *testing.T) {
	s := newSpace(t)
	for _, c := range []struct{ path, value, want string }{
		{"ipv4/tcp_rmem", "8192 262144 33554432", "4096 16384 1048576"},
		{"ipv4/tcp_wmem", "4096 8192 65536", "4096 8192 65536"},
		{"ipv4/udp_rmem_min", "1048576", "4096"},
		{"ipv4/tcp_max_tw_buckets", "131072", "16384"},
	} {
		s.setting(t, c.path, c.value)
		mustSeal(t, s)
		if got := s.setting(t, c.path, ""); got != c.want {
			t.Errorf("%s: %s became %s, not %s", c.path, c.value, got, c.want)
		}
		if f := findings(t, s)[SealSysctls]; !f.OK {
			t.Errorf("%s: %s", c.path, f.Detail)
		}
	}
	s.setting(t, "ipv4/tcp_wmem", "4096 8192 4194304")
	if f := findings(t, s)[SealSysctls]; f.OK || !strings.Contains(f.Detail, "net/ipv4/tcp_wmem is 4194304, above 1048576") {
		t.Errorf("made larger again: %+v", f)
	}
}
