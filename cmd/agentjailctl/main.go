// Command agentjailctl has agentjail's own commands: whether this host can hold jails, what becomes
// of a bundle, whether a running jail is what it should be, and the set-up of engines. `agentjail
// VERB` executes it for such verbs.
package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/facts/project"
	"agentjail.dev/runtime/kernel/fork"
	"agentjail.dev/runtime/observe/enginerecord"
	"agentjail.dev/runtime/observe/enginerecord/containerd"
	"agentjail.dev/runtime/workspace/apply"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == apply.Verb {
		os.Exit(apply.Work())
	}
	if len(os.Args) > 1 && os.Args[1] == project.Verb {
		os.Exit(project.Work())
	}
	if len(os.Args) > 1 && os.Args[1] == enginerecord.LabelsVerb {
		if err := containerd.Print(os.Stdout, os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// Files of the state directory get the modes that are written in the code.
	unix.Umask(0o022)
	err := fork.CloseOnExec()
	if err == nil {
		err = run(newApp(), os.Args)
	}
	os.Exit(caller.Status(err))
}
