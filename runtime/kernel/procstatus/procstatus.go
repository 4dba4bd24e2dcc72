// Package procstatus reads what the kernel reports of a process in /proc/PID/status
// (proc_pid_status(5)) and /proc/PID/stat (proc_pid_stat(5)).
package procstatus

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"agentjail.dev/runtime/kernel/atomicfile"
)

// maxStatus bounds the text, in bytes. Groups are most of it, of which a process has 65,536 at
// most.
const maxStatus = 1 << 20

// A Status is the text of one process.
type Status string

// Read reads that of a process. An error is also that there is no such process.
func Read(pid int) (Status, error) {
	text, err := atomicfile.Read(fmt.Sprintf("/proc/%d/status", pid), maxStatus)
	return Status(text), err
}

// Field is the value of a field, such as CapEff; "" where this kernel has none of that name. The
// kernel escapes line feeds in the process's own name, which stands first.
func (s Status) Field(name string) string {
	_, rest, _ := strings.Cut(string(s), "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(value)
}

// Ended reports that the process is only waited for (a zombie), or not even that.
func (s Status) Ended() bool {
	state := s.Field("State")
	return strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")
}

// maxStat bounds /proc/PID/stat, in bytes: 52 numbers and a name.
const maxStat = 4096

// Stat returns the fields of /proc/PID/stat behind the command's name: the state, field 3, is the
// first. There are at least those up to the start time, field 22.
func Stat(pid int) ([]string, error) {
	text, err := atomicfile.Read("/proc/"+strconv.Itoa(pid)+"/stat", maxStat)
	if err != nil {
		return nil, err
	}
	// The name may hold spaces and parentheses: cut after the last.
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(f) < 20 {
		return nil, fmt.Errorf("/proc/%d/stat: %d fields", pid, len(f))
	}
	return f, nil
}

// Pids returns the ids of all processes that this process sees.
func Pids() (out []int, err error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		if pid, perr := strconv.Atoi(name); perr == nil {
			out = append(out, pid)
		}
	}
	return out, err
}
