// Package localports holds sockets to some of the ports that the host's programs connect from
// (net.ipv4.ip_local_port_range).
package localports

import (
	"golang.org/x/sys/unix"
)

// Hold has a socket, of either family, connect from the ports from first to last (ip(7),
// IP_LOCAL_PORT_RANGE, Linux 6.3). Before, it is unix.ENOPROTOOPT.
func Hold(fd int, first, last uint16) error {
	return unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_LOCAL_PORT_RANGE, int(int32(uint32(last)<<16|uint32(first))))
}

// Can reports why the kernel does not hold sockets to ports; nil where it does.
func Can() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return Hold(fd, 1, 2)
}
