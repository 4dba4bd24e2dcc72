package main

import (
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

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
missing. While a view is open, a file that is made in the directory can be missing in
the jail.`,
		Flags:  []cli.Flag{jsonFlag},
		Action: workspaceList,
	}
}

func workspaceDiscardCommand() *cli.Command {
	return &cli.Command{
		Name: "discard", Usage: "remove a view, or its changes of some paths", ArgsUsage: "ID [PATH...]",
		Description: "The directory stays as it is. A view that a jail has is not changed. Without PATHs all that\njails wrote is removed.",
		Action:      workspaceDiscard,
	}
}

// viewRow is a view of the list.
type viewRow struct {
	ID        string          `json:"id"`
	Name      string          `json:"name,omitempty"`
	Directory string          `json:"directory"`
	Jail      string          `json:"jail"`
	Made      string          `json:"made"`
	Size      int64           `json:"size"`
	State     workspace.State `json:"state"`
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
	rows := []viewRow{}
	for _, r := range all {
		made := time.Unix(0, r.Since)
		rows = append(rows, viewRow{r.ID, r.Name, r.Path, r.Jail, made.UTC().Format(time.RFC3339), store.Room(r), r.State, made})
	}
	if c.Bool("json") {
		return printJSON(c, struct {
			Views []viewRow `json:"views"`
		}{rows})
	}
	w := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tNAME\tDIRECTORY\tJAIL\tAGE\tSIZE\tSTATE")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.Name, printable.Line(r.Directory, 0), shortID(r.Jail), age(time.Since(r.made)),
			policy.Size(r.Size), r.State)
	}
	return w.Flush()
}

func workspaceDiscard(c *cli.Context) error {
	if c.NArg() > 1 {
		return discardPaths(c)
	}
	if c.NArg() == 0 {
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
	if err := store.Discard(r); err != nil {
		return err
	}
	noteView(r, journal.Event{Kind: journal.WorkspaceDiscard, Detail: journal.ViewDiscarded{View: r.ID, Directory: r.Path}})
	_, err = fmt.Fprintf(c.App.Writer, "discarded %s of %s\n", r.ID, printable.Line(r.Path, 0))
	return err
}

// discardPaths removes the changes of some paths from a view.
func discardPaths(c *cli.Context) error {
	o, err := openView(c, true)
	if err != nil {
		return err
	}
	defer o.close()
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
