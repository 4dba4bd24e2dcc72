package engine

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/env"
)

// Endpoints are sockets and pipes of the host's in a directory, at which this process listens. The probe's `endpoints` tries them.
type Endpoints struct {
	Dir string

	mu      sync.Mutex
	reached []string
	count   int
}

// endpointDirs are where below a directory there are some: also where protected paths are not searched for.
var endpointDirs = []string{".", "deep/er", "node_modules/p", ".git", ".vscode"}

// ListenIn makes endpoints of each kind in a directory and in some below it, all of the directory's owner and open to everybody. Some sockets
// are bound by a relative name, as by a process that has changed to the directory.
func ListenIn(t testing.TB, dir string) *Endpoints {
	t.Helper()
	e := &Endpoints{Dir: dir}
	var st unix.Stat_t
	env.Check(t, unix.Stat(dir, &st))
	for _, sub := range endpointDirs {
		for at := filepath.Join(dir, sub); at != dir; at = filepath.Dir(at) {
			env.Check(t, errors.Join(os.MkdirAll(at, 0o755), os.Chown(at, int(st.Uid), int(st.Gid))))
		}
		for kind, typ := range map[string]int{"stream": unix.SOCK_STREAM, "datagram": unix.SOCK_DGRAM, "seqpacket": unix.SOCK_SEQPACKET} {
			e.Listen(t, filepath.Join(dir, sub, kind), typ)
		}
		if sub == "node_modules/p" {
			continue // docs/security/limitations.md
		}
		pipe := filepath.Join(dir, sub, "pipe")
		env.Check(t, errors.Join(unix.Mkfifo(pipe, 0o666), os.Chmod(pipe, 0o666), os.Chown(pipe, int(st.Uid), int(st.Gid))))
		fd := env.Get(t, func() (int, error) { return unix.Open(pipe, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0) })
		e.watch(t, fd, pipe, func() bool {
			n, err := unix.Read(fd, make([]byte, 64))
			return err == nil && n > 0
		})
		e.count += 2
	}
	return e
}

// Listen makes one socket, with the owner of its directory.
func (e *Endpoints) Listen(t testing.TB, path string, typ int) {
	t.Helper()
	fd := env.Get(t, func() (int, error) { return unix.Socket(unix.AF_UNIX, typ|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0) })
	// A name by a descriptor's link is no name in the host's tree for another process, as a relative one is not.
	dir := env.Get(t, func() (*os.File, error) { return os.Open(filepath.Dir(path)) })
	defer dir.Close()
	var st unix.Stat_t
	env.Check(t, unix.Fstat(int(dir.Fd()), &st))
	name := path
	if typ != unix.SOCK_STREAM {
		name = "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + filepath.Base(path)
	}
	env.Check(t, errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: name}), os.Chmod(path, 0o777), os.Chown(path, int(st.Uid), int(st.Gid))))
	if typ != unix.SOCK_DGRAM {
		env.Check(t, unix.Listen(fd, 8))
	}
	e.watch(t, fd, path, func() bool {
		if typ == unix.SOCK_DGRAM {
			n, _, err := unix.Recvfrom(fd, make([]byte, 64), 0)
			return err == nil && n > 0
		}
		c, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC)
		if err == nil {
			unix.Close(c)
		}
		return err == nil
	})
	e.count++
}

// watch notes when something comes, until the test ends.
func (e *Endpoints) watch(t testing.TB, fd int, name string, came func() bool) {
	end := env.Get(t, func() (int, error) { return unix.Eventfd(0, unix.EFD_CLOEXEC) })
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(end), Events: unix.POLLIN}}
			if _, err := unix.Poll(polled, -1); err != nil && err != unix.EINTR {
				return
			}
			if polled[1].Revents != 0 {
				return
			}
			if came() {
				e.mu.Lock()
				e.reached = append(e.reached, strings.TrimPrefix(name, e.Dir+"/"))
				e.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() {
		_, _ = unix.Write(end, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		<-done
		unix.Close(fd)
		unix.Close(end)
	})
}

// Reached are the endpoints that something came to.
func (e *Endpoints) Reached() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.reached...)
}

// Kept compares what the probe printed of its tries in a jail: none has reached anything, but for the names that are excused.
func (e *Endpoints) Kept(t testing.TB, what, printed string, excused func(path string) bool) {
	t.Helper()
	got := env.Decode[map[string]Outcome](t, printed)
	if len(got) < e.count {
		t.Errorf("%s: %d tries, of %d: %s", what, len(got), e.count, printed)
	}
	for path, o := range got {
		if o.Errno == "" && (excused == nil || !excused(path)) {
			t.Errorf("%s: %s was reached", what, path)
		}
	}
	for _, path := range e.Reached() {
		if excused == nil || !excused(path) {
			t.Errorf("%s: something came to %s", what, path)
		}
	}
}

// PutProbe writes the probe into a directory, where `agentjail sandbox` shows it, and returns its path.
func PutProbe(t testing.TB, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "probe")
	env.Check(t, os.WriteFile(path, env.Get(t, probeBinary), 0o755))
	return path
}
