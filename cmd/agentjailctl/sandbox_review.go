package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/lifecycle"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/sandbox"
)

// reviewed requests views of a sandbox's workspaces.
func reviewed(c *cli.Context, o *sandbox.Options) error {
	if c.String("view") != "" && !c.Bool("review") {
		return errors.New("--view names a view, which --review makes (remedy: --review --view NAME)")
	}
	if !c.Bool("review") {
		return nil
	}
	if o.Workspace == "" || o.ReadOnly {
		return errors.New("--review is about what the command writes to a workspace (remedy: --workspace DIR, without --read-only)")
	}
	o.Tighten[policy.AnnotationPrefix+policy.WorkspaceAnnotation] = strings.Join(append([]string{o.Workspace}, o.Further...), ",")
	return nil
}

// announceViews prints the views that an ended sandbox leaves.
func announceViews(r *lifecycle.Runtime, o sandbox.Options) {
	views, err := r.Views(o.ID)
	if err != nil {
		fmt.Fprintf(os.Stderr, "agentjail: %s\n", printable.Line(err.Error(), 0))
	}
	for _, v := range views {
		fmt.Fprintf(os.Stderr, "agentjail: %s stays as it was; what was written is in view %s: agentjail workspace diff %s\n",
			printable.Line(v.Path, 0), v.ID, v.ID)
	}
}
