package project

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	cf "agentjail.dev/runtime/kernel/callfilter"
	"agentjail.dev/runtime/kernel/privileges"
	"agentjail.dev/runtime/spec/policy"
)

// Verb is the argument that has a program call Work.
const Verb = "policy-project-parser"

// Work is the process that parses: from standard input to standard output, with the file's path as
// its argument. It drops its rights first: it can open nothing, connect nowhere and start nothing.
func Work() int {
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func work() error {
	if err := privileges.Keep(); err != nil {
		return err
	}
	none := unix.Rlimit{}
	for _, resource := range []int{unix.RLIMIT_FSIZE, unix.RLIMIT_CORE} {
		if err := unix.Setrlimit(resource, &none); err != nil {
			return fmt.Errorf("resource limit %d: %w", resource, err)
		}
	}
	if err := cf.Load(filter(os.Getpid())); err != nil {
		return err
	}
	path := ""
	if len(os.Args) > 2 {
		path = os.Args[2]
	}
	text, err := atomicfile.ReadAll(os.Stdin, policy.MaxProject)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(policy.ReadProject(text, path))
}

// filter is the system call filter: what the Go runtime needs, and writing to what is open.
func filter(pid int) []unix.SockFilter {
	f := cf.Begin()
	f.OwnSignals(pid)
	return f.Only(slices.Concat([]uint32{unix.SYS_WRITE, unix.SYS_CLOSE, unix.SYS_FCNTL, unix.SYS_MMAP}, cf.Runtime)...)
}
