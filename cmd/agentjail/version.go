package main

import (
	"cmp"
	"fmt"
	"runtime/debug"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/urfave/cli/v2"
)

// printVersion answers in runc's form: dockerd looks for a line with "version",
// and for one that begins with "commit: " (moby daemon/info_unix.go).
func printVersion(c *cli.Context) {
	fmt.Fprintf(c.App.Writer, "agentjail version %s\n", version)
	fmt.Fprintf(c.App.Writer, "commit: %s\n", cmp.Or(commit, builtFrom(), "unknown"))
	fmt.Fprintf(c.App.Writer, "spec: %s\n", specs.Version)
}

// builtFrom is the commit that the Go tool wrote into the program, "" where it was not built in a checkout.
func builtFrom() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}
