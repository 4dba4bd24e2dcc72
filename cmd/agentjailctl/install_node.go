package main

import (
	"os"
	"os/signal"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/install"
	"agentjail.dev/runtime/jailinit/host"
	"agentjail.dev/runtime/kernel/programs"
	"agentjail.dev/runtime/network/names"
	"agentjail.dev/runtime/runccli"
	"agentjail.dev/runtime/spec/credential"
)

// machine returns the node that the flags name, and the programs to install there: the image of the
// DaemonSet in hack/kubernetes holds only agentjail's programs.
func machine(c *cli.Context) (install.Machine, error) {
	dir, err := programs.Dir()
	if err != nil {
		return install.Machine{}, err
	}
	return install.Machine{
		From: dir, Names: []string{
			runccli.Program, runccli.CtlProgram, host.Name, names.Program, credential.IssueProgram,
			install.ShimName,
		},
		Links: []string{install.DefaultName + "-net"}, Installer: runccli.CtlProgram,
		Root: c.String("root"), To: c.String("to"), Restart: c.StringSlice("restart"),
		Stdout: c.App.Writer, Stderr: c.App.ErrWriter,
	}, nil
}

// onlyStay waits in the container with which a DaemonSet's pod continues after its first one has
// installed: that container has no access to the node.
func onlyStay(c *cli.Context) error {
	if !c.Bool("stay") {
		return usage("--root is missing: the directory where the node's file tree is mounted")
	}
	awaitEnd()
	return nil
}

// awaitEnd waits until the container is to end.
func awaitEnd() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGTERM, unix.SIGINT)
	<-ended
}
