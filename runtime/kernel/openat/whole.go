package openat

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// errUnsteady is the error of Whole for a file that has not as many bytes as its size.
var errUnsteady = errors.New("it changes, or is a file of the kernel's (remedy: a copy of it)")

// Whole reads an open regular file of at most max bytes. It refuses the kernel's own files
// (proc(5), sysfs(5)): their size is not that of their text, and reading one may wait, or have an
// effect. It waits for nothing if the file was opened without blocking.
func Whole(f *os.File, max int64) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	if st.Size > max {
		return nil, fmt.Errorf("it is too long: %d bytes, more than the %d that are read", st.Size, max)
	}
	data := make([]byte, st.Size+1)
	for at := 0; ; {
		n, err := unix.Read(int(f.Fd()), data[at:])
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN), err == nil && int64(at+n) > st.Size, err == nil && n == 0 && int64(at) < st.Size:
			return nil, errUnsteady
		case err != nil:
			return nil, &os.PathError{Op: "read", Path: f.Name(), Err: err}
		case n == 0:
			return data[:at], nil
		default:
			at += n
		}
	}
}
