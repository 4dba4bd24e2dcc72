package main

import (
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// refusedCalls makes a number of calls that every filter refuses, as fast as it can, and then of ordinary ones, and reports how many nanoseconds
// each took. "outside" leaves the first out: nothing would refuse them.
func refusedCalls(args []string) (any, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("refused-calls NUMBER [outside]")
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 1 {
		return nil, fmt.Errorf("%q is no number of calls", args[0])
	}
	each := func(f func()) int64 {
		begin := time.Now()
		for range n {
			f()
		}
		return time.Since(begin).Nanoseconds() / int64(n)
	}
	out := map[string]int64{
		"getpid": each(func() { _ = unix.Getpid() }),
		"socket": each(func() {
			if fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0); err == nil {
				unix.Close(fd)
			}
		}),
	}
	if len(args) == 1 {
		out["refused"] = each(func() { _ = tries["io_uring_setup"]() })
	}
	return out, nil
}
