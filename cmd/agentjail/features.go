package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/delegate"
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

func featuresCommand() *cli.Command {
	return &cli.Command{
		Name: "features", Usage: "print what jails can have, as JSON (OCI runtime-spec, features.md)",
		Action: func(c *cli.Context) error {
			w, err := newWay(c)
			if err != nil {
				return err
			}
			d, err := delegate.Resolve(w.Policy.Delegate)
			if err != nil {
				return err
			}
			// From the file kept beside the jails' state: engines ask at each of
			// their starts, and wait.
			caps, err := d.Capabilities(w.Store.Root)
			if err != nil {
				return err
			}
			f, err := jailFeatures(w.Policy.Seccomp.Profile, caps)
			if err != nil {
				return err
			}
			enc := json.NewEncoder(os.Stdout)
			enc.SetIndent("", "  ")
			return enc.Encode(f)
		},
	}
}
