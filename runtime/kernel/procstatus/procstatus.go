// Package procstatus reads what the kernel reports of a process in /proc/PID/status
// (proc_pid_status(5)).
package procstatus

import (
	"fmt"
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
