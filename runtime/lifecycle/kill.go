package lifecycle

import (
	"slices"
	"strings"

	"agentjail.dev/runtime/kernel/procstatus"
)

// withoutAll removes --all from a `kill` with SIGKILL: the first process of a process namespace
// takes all others with it (pid_namespaces(7)). An engine that requested the host's processes wants
// all to be killed, for which crun reads the jail's control group. A user's jail may have none, and
// crun then kills no process and reports no error.
func withoutAll(args []string) []string {
	if !isKILL(args) {
		return args
	}
	return slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "--all" })
}

// isKILL reports whether a `kill` is with SIGKILL.
func isKILL(args []string) bool { return slices.Contains([]string{"9", "KILL"}, signalOf(args)) }

// signalOf returns the signal in the arguments of a `kill`, the last one, without "SIG"; "" for
// none.
func signalOf(args []string) string {
	if len(args) < 3 {
		return ""
	}
	return strings.TrimPrefix(strings.ToUpper(args[len(args)-1]), "SIG")
}

// ownsProcesses reports whether a process is the first of its process namespace. In a pod that
// shares processes, only the first process of the first container is.
func ownsProcesses(pid int) bool {
	s, err := procstatus.Read(pid)
	f := strings.Fields(s.Field("NSpid"))
	return err == nil && len(f) > 1 && f[len(f)-1] == "1"
}
