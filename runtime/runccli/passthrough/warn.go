package passthrough

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/printable"
)

// warn writes a warning where the caller looks: to the engine's log, or to a terminal. Without
// either, standard error is a pipe of the caller, and must hold the delegate's output and nothing
// else (the delegate's own tests compare it): then the warning goes to the host's log, and to
// standard error only if there is none.
func warn(msg string, c call) {
	msg = printable.Line(msg, 1024)
	line := "agentjail: warning: " + strings.TrimPrefix(msg, "agentjail: ") + "\n"
	switch {
	case toLog(msg, c):
	case isTerminal(os.Stderr):
		_, _ = io.WriteString(os.Stderr, line)
	case toHost(msg):
	default:
		_, _ = io.WriteString(os.Stderr, line)
	}
}

// toLog adds an entry to the engine's log, in the form of the delegate's own.
func toLog(msg string, c call) bool {
	path := strings.TrimPrefix(c.Log, "file:") // crun's form
	if path == "" || strings.HasPrefix(path, "journald:") || strings.HasPrefix(path, "syslog:") {
		return false
	}
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return false // the delegate will report it
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	now := time.Now().Format(time.RFC3339)
	entry := fmt.Sprintf("time=%q level=warning msg=%q\n", now, msg)
	if c.LogFormat == "json" {
		text, err := json.Marshal(map[string]string{"level": "warning", "msg": msg, "time": now})
		if err != nil {
			return false
		}
		entry = string(text) + "\n"
	}
	_, err = io.WriteString(f, entry)
	return err == nil
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// The priorities of syslog(3): a warning of the kernel's log, and of a daemon's.
const (
	kernWarning   = "<4>"
	daemonWarning = "<28>"
)

// toHost writes to the system log, or to the kernel's if there is none.
func toHost(msg string) bool {
	if c, err := net.Dial("unixgram", "/dev/log"); err == nil {
		defer c.Close()
		if _, err := io.WriteString(c, daemonWarning+msg); err == nil {
			return true
		}
	}
	f, err := os.OpenFile("/dev/kmsg", os.O_WRONLY|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	_, err = io.WriteString(f, kernWarning+msg)
	return err == nil
}
