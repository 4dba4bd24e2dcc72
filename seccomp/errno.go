package seccomp

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// lastErrno is EHWPOISON, the last number of errno(3) on Linux.
const lastErrno = 133

// errnos maps the names of ErrnoName back to their numbers.
var errnos = sync.OnceValue(func() map[string]uint {
	out := make(map[string]uint, lastErrno)
	for n := uint32(1); n <= lastErrno; n++ {
		out[ErrnoName(n)] = uint(n)
	}
	return out
})

// ErrnoName returns the name of an errno (errno(3)), and "errno N" for a number without one. 95 has
// two names: filters and libc call it EOPNOTSUPP.
func ErrnoName(n uint32) string {
	if n == eOPNOTSUPP {
		return "EOPNOTSUPP"
	}
	if name := unix.ErrnoName(unix.Errno(n)); name != "" {
		return name
	}
	return fmt.Sprintf("errno %d", n)
}
