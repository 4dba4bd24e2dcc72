// Package unixsocket finds the Unix sockets that listen at paths (unix(7)).
package unixsocket

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/namespace"
	"agentjail.dev/runtime/kernel/openat"
)

// A Bound is a socket that is bound to a path.
type Bound struct {
	// Name is the path as its process named it: relative to that process's directory then, in that
	// process's mount namespace, and possibly renamed since.
	Name string
	// Ino is the low half of the file's inode number, and Dev the device number of its file system
	// in the form MAJOR:MINOR, as mountinfo has it. Both are empty where the kernel does not report
	// them.
	Ino uint32
	Dev string
}

// Constants of sock_diag(7) and the kernel's include/uapi/linux/unix_diag.h.
const (
	byFamily  = 20 // SOCK_DIAG_BY_FAMILY
	showName  = 1  // UDIAG_SHOW_NAME
	showFile  = 2  // UDIAG_SHOW_VFS
	attrName  = 0  // UNIX_DIAG_NAME
	attrFile  = 1  // UNIX_DIAG_VFS
	msgSize   = 16 // struct unix_diag_msg
	headSize  = unix.SizeofNlMsghdr
	minorBits = 20 // of the kernel's own device numbers
)

// List returns the bound sockets of the calling thread's network namespace, and of the first
// process's: an engine can have one of its own.
func List() ([]Bound, error) {
	out, err := listOwn()
	if err != nil || sameNet() {
		return out, err
	}
	var first []Bound
	if namespace.InNet(1, func() (err error) {
		first, err = listOwn()
		return err
	}) != nil {
		return out, nil // a user's process cannot enter the namespace
	}
	return append(out, first...), nil
}

func sameNet() bool {
	own, err1 := os.Readlink("/proc/thread-self/ns/net")
	first, err2 := os.Readlink("/proc/1/ns/net")
	return err1 == nil && err2 == nil && own == first
}

// listOwn lists those of the thread's namespace.
func listOwn() ([]Bound, error) {
	out, err := dump()
	if err != nil { // a kernel without CONFIG_UNIX_DIAG
		return table("/proc/thread-self/net/unix")
	}
	return out, nil
}

// dump requests the list from the kernel (sock_diag(7)).
func dump() (out []Bound, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	e := binary.NativeEndian
	req := e.AppendUint32(nil, headSize+24)
	req = e.AppendUint16(req, byFamily)
	req = e.AppendUint16(req, unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	req = append(req, make([]byte, 8)...)                     // the message's number and its sender
	req = append(req, unix.AF_UNIX, 0, 0, 0)                  // sdiag_family, protocol
	req = e.AppendUint32(req, ^uint32(0))                     // every state
	req = e.AppendUint32(req, 0)                              // every inode
	req = e.AppendUint32(req, showName|showFile)              //
	req = append(req, 255, 255, 255, 255, 255, 255, 255, 255) // no cookie
	if err := unix.Sendto(fd, req, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, os.NewSyscallError("sendto", err)
	}
	buf := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, os.NewSyscallError("recvfrom", err)
		}
		for rest := buf[:n]; len(rest) >= headSize; {
			size, typ := int(e.Uint32(rest)), e.Uint16(rest[4:])
			if size < headSize || size > len(rest) {
				return nil, errors.New("sock_diag: a message that is cut off")
			}
			switch typ {
			case unix.NLMSG_DONE:
				return out, nil
			case unix.NLMSG_ERROR:
				return nil, errors.New("sock_diag: refused")
			case byFamily:
				if b, ok := parse(rest[headSize:size]); ok {
					out = append(out, b)
				}
			}
			rest = rest[min(len(rest), (size+3)&^3):]
		}
	}
}

// parse reads a socket's attributes. ok is false for one that is bound to no path.
func parse(msg []byte) (b Bound, ok bool) {
	if len(msg) < msgSize {
		return b, false
	}
	e := binary.NativeEndian
	for rest := msg[msgSize:]; len(rest) >= unix.SizeofRtAttr; {
		size, typ := int(e.Uint16(rest)), e.Uint16(rest[2:])
		if size < unix.SizeofRtAttr || size > len(rest) {
			return b, false
		}
		value := rest[unix.SizeofRtAttr:size]
		switch {
		case typ == attrName && len(value) > 0 && value[0] != 0: // otherwise it is abstract
			name, _, _ := bytes.Cut(value, []byte{0})
			b.Name, ok = string(name), true
		case typ == attrFile && len(value) >= 8:
			dev := e.Uint32(value[4:])
			b.Ino, b.Dev = e.Uint32(value), fmt.Sprintf("%d:%d", dev>>minorBits, dev&(1<<minorBits-1))
		}
		rest = rest[min(len(rest), (size+3)&^3):]
	}
	return b, ok
}

// table reads the names of bound sockets from /proc/net/unix, which has no inodes of their files.
func table(path string) (out []Bound, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// Num RefCount Protocol Flags Type St Inode Path
		rest := lines.Text()
		for range 7 {
			_, rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
		}
		if rest != "" && rest[0] != '@' && rest != "Path" {
			out = append(out, Bound{Name: rest})
		}
	}
	return out, lines.Err()
}

// Listens reports whether a socket is bound to an open file (O_PATH), in any network namespace. It
// connects a datagram socket, of which the process at the other end notices nothing: a stream's
// answer is EPROTOTYPE (unix_find_bsd in the kernel's net/unix/af_unix.c). The answer is also true
// where it may not connect.
func Listens(fd int) bool {
	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return true
	}
	defer unix.Close(s)
	return !errors.Is(unix.Connect(s, &unix.SockaddrUnix{Name: openat.Proc(fd)}), unix.ECONNREFUSED)
}
