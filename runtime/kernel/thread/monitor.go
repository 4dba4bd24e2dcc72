package thread

import (
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// The delay, in nanoseconds, by which the kernel may end a sleep of the Go runtime's monitor late.
// As late can be what the monitor is for: another goroutine gets the processor of one that has been
// in a system call for long. With one processor the other waits for that, and with more it hardly
// ever does.
const (
	monitorSlack    = "10000000"
	monitorSlackOne = "1000000"
)

// slack is the one for this many processors of Go's.
func slack(processors int) string {
	if processors == 1 {
		return monitorSlackOne
	}
	return monitorSlack
}

// CalmMonitor lets the Go runtime's monitor (sysmon, runtime/proc.go) sleep some
// milliseconds longer than it requests. It requests 20 µs, a hundred times and more
// during the life of a short program, and each waking costs as much processor time:
// a tenth of such a program's.
//
// The monitor is the first thread that the runtime starts, before any package's init, and threads
// are listed in the order in which they began. Another thread than the calling one can only be set
// with CAP_SYS_NICE (proc_pid_timerslack_ns(5), Linux 4.6); without it, everything stays as it is.
// The sleeps of the program's other threads do in any case, and so do those of programs that it
// starts.
func CalmMonitor() {
	tid := secondThread()
	if tid == "" {
		return
	}
	fd, err := unix.Open("/proc/"+tid+"/timerslack_ns", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	_, _ = unix.Write(fd, []byte(slack(runtime.GOMAXPROCS(0))))
	_ = unix.Close(fd)
}

// secondThread is the id of the thread that began after the process's first; "" if
// it cannot be found.
func secondThread() string {
	fd, err := unix.Open("/proc/self/task", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	var buf [512]byte // a dozen threads
	n, err := unix.ReadDirent(fd, buf[:])
	if err != nil {
		return ""
	}
	_, _, tids := unix.ParseDirent(buf[:n], 2, nil)
	for _, tid := range tids {
		if tid != strconv.Itoa(os.Getpid()) {
			return tid
		}
	}
	return ""
}
