// Package activator has the program that stands in for a network helper until the jail first uses
// its network: socket activation, as of inetd(8) and systemd.socket(5).
//
// A jail's helper is a program of some megabytes, whose start takes longer than all else that a
// network by name adds to a jail's. The activator is one of three kilobytes. It is started in the
// helper's place, with the same descriptors and control groups, and gives up the same privileges.
// It takes the helper's work: by MSG_PEEK it gets copies of the sockets in the jail, and leaves the
// work itself unread. When one of them can be read, or somebody asks the helper for something, it
// executes the helper, which finds its work where the activator left it. It ends with the jail's
// first process.
//
// It reads nothing that a jail sends. Its source is src/activator.c; `make activator` compiles it.
package activator

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// maxFilter bounds the system call filter, in instructions, as the program does.
const maxFilter = 256

// Program returns the program as a file in memory, to be executed. It fails where the host lets
// none be executed (sysctl vm.memfd_noexec, Linux 6.3), or for a machine that it is not compiled
// for.
func Program() (*os.File, error) {
	if len(program) == 0 {
		return nil, fmt.Errorf("the activator: %w", unix.ENOEXEC)
	}
	const name = "agentjail-egress"
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if err == unix.EINVAL { // before Linux 6.3 all can be executed
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.Write(program); err != nil {
		f.Close()
		return nil, err
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE); err != nil {
		f.Close()
		return nil, fmt.Errorf("sealing the activator: %w", err)
	}
	return f, nil
}

// Setup is what the activator reads first: whose ids it takes (uid 0 keeps those that it has), the
// filter that it loads, and after that the helper's own set-up, which it leaves for the helper.
func Setup(uid, gid uint32, filter []unix.SockFilter, helper []byte) ([]byte, error) {
	if len(filter) > maxFilter {
		return nil, fmt.Errorf("the activator's filter has %d instructions", len(filter))
	}
	e := binary.NativeEndian
	out := make([]byte, 0, 12+8*len(filter)+len(helper))
	for _, v := range []uint32{uid, gid, uint32(len(filter))} {
		out = e.AppendUint32(out, v)
	}
	for _, i := range filter { // struct sock_filter (linux/filter.h)
		out = e.AppendUint32(append(e.AppendUint16(out, i.Code), i.Jt, i.Jf), i.K)
	}
	return append(out, helper...), nil
}
