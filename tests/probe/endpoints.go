package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Types of sockets, by the names that files of a directory begin with (tests/engine, Endpoints).
var socketTypes = map[string]int{"stream": unix.SOCK_STREAM, "datagram": unix.SOCK_DGRAM, "seqpacket": unix.SOCK_SEQPACKET}

// endpoints tries to reach what listens at each file below a directory whose name begins with a kind of endpoint: the errno by the file's
// path, "" where it was reached. Pipes are opened to write to, and to read from.
func endpoints(args []string) (any, error) {
	if len(args) != 1 {
		return nil, errors.New("usage: endpoints DIRECTORY")
	}
	got := map[string]outcome{}
	err := filepath.WalkDir(args[0], func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // what cannot be entered is not reached
		}
		name := d.Name()
		for kind, typ := range socketTypes {
			if len(name) >= len(kind) && name[:len(kind)] == kind {
				got[path] = outcome{Errno: errnoName(reach(path, typ))}
			}
		}
		if len(name) >= 4 && name[:4] == "pipe" {
			got[path] = outcome{Errno: errnoName(intoPipe(path, unix.O_WRONLY))}
			got[path+" read"] = outcome{Errno: errnoName(intoPipe(path, unix.O_RDONLY))}
		}
		return nil
	})
	return got, err
}

// reach connects to a socket, and sends a datagram.
func reach(path string, typ int) error {
	fd, err := unix.Socket(unix.AF_UNIX, typ|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	to := &unix.SockaddrUnix{Name: path}
	if len(path) > 100 {
		dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(dir)
		to.Name = "/proc/self/fd/" + strconv.Itoa(dir) + "/" + filepath.Base(path)
	}
	if typ == unix.SOCK_DGRAM {
		return unix.Sendto(fd, []byte("reached"), 0, to)
	}
	return unix.Connect(fd, to)
}

// errNoPipe is the answer for a file that is something else by now.
var errNoPipe = unix.ENOTSUP

func intoPipe(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return errNoPipe
	}
	if flags == unix.O_WRONLY {
		_, err = unix.Write(fd, []byte("reached"))
	}
	return err
}

// ownEndpoints makes sockets of each type in a directory, and connects to them.
func ownEndpoints(args []string) (any, error) {
	got := map[string]outcome{}
	for _, dir := range args {
		for kind, typ := range socketTypes {
			path := filepath.Join(dir, fmt.Sprintf("own-%s-%d", kind, unix.Getpid()))
			got[dir+" "+kind] = outcome{Errno: errnoName(serve(path, typ))}
		}
	}
	return got, nil
}

func serve(path string, typ int) error {
	fd, err := unix.Socket(unix.AF_UNIX, typ|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return err
	}
	defer unix.Unlink(path)
	if typ != unix.SOCK_DGRAM {
		if err := unix.Listen(fd, 1); err != nil {
			return err
		}
	}
	return reach(path, typ)
}

// changes makes a file once it watches a directory, and returns the name of the first file there that is written (inotify(7)).
func changes(args []string) (any, error) {
	if len(args) != 2 {
		return nil, errors.New("usage: changes DIRECTORY READY")
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	if _, err := unix.InotifyAddWatch(fd, args[0], unix.IN_MODIFY); err != nil {
		return nil, err
	}
	if err := os.WriteFile(args[1], nil, 0o600); err != nil {
		return nil, err
	}
	buf := make([]byte, 4096)
	n, err := unix.Read(fd, buf)
	if err != nil || n < unix.SizeofInotifyEvent {
		return nil, fmt.Errorf("reading events: %d bytes, %w", n, err)
	}
	return unix.ByteSliceToString(buf[unix.SizeofInotifyEvent:n]), nil
}
