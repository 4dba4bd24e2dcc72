// Package activator has the program that stands in for a network helper until the jail first uses
// its network: socket activation, as of inetd(8) and systemd.socket(5).
//
// A jail's helper is a program of some megabytes. Its start takes longer than all other steps of a
// network by name. The activator has three kilobytes. It is started in the helper's place, with the
// same descriptors and control groups, and drops the same privileges. It receives the helper's
// work: by MSG_PEEK it gets copies of the sockets in the jail, and leaves the work itself unread.
// When one of the sockets is readable, or a request for the helper arrives, the activator executes
// the helper, which then reads the work. The activator exits with the jail's first process.
//
// It never reads data from a jail. Its source is src/activator.c; `make activator` compiles it.
package activator

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// maxFilter bounds the system call filter, in instructions, as the program does.
const maxFilter = 256

// Program returns the program as an executable file in memory. It fails if the host forbids to
// execute such files (sysctl vm.memfd_noexec, Linux 6.3), or if the program is not compiled for
// this architecture.
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
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS,
		unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE); err != nil {
		f.Close()
		return nil, fmt.Errorf("sealing the activator: %w", err)
	}
	return f, nil
}

// Setup encodes the activator's set-up: the ids that it changes to (uid 0 keeps its ids) and the
// filter that it loads. The helper's own set-up follows, which the activator leaves for the helper.
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
