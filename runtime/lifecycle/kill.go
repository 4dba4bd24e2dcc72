package lifecycle

import (
	"slices"
	"strings"

	"agentjail.dev/runtime/kernel/procstatus"
)

// killOne removes --all from a `kill` with SIGKILL: the first process of a process namespace takes
// all others with it (pid_namespaces(7)). An engine that requested the host's processes wants all
// to be killed, for which crun reads the jail's control group. A user's jail may have none, and
// crun then kills no process and reports no error.
func killOne(args []string) []string {
	last := strings.TrimPrefix(strings.ToUpper(args[len(args)-1]), "SIG")
	if last != "KILL" && last != "9" {
		return args
	}
	return slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "--all" })
}

// ownsProcesses reports whether a process is the first of its process namespace. In a pod that
// shares processes, only the first process of the first container is.
func ownsProcesses(pid int) bool {
	s, err := procstatus.Read(pid)
	f := strings.Fields(s.Field("NSpid"))
	return err == nil && len(f) > 1 && f[len(f)-1] == "1"
}
