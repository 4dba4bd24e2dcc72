package jailsock

import (
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/bpfmap"
	"agentjail.dev/runtime/spec/publish"
)

// The programs of runtime/observe/ebpf/src/lookup.c, compiled. Their map 0 is of sockets.
var (
	//go:embed range.bpf
	rangeProgram []byte
	// portsProgram has as map 1 a bitmap of ports.
	//go:embed ports.bpf
	portsProgram []byte
)

// divert sends a network namespace's connections to the range to a listener in it, and connections
// to moved services to those services. It lasts as long as the returned descriptor and the
// namespace. It needs CAP_BPF (or CAP_SYS_ADMIN) and CAP_NET_ADMIN over the namespace.
func divert(netns *os.File, listener syscall.Conn, moved []movedSocket) (link int, err error) {
	sockets := map[uint32]syscall.Conn{0: listener}
	for _, m := range moved {
		sockets[uint32(m.Protocol)<<16|uint32(m.Port)] = m.socket
	}
	return steer(netns, rangeProgram, sockets)
}

// DivertPorts sends TCP connections to some ports of the calling thread's network namespace to a
// listener, as long as this process lives.
func DivertPorts(l *net.TCPListener, ranges []publish.Range) error {
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer own.Close()
	var bits [1 << 16 / 8]byte
	for _, r := range ranges {
		for port := int(r.First); port <= int(r.Last); port++ {
			bits[port/8] |= 1 << (port % 8)
		}
	}
	ports, err := bpfmap.New[[len(bits)]byte](unix.BPF_MAP_TYPE_ARRAY, 1)
	if err != nil {
		return err
	}
	defer ports.Close()
	if err := ports.Put(0, bits); err != nil {
		return fmt.Errorf("writing a map of ports: %w", err)
	}
	_, err = steer(own, portsProgram, map[uint32]syscall.Conn{0: l}, ports.FD())
	return err
}

// steer attaches a program to a network namespace, with a map of the sockets that get the
// connections, and further maps.
func steer(netns *os.File, program []byte, sockets map[uint32]syscall.Conn, maps ...int) (link int, err error) {
	m, err := bpfmap.New[uint64](unix.BPF_MAP_TYPE_SOCKHASH, len(sockets))
	if err != nil {
		return -1, err
	}
	defer m.Close()
	for key, c := range sockets {
		raw, err := c.SyscallConn()
		if err != nil {
			return -1, err
		}
		cerr := raw.Control(func(fd uintptr) { err = m.Put(key, uint64(fd)) })
		if err := errors.Join(cerr, err); err != nil {
			return -1, fmt.Errorf("adding a listener to a map of sockets: %w", err)
		}
	}
	return bpfmap.Attach(program, unix.BPF_PROG_TYPE_SK_LOOKUP, unix.BPF_SK_LOOKUP, "agentjail_names", int(netns.Fd()),
		append([]int{m.FD()}, maps...)...)
}
