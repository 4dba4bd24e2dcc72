package main

import (
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// batches are how many times a kind of call is timed: the quickest counts, which the least came between.
const batches = 20

// costs makes calls that eBPF programs look at, as often as is stated, and one that none looks at, and reports how many nanoseconds each took.
func costs(args []string) (any, error) {
	n := 0
	if len(args) == 1 {
		n, _ = strconv.Atoi(args[0])
	}
	if n < 1 {
		return nil, fmt.Errorf("costs NUMBER, not %q", args)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	to := &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}}
	out := map[string]int64{}
	for name, one := range map[string]func() error{
		"getpid":  func() error { unix.Getpid(); return nil },
		"connect": func() error { return unix.Connect(fd, to) },
		"socket": func() error {
			other, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err == nil {
				unix.Close(other)
			}
			return err
		},
		"execute": func() error { return exec.Command("/bin/true").Run() },
	} {
		times := max(1, n/batches)
		if name == "execute" {
			times = 1 // a thousand times as long
		}
		for range batches {
			begin := time.Now()
			for range times {
				if err := one(); err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
			}
			took := time.Since(begin).Nanoseconds() / int64(times)
			if before, ok := out[name]; !ok || took < before {
				out[name] = took
			}
		}
	}
	return out, nil
}
