package main

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// forks starts COUNT processes that stay until this one ends, and reports how many came to be.
func forks(args []string) (any, error) {
	if len(args) != 1 {
		return nil, errors.New("usage: forks COUNT")
	}
	most, err := strconv.Atoi(args[0])
	if err != nil {
		return nil, err
	}
	var started []*exec.Cmd
	defer func() {
		for _, c := range started {
			_ = c.Process.Kill()
		}
		for _, c := range started {
			_ = c.Wait()
		}
	}()
	for i := range most {
		// busybox's sleep has one thread; a Go program would count several times.
		c := exec.Command("/bin/busybox", "sleep", "600")
		if err := c.Start(); err != nil {
			return map[string]any{"started": i, "errno": errnoName(err)}, nil
		}
		started = append(started, c)
	}
	return map[string]any{"started": most, "errno": ""}, nil
}

// memory touches MEGABYTES of memory. Beyond a limit the kernel kills the process, which then prints nothing.
func memory(args []string) (any, error) {
	if len(args) != 1 {
		return nil, errors.New("usage: memory MEGABYTES")
	}
	most, err := strconv.Atoi(args[0])
	if err != nil {
		return nil, err
	}
	for i := range most {
		b, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return map[string]any{"megabytes": i, "errno": errnoName(err)}, nil
		}
		for p := 0; p < len(b); p += 4096 {
			b[p] = 1
		}
	}
	return map[string]any{"megabytes": most, "errno": ""}, nil
}

// pause waits for a signal that ends it.
func pause([]string) (any, error) {
	return nil, syscall.Pause()
}

// connect tries each "network,address", such as tcp,127.0.0.1:80, and reports the error.
func connect(args []string) (any, error) {
	all := map[string]outcome{}
	for _, a := range args {
		for i := range a {
			if a[i] != ',' {
				continue
			}
			c, err := net.DialTimeout(a[:i], a[i+1:], 3*time.Second)
			o := outcomeOf(err)
			if err == nil {
				c.Close()
			} else if os.IsTimeout(err) {
				o.Errno = "ETIMEDOUT"
			}
			all[a] = o
			break
		}
	}
	return all, nil
}

// echoServer listens on tcp ADDRESS, answers with what it is sent, and states on standard output when it is ready.
func echoServer(args []string) (any, error) {
	if len(args) != 1 {
		return nil, errors.New("usage: echo-server ADDRESS")
	}
	network := "tcp"
	if strings.HasPrefix(args[0], "@") || strings.HasPrefix(args[0], "/") { // an abstract socket, and one at a path
		network = "unix"
	}
	l, err := net.Listen(network, args[0])
	if err != nil {
		return nil, err
	}
	os.Stdout.WriteString("listening\n")
	for {
		c, err := l.Accept()
		if err != nil {
			return nil, err
		}
		go func() { _, _ = io.Copy(c, c); c.Close() }()
	}
}
