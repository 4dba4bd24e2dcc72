package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A reached process is one that pounce got into, and how.
type reached struct {
	PID  int    `json:"pid"`
	How  string `json:"how"`
	Comm string `json:"comm"`
}

// pounced is what came of an attack on every process that enters the container.
type pounced struct {
	// Control are the ways that work on a process of the attacker's own.
	Control []string `json:"control"`
	// Seen is how many other processes there were, Tries how often they were tried.
	Seen  int `json:"seen"`
	Tries int `json:"tries"`
	// Reached are the ways into them that worked.
	Reached []reached `json:"reached"`
	// Execs are processes that were executing their program when the attacker attached:
	// the kernel lets a waiting tracer in as soon as execve can no longer fail.
	Execs []int `json:"execs"`
}

// waysInto are what a tracer may do with a process, each nil where it worked. A
// process that is only entering a container still has files and rights of the host's
// (CVE-2016-9962, CVE-2019-5736).
var waysInto = []struct {
	name string
	try  func(pid int) error
}{
	{"PTRACE_SEIZE", func(pid int) error {
		return sys(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, unix.PTRACE_O_TRACEEXEC, 0, 0)
	}},
	{"process_vm_readv", func(pid int) error {
		// Nothing is mapped there: EFAULT states that the kernel would have read it.
		var buf [1]byte
		local, remote := [2]uintptr{uintptr(unsafe.Pointer(&buf[0])), 1}, [2]uintptr{8, 1}
		err := sys(unix.SYS_PROCESS_VM_READV, uintptr(pid), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0)
		if errors.Is(err, unix.EFAULT) {
			err = nil
		}
		return err
	}},
	{"mem", opensOf("mem", unix.O_RDWR)},
	{"environ", opensOf("environ", unix.O_RDONLY)},
	{"a descriptor", opensOf("fd/0", unix.O_PATH)},
	{"root", opensOf("root", unix.O_PATH)},
	{"exe", opensOf("exe", unix.O_PATH)},
}

func opensOf(file string, flags int) func(int) error {
	return func(pid int) error {
		fd, err := unix.Open(fmt.Sprintf("/proc/%d/%s", pid, file), flags|unix.O_CLOEXEC, 0)
		if err == nil {
			// Access to memory and environment is looked at when they are opened.
			unix.Close(fd)
		}
		return err
	}
}

// pounce attacks every process that appears, as fast as it can, until there is a file
// of the given name.
func pounce(args []string) (any, error) {
	runtime.LockOSThread() // a tracer is a thread
	var out pounced
	own := exec.Command("/proc/self/exe", "pause")
	if err := own.Start(); err != nil {
		return nil, err
	}
	defer func() { _ = own.Process.Kill() }()
	for _, w := range waysInto {
		if w.try(own.Process.Pid) == nil {
			out.Control = append(out.Control, w.name)
		}
	}
	self := os.Getpid()
	seen, done := map[int]bool{}, map[string]bool{}
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); {
		if _, err := os.Stat(args[0]); err == nil {
			break
		}
		names, err := readNames("/proc")
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			pid, err := strconv.Atoi(name)
			if err != nil || pid == self || pid == own.Process.Pid {
				continue
			}
			seen[pid] = true
			for _, w := range waysInto {
				key := name + w.name
				if done[key] {
					continue
				}
				out.Tries++
				if w.try(pid) == nil {
					done[key] = true
					comm, _ := os.ReadFile("/proc/" + name + "/comm")
					out.Reached = append(out.Reached, reached{pid, w.name, strings.TrimSpace(string(comm))})
				}
			}
		}
		out.Execs = append(out.Execs, executed()...)
	}
	out.Seen = len(seen)
	return out, nil
}

// executed lists the traced processes that have executed a program since, and lets
// all go on.
func executed() (out []int) {
	for {
		var st unix.WaitStatus
		pid, err := unix.Wait4(-1, &st, unix.WALL|unix.WNOHANG, nil)
		if err != nil || pid <= 0 {
			return out
		}
		if st.Stopped() {
			if st.TrapCause() == unix.PTRACE_EVENT_EXEC {
				out = append(out, pid)
			}
			_ = unix.PtraceCont(pid, 0)
		}
	}
}

// readNames is os.ReadDir without its costs.
func readNames(dir string) ([]string, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var names []string
	buf := make([]byte, 32<<10)
	for {
		n, err := unix.Getdents(fd, buf)
		if err != nil || n == 0 {
			return names, err
		}
		_, _, names = unix.ParseDirent(bytes.Clone(buf[:n]), -1, names)
	}
}
