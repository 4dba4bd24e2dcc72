// Command agentjail is an OCI runtime with runc's command line. It rewrites every bundle into a
// jail and has the host's runc or crun execute it.
//
// Engines start this program half a dozen times for each container, so that it contains nothing but
// that. agentjail's own commands, and help, are agentjailctl's, which agentjail executes for them
// from its own directory.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/fork"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/runccli"
	"agentjail.dev/runtime/runccli/passthrough"
	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/version"
)

// caller is this process's.
var caller = &runccli.Caller{PolicyName: runccli.PolicyName(os.Args[0])}

func main() {
	os.Exit(caller.Status(run(os.Args)))
}

func run(argv []string) error {
	thread.CalmMonitor()
	// This comes before any change to this process.
	if err := passthrough.Exec(argv, caller.PolicyName, isCtlCommand); err != nil {
		return err
	}
	global, v, call, err := runccli.Parse(argv[1:])
	switch {
	case global != nil && global.Bool("version"):
		version.Print(os.Stdout)
		return nil
	case needsCtl(err):
		return execCtl(argv)
	}
	// A start makes little garbage and is soon over.
	debug.SetGCPercent(400)
	// Files of the state directory get the modes that are written in the code.
	unix.Umask(0o022)
	if err := fork.CloseOnExec(); err != nil {
		return fmt.Errorf("closing inherited files: %w", err)
	}
	if global != nil { // so that a wrong verb, too, is reported where the caller looks
		if err := caller.Open(global); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if err := join(v.Name, call.Args); err != nil {
		return err
	}
	call.Ctx = context.Background()
	return caller.Run(v, call)
}

// join executes an ordinary user's call again where the user's jails are.
func join(verb string, args []string) error {
	switch {
	case os.Geteuid() == 0 || rootless.Inside():
		return nil
	case verb == "list":
		return rootless.MustEnter()
	case len(args) > 0 && slices.Contains([]string{
		"ps", "state", "exec", "kill", "delete", "pause", "resume", "update",
		"events",
	}, verb):
		mine, err := state.JoinAny(args[0])
		if _, roots := os.Lstat(filepath.Join(state.DefaultRoot, "jails")); err == nil && !mine && roots == nil {
			fmt.Fprintf(os.Stderr, "agentjail: no such jail is this user's, and root's are hidden from this user (remedy: %s)\n", rootless.WithSudo())
		}
		return err
	}
	return nil
}

// isCtlCommand reports whether a verb is agentjail's alone, and not one of runc's.
func isCtlCommand(verb string) bool { return slices.Contains(runccli.CtlCommands, verb) }

// needsCtl reports whether a command line that is no runtime's call requests
// something that agentjailctl answers: no verb, help, or a verb of its own.
func needsCtl(err error) bool {
	unknown, ok := errors.AsType[*runccli.UnknownError](err)
	return errors.Is(err, flag.ErrHelp) || errors.Is(err, runccli.ErrNoVerb) ||
		ok && (isCtlCommand(unknown.Verb) || slices.Contains([]string{"spec", "help", "h"}, unknown.Verb))
}

// execCtl executes agentjailctl in place of this program. It keeps the name that this program was
// called by, since that chooses the profile of the policy.
func execCtl(argv []string) error {
	self, err := os.Executable()
	if err == nil {
		path := filepath.Join(filepath.Dir(self), runccli.CtlProgram)
		if err = syscall.Exec(path, argv, os.Environ()); errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("%s is not beside %s (remedy: install all programs of one build)", runccli.CtlProgram, self)
		}
	}
	return fmt.Errorf("running %s: %w", runccli.CtlProgram, err)
}
