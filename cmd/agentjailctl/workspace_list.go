package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/workspace"
)

func workspaceListCommand() *cli.Command {
	return &cli.Command{
		Name: "list", Aliases: []string{"ls"}, Usage: "list views, the oldest first",
		Description: `SIZE is what a view takes up on the disk. A view is "open" while a jail has it, "ended"
after that, and "incomplete" where the machine ended first: what was written last may be
missing. "expired" is one beyond the bounds of policy (workspace.keep_for,
workspace.keep_size), which stays until it is discarded. While a view is open, a file
that is made in the directory can be missing in the jail.`,
		Flags:  []cli.Flag{jsonFlag},
		Action: workspaceList,
	}
}

func workspaceDiscardCommand() *cli.Command {
	return &cli.Command{
		Name: "discard", Usage: "remove a view, or its changes of some paths", ArgsUsage: "[ID [PATH...]]",
		Description: "The directory stays as it is. A view that a jail has is not changed. Without PATHs all that\njails wrote is removed.",
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "expired", Usage: "in place of ID: each view that the list has as expired"}},
		Action:      workspaceDiscard,
	}
}

// viewRow is a view of the list.
type viewRow struct {
	ID        string          `json:"id"`
	Name      string          `json:"name,omitempty"`
	Directory pathname.Text   `json:"directory"`
	Jail      string          `json:"jail"`
	Made      string          `json:"made"`
	Size      int64           `json:"size"`
	State     workspace.State `json:"state"`
	Expired   bool            `json:"expired,omitempty"`
	made      time.Time
}

func workspaceList(c *cli.Context) error {
	store, err := workspaceStore(c)
	if err != nil {
		return err
	}
	all, err := store.List()
	if err != nil {
		return err
	}
	rows, expired := []viewRow{}, expiredViews(c, store, all)
	for _, r := range all {
		made := time.Unix(0, r.Since)
		rows = append(rows, viewRow{
			r.ID, r.Name, pathname.Text(r.Path), r.Jail, made.UTC().Format(time.RFC3339), store.Room(r), r.State,
			slices.Contains(expired, r), made,
		})
	}
	if c.Bool("json") {
		return printJSON(c, struct {
			Views []viewRow `json:"views"`
		}{rows})
	}
	w := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tNAME\tDIRECTORY\tJAIL\tAGE\tSIZE\tSTATE")
	for _, r := range rows {
		state := string(r.State)
		if r.Expired {
			state += ", expired"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.Name, printable.Line(string(r.Directory), 0), shortID(r.Jail),
			age(time.Since(r.made)),
			policy.Size(r.Size), state)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	noteExpired(os.Stderr, store, all, expired)
	return nil
}

// expiredViews returns the views beyond policy's bounds; none with a policy that cannot be read.
func expiredViews(c *cli.Context, store workspace.Store, all []*workspace.Record) []*workspace.Record {
	p, err := policy.Load(c.String("config"), caller.PolicyName)
	if err != nil {
		return nil // the caller, or check, has reported it
	}
	return store.Expired(all, time.Duration(p.Workspace.KeepFor), int64(p.Workspace.KeepSize))
}

// noteExpired writes a line about expired views, if there are any.
func noteExpired(out io.Writer, store workspace.Store, all, expired []*workspace.Record) {
	if len(expired) > 0 {
		fmt.Fprintf(out, "agentjail: %d of %d views are expired and take up %s (policy: workspace.keep_for, workspace.keep_size): sudo agentjail workspace discard --expired\n",
			len(expired), len(all), policy.Size(store.Held(expired)))
	}
}

// reportViews writes what noteExpired has, for gc.
func reportViews(c *cli.Context, store workspace.Store) error {
	all, err := store.List()
	if err == nil {
		noteExpired(c.App.Writer, store, all, expiredViews(c, store, all))
	}
	return err
}

func workspaceDiscard(c *cli.Context) error {
	switch {
	case c.Bool("expired") && c.NArg() > 0:
		return usage("discard has either --expired or the id of a view")
	case c.Bool("expired"):
		return discardExpired(c)
	case c.NArg() > 1:
		return discardPaths(c)
	case c.NArg() == 0:
		return usage("discard needs the id of a view: see `agentjail workspace list`")
	}
	store, err := workspaceStore(c)
	if err != nil {
		return err
	}
	r, err := store.Open(c.Args().First())
	if err != nil {
		return err
	}
	return discard(c, store, r)
}

// discardExpired removes each expired view.
func discardExpired(c *cli.Context) error {
	store, err := workspaceStore(c)
	if err != nil {
		return err
	}
	r, err := caller.Runtime() // with a policy that can be read
	if err != nil {
		return err
	}
	all, err := store.List()
	if err != nil {
		return err
	}
	bounds := r.Policy.Workspace
	var errs []error
	for _, r := range store.Expired(all, time.Duration(bounds.KeepFor), int64(bounds.KeepSize)) {
		errs = append(errs, discard(c, store, r))
	}
	return errors.Join(errs...)
}

func discard(c *cli.Context, store workspace.Store, r *workspace.Record) error {
	if err := store.Discard(r); err != nil {
		return err
	}
	noteView(r, journal.Event{Kind: journal.WorkspaceDiscard, Detail: journal.ViewDiscarded{View: r.ID, Directory: r.Path}})
	_, err := fmt.Fprintf(c.App.Writer, "discarded %s of %s\n", r.ID, printable.Line(r.Path, 0))
	return err
}

// discardPaths removes the changes of some paths from a view.
func discardPaths(c *cli.Context) error {
	o, err := openView(c, true)
	if err != nil {
		return err
	}
	defer o.Close()
	return o.Discard(o.review, o.chosen, o.paths(c.Args().Tail()))
}

// noteView records an event of a view in the journal of the jail that had it last, if that is still
// kept.
func noteView(r *workspace.Record, e journal.Event) {
	if r.Journal == "" {
		return
	}
	e.Path = r.At
	l := &journal.Log{Path: r.Journal, Jail: r.Jail, Key: r.Key}
	if err := l.Append(e); err != nil && !errors.Is(err, os.ErrNotExist) {
		fmt.Fprintln(os.Stderr, "agentjail:", printable.Line(err.Error(), 0))
	}
}
