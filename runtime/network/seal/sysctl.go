package seal

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// sysctl is one kernel setting of the namespace, as a path below /proc/sys/net, and its sealed
// value.
type sysctl struct {
	path  string
	value string
}

// sysctls4 and sysctls6 are settings that hold for interfaces which appear later: "all" is combined
// with the interface's own value, "default" is copied when the interface arrives. The bundle
// decides whether lo has ::1: either is the jail's own. Source:
// Documentation/networking/ip-sysctl.rst.
var (
	sysctls4 = []sysctl{
		{"ipv4/conf/all/forwarding", "0"},
		// Multicast and broadcast are delivered without a route look-up; the reverse path check
		// makes one for the source.
		{"ipv4/conf/all/rp_filter", "1"},
		// Answer no ARP request.
		{"ipv4/conf/all/arp_ignore", "8"},
	}
	sysctls6 = []sysctl{
		{"ipv6/conf/default/disable_ipv6", "1"},
		// For the case that the engine turns IPv6 on for its interface: no router may configure it.
		{"ipv6/conf/default/accept_ra", "0"},
		{"ipv6/conf/default/autoconf", "0"},
		{"ipv6/conf/all/forwarding", "0"},
	}
)

// sysctlDir is /proc/sys/net as seen by this thread, that is, of the namespace that it has joined
// (the kernel resolves it by the namespace of the opening thread).
type sysctlDir struct{ fd int }

func openSysctls() (sysctlDir, error) {
	const path = "/proc/sys/net"
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return sysctlDir{}, fmt.Errorf("open %s: %w", path, err)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil || int64(fs.Type) != unix.PROC_SUPER_MAGIC {
		unix.Close(fd)
		return sysctlDir{}, fmt.Errorf("%s is not the kernel's", path)
	}
	return sysctlDir{fd}, nil
}

func (d sysctlDir) close() { unix.Close(d.fd) }

// set writes a setting unless it has the value already (some make the kernel walk all interfaces).
// A setting that the kernel does not have is no error.
func (d sysctlDir) set(s sysctl) error {
	fd, err := unix.Openat(d.fd, s.path, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err == nil {
		var have string
		if have, err = readSysctl(fd); err == nil && have != s.value {
			_, err = unix.Pwrite(fd, []byte(s.value), 0)
		}
		unix.Close(fd)
	}
	if err != nil {
		return fmt.Errorf("set net/%s to %s: %w", s.path, s.value, err)
	}
	return nil
}

// check returns an error if the setting has another value.
func (d sysctlDir) check(s sysctl) error {
	have, exists, err := d.read(s.path)
	if exists && have != s.value {
		return fmt.Errorf("net/%s is %s, not %s", s.path, have, s.value)
	}
	return err
}

// read reads a setting; exists is false for a setting that the kernel does not have.
func (d sysctlDir) read(path string) (value string, exists bool, err error) {
	fd, err := unix.Openat(d.fd, path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return "", false, nil
	}
	if err == nil {
		value, err = readSysctl(fd)
		unix.Close(fd)
	}
	if err != nil {
		return "", false, fmt.Errorf("read net/%s: %w", path, err)
	}
	return value, true, nil
}

func readSysctl(fd int) (string, error) {
	var b [64]byte
	n, err := unix.Pread(fd, b[:], 0)
	if err != nil {
		return "", err
	}
	return string(bytes.TrimSpace(b[:n])), nil
}

// Set makes settings of a network namespace, by their names below net (ipv4.tcp_syncookies). A
// setting that the kernel does not have is no error. The same conditions as for Seal apply.
func Set(netns *os.File, settings map[string]string) error {
	if len(settings) == 0 {
		return nil
	}
	return inNamespace(netns, func() error {
		d, err := openSysctls()
		if err != nil {
			return err
		}
		defer d.close()
		var errs []error
		for _, name := range slices.Sorted(maps.Keys(settings)) {
			path := strings.ReplaceAll(name, ".", "/")
			if strings.Contains("/"+path+"/", "//") || strings.ContainsAny(path, "\x00\n") {
				errs = append(errs, fmt.Errorf("set net/%s: not the name of a setting", path))
				continue
			}
			errs = append(errs, d.set(sysctl{path, settings[name]}))
		}
		return errors.Join(errs...)
	})
}
