package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/kernel/invoker"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/workspace/homes"
)

func homeCommand() *cli.Command {
	return &cli.Command{
		Name: "home", Usage: "list the homes of agents, and remove them",
		Description: "`agentjail sandbox --agent NAME` keeps a home for each project and owner.",
		Subcommands: []*cli.Command{
			{
				Name: "list", Aliases: []string{"ls"}, Usage: "list homes, those that were used last first",
				Description: "SIZE is what a home takes up on the disk. \"expired\" is one that no jail had for policy's\nworkspace.keep_for. It stays until it is removed.",
				Flags:       []cli.Flag{jsonFlag}, Action: homeList,
			},
			{
				Name: "remove", Aliases: []string{"rm"}, Usage: "remove homes, with all that agents keep in them", ArgsUsage: "[ID...]",
				Description: "A home that a jail has is not removed. ID may be its beginning, or the project's directory.",
				Flags:       []cli.Flag{&cli.BoolFlag{Name: "expired", Usage: "in place of ID: each home that the list has as expired"}},
				Action:      homeRemove,
			},
		},
	}
}

// ownHomes returns the homes of the caller, root's call: all.
func ownHomes(c *cli.Context) ([]homes.Kept, error) {
	if os.Geteuid() != 0 || rootless.Inside() {
		return nil, fmt.Errorf("home %s needs root, whose files homes are (remedy: %s)", c.Command.Name, rootless.WithSudo())
	}
	all, err := homes.List(homes.DefaultDir)
	if err != nil {
		return nil, err
	}
	var out []homes.Kept
	for _, k := range all {
		if invoker.Owns(k.UID, "home "+k.ID) == nil {
			out = append(out, k)
		}
	}
	return out, nil
}

// expiredHomes returns the homes beyond policy's bound.
func expiredHomes(c *cli.Context, all []homes.Kept) ([]homes.Kept, error) {
	p, err := policy.Load(c.String("config"), caller.PolicyName)
	if err != nil {
		return nil, err
	}
	return homes.Expired(all, time.Duration(p.Workspace.KeepFor)), nil
}

// homeRow is a home of the list.
type homeRow struct {
	ID      string        `json:"id"`
	Agent   string        `json:"agent"`
	Project pathname.Text `json:"project"`
	UID     uint32        `json:"uid"`
	Used    string        `json:"used"`
	Size    int64         `json:"size"`
	State   string        `json:"state"` // open, kept
	Expired bool          `json:"expired,omitempty"`
	used    time.Time
}

func homeList(c *cli.Context) error {
	all, err := ownHomes(c)
	if err != nil {
		return err
	}
	old, err := expiredHomes(c, all)
	if err != nil {
		return err
	}
	expired := map[string]bool{}
	for _, k := range old {
		expired[k.Path] = true
	}
	rows := []homeRow{}
	for _, k := range all {
		state := "kept"
		if k.Busy {
			state = "open"
		}
		rows = append(rows, homeRow{
			k.ID, k.Program, pathname.Text(k.Project), k.UID, k.Used.UTC().Format(time.RFC3339), k.Held, state, expired[k.Path], k.Used,
		})
	}
	if c.Bool("json") {
		return printJSON(c, struct {
			Homes []homeRow `json:"homes"`
		}{rows})
	}
	w := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tAGENT\tPROJECT\tUSED\tSIZE\tSTATE")
	for _, r := range rows {
		if r.Expired {
			r.State += ", expired"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, cmp.Or(r.Agent, "-"), printable.Line(cmp.Or(string(r.Project), "-"), 0),
			age(time.Since(r.used)), policy.Size(r.Size), r.State)
	}
	return w.Flush()
}

func homeRemove(c *cli.Context) error {
	all, err := ownHomes(c)
	if err != nil {
		return err
	}
	var chosen []homes.Kept
	switch {
	case c.Bool("expired") == (c.NArg() > 0):
		return usage("remove has either --expired or the ids of homes: see `agentjail home list`")
	case c.Bool("expired"):
		if chosen, err = expiredHomes(c, all); err != nil {
			return err
		}
	default:
		for _, ref := range c.Args().Slice() {
			k, err := homes.Find(ref, all)
			if err != nil {
				return err
			}
			chosen = append(chosen, k)
		}
	}
	var errs []error
	for _, k := range chosen {
		if err := k.Remove(); err != nil {
			errs = append(errs, err)
			continue
		}
		project := printable.Line(cmp.Or(k.Project, "a project that is not recorded"), 0)
		fmt.Fprintf(c.App.Writer, "removed the home %s of %s\n", k.ID, project)
	}
	return errors.Join(errs...)
}

// noteHomes writes how much of the disk the homes of agents take up, for ls and gc.
func noteHomes(out io.Writer) {
	all, err := homes.List(homes.DefaultDir)
	if err != nil || len(all) == 0 {
		return
	}
	fmt.Fprintf(out, "agentjail: %s\n", homes.Summarize(all))
}
