package main

import (
	"encoding/json"
	"fmt"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/facts"
	"agentjail.dev/runtime/inspect"
	"agentjail.dev/runtime/kernel/invoker"
	"agentjail.dev/runtime/lifecycle"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/traits"
)

func explainCommand() *cli.Command {
	return &cli.Command{
		Name: "explain", Usage: "print what would change in a bundle, and why", ArgsUsage: "BUNDLE",
		Description: "Hardens the bundle as create would and prints every change by ring: denied (a privilege\nthat the bundle requests), lowered, set, dropped, and missing (not supported by\nthis host). Changes nothing. Exit status 1 when the bundle would be refused.",
		Flags:       []cli.Flag{jsonFlag},
		Action: func(c *cli.Context) error {
			r, err := caller.Runtime()
			if err != nil {
				return err
			}
			g := facts.Gatherer{Store: r.Store, Root: r.Globals.Root, Policy: r.Policy}
			if g.Invoker, err = invoker.UID(); err != nil {
				return err
			}
			x, refused := g.Explain(c.Args().First())
			if c.Bool("json") {
				return explainJSON(c, x, refused)
			}
			if x.Report != nil {
				if err := x.Report.Text(c.App.Writer); err != nil {
					return err
				}
			}
			if refused == nil {
				for _, l := range heldBy(x.HeldBy) {
					fmt.Fprintln(c.App.Writer, l)
				}
				fmt.Fprintf(c.App.Writer, "%d changes, %d of them privileges denied; the host ids stand for those that the jail will get\n",
					len(x.Report.Changes), len(x.Report.Of(report.Denied)))
			}
			return refusedBundle(refused)
		},
	}
}

// heldBy lists where protections are held: each of them for a sandbox, which policy names.
func heldBy(all map[string]traits.Boundary) (out []string) {
	for name, b := range all {
		if traits.Of(name).Sandbox == "" {
			continue
		}
		out = append(out, "held behind a "+traits.Of(name).BoundaryName()+":")
		for _, protection := range inspect.Protections(true) {
			line := fmt.Sprintf("  %-12s  %s", b.Of(protection), protection)
			if why := b.Instead[protection]; why != "" {
				line += ": " + why
			}
			out = append(out, line)
		}
	}
	if len(out) > 0 {
		return out
	}
	return traits.HeldBy(all)
}

// explanation is the JSON form.
type explanation struct {
	Refused string `json:"refused,omitempty"` // why no jail would start
	// Refusals are the parts of Refused, with codes and remedies (docs/why.md).
	Refusals []*refusal.Error `json:"refusals,omitempty"`
	Report   *report.Report   `json:"report,omitempty"`
	Spec     json.RawMessage  `json:"spec,omitempty"` // the hardened config.json
	Plan     *plan.Plan       `json:"plan,omitempty"` // what staging would do
	// HeldBy lists, for each delegate that policy may choose, where the protections are held.
	HeldBy map[string]traits.Boundary `json:"heldBy,omitempty"`
}

func explainJSON(c *cli.Context, x *facts.Explained, refused error) error {
	out := explanation{Report: x.Report}
	if refused != nil {
		out.Refused, out.Refusals = refused.Error(), refusal.All(refused)
	} else {
		spec, err := json.Marshal(x.Result.Spec)
		if err != nil {
			return fmt.Errorf("encoding the hardened spec: %w", err)
		}
		out.Spec, out.Plan, out.HeldBy = spec, &x.Result.Plan, x.HeldBy
	}
	if err := printJSON(c, out); err != nil {
		return err
	}
	if refused != nil {
		return &lifecycle.ExitError{Code: lifecycle.Status(refusedBundle(refused))}
	}
	return nil
}

// refusedBundle has a refusal be the answer; another failure leaves the bundle unexplained.
func refusedBundle(err error) error {
	if len(refusal.All(err)) > 0 {
		return asAnswer(err)
	}
	return lifecycle.OwnFailure(err)
}
