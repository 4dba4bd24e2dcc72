package seal

import (
	"fmt"
	"strconv"
	"strings"
)

// A bound is the maximum of each number of a setting.
type bound struct {
	path string
	most []uint64
}

// buffers are the namespace's own limits on a socket's kernel memory. The kernel has one budget for
// all sockets of the host (udp_mem, tcp_mem). Traffic over lo can exhaust the budget, and then the
// host's own connections are throttled. The numbers are the kernel's defaults on a small machine,
// except for the third number of TCP, up to which a socket's buffer grows by itself: one mebibyte,
// in place of 4 to 32, does not slow loopback. Source: Documentation/networking/ip-sysctl.rst,
// Documentation/admin-guide/sysctl/net.rst.
var buffers = []bound{
	{"ipv4/tcp_rmem", []uint64{4096, 16384, 1 << 20}},
	{"ipv4/tcp_wmem", []uint64{4096, 8192, 1 << 20}},
	// No listener takes data with the first packet (2): such a connection exists before it is
	// answered, and so before it is counted.
	{"ipv4/tcp_fastopen", []uint64{1}},
	// Records of ended connections, kept for a minute, 256 bytes each, which the kernel charges to
	// no account. Those above the number are gone at once.
	{"ipv4/tcp_max_tw_buckets", []uint64{16384}},
	// The minimum for each socket.
	{"ipv4/udp_rmem_min", []uint64{4096}},
	{"ipv4/udp_wmem_min", []uint64{4096}},
	// Options and ancillary data, which the kernel charges to no account; 128 KiB since Linux 6.9.
	{"core/optmem_max", []uint64{20480}},
}

// lower lowers the numbers of a setting to the bound. It raises none. A setting that the kernel
// does not have is no error.
func (d sysctlDir) lower(b bound) error {
	have, err := d.numbers(b)
	if err != nil || have == nil {
		return err
	}
	low := make([]string, len(have))
	changed := false
	for i, n := range have {
		low[i] = strconv.FormatUint(min(n, b.most[i]), 10)
		changed = changed || n > b.most[i]
	}
	if !changed {
		return nil
	}
	return d.set(sysctl{b.path, strings.Join(low, " ")})
}

// checkBound returns an error if a number is above the bound.
func (d sysctlDir) checkBound(b bound) error {
	have, err := d.numbers(b)
	if err != nil {
		return err
	}
	for i, n := range have {
		if n > b.most[i] {
			return fmt.Errorf("net/%s is %d, above %d", b.path, n, b.most[i])
		}
	}
	return nil
}

// numbers reads a setting; nil for a setting that the kernel does not have.
func (d sysctlDir) numbers(b bound) ([]uint64, error) {
	text, exists, err := d.read(b.path)
	if !exists {
		return nil, err
	}
	fields := strings.Fields(text)
	if len(fields) != len(b.most) {
		return nil, fmt.Errorf("read net/%s: %q has not %d numbers", b.path, text, len(b.most))
	}
	out := make([]uint64, len(fields))
	for i, f := range fields {
		if out[i], err = strconv.ParseUint(f, 10, 64); err != nil {
			return nil, fmt.Errorf("read net/%s: %w", b.path, err)
		}
	}
	return out, nil
}
