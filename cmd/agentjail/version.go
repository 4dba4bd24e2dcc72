package main

import (
	"fmt"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/urfave/cli/v2"
)

// printVersion answers in runc's form: dockerd looks for a line with "version",
// and for one that begins with "commit: " (moby daemon/info_unix.go).
func printVersion(c *cli.Context) {
	fmt.Fprintf(c.App.Writer, "agentjail version %s\n", version)
	if commit != "" {
		fmt.Fprintf(c.App.Writer, "commit: %s\n", commit)
	}
	fmt.Fprintf(c.App.Writer, "spec: %s\n", specs.Version)
}
