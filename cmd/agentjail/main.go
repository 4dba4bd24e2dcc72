// Command agentjail is an OCI runtime with runc's command line. It rewrites
// every bundle into a jail and has the host's runc or crun execute it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/jail"
	"agentjail.dev/runtime/passthrough"
	"agentjail.dev/runtime/verbs"
)

func main() {
	// Before anything is changed in this process.
	if err := passthrough.Exec(os.Args, caller.Profile, isOwn); err != nil {
		fatal(err)
	}
	// A start makes little garbage and is soon over.
	debug.SetGCPercent(400)
	// Files of the state folder get the modes that are written in the code.
	unix.Umask(0o022)
	if err := jail.CloseInherited(); err != nil {
		fatal(fmt.Errorf("closing inherited files: %w", err))
	}
	if err := run(verbs.Reorder(os.Args)); err != nil {
		var ee *jail.ExitError
		if errors.As(err, &ee) {
			os.Exit(ee.Code)
		}
		fatal(err)
	}
}

// run goes straight to runc's verbs, which engines call: all commands and their
// help take longer to set up than most verbs take to do their work. Whatever is
// not understood at once, help among it, is the app's to answer.
func run(argv []string) error {
	global, v, call, err := verbs.Parse(argv[1:])
	if err != nil || v.Raw {
		return newApp().Run(argv)
	}
	if err := caller.Open(global); err != nil {
		return err
	}
	call.Ctx = context.Background()
	return runVerb(v, call)
}

func fatal(err error) {
	caller.Fail(err)
	os.Exit(jail.Status(err))
}
