package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/workspace"
	"agentjail.dev/runtime/workspace/apply"
	"agentjail.dev/runtime/workspace/review"
)

func workspaceCommand() *cli.Command {
	return &cli.Command{
		Name: "workspace", Usage: "review what jails did to mounted directories, and take it over",
		Description: `A jail that starts with --review writes into a view of its directory. The directory
itself changes only by "apply". ID is an id, its unique beginning, or a name. These
commands need root: sudo agentjail workspace ...`,
		Subcommands: []*cli.Command{
			workspaceListCommand(), workspaceDiscardCommand(), workspaceDiffCommand(), workspaceApplyCommand(),
			workspaceExportCommand(),
		},
	}
}

func workspaceDiffCommand() *cli.Command {
	return &cli.Command{
		Name: "diff", Usage: "show what an apply would do", ArgsUsage: "ID [PATH...]",
		Description: `A is added, M modified, m another mode, D deleted, R a renamed directory, T another
type of file. Changes that the host may run or follow come first, with the reason.
Files with the same content and mode as in the directory are not listed.

Exit status: 1 if there are changes, 125 if they cannot be shown.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "stat", Usage: "count added and removed lines"},
			&cli.BoolFlag{Name: "p", Aliases: []string{"patch"}, Usage: "show the lines of text files up to 1 MiB"},
			jsonFlag,
		},
		Action: workspaceDiff,
	}
}

func workspaceApplyCommand() *cli.Command {
	return &cli.Command{
		Name: "apply", Usage: "take changes over into the directory, all or none", ArgsUsage: "ID [PATH...]",
		Description: `Writes as the directory's owner. Without PATHs it applies all changes but those on
protected paths and links that can lead out of the directory. Where the directory has
changed since the view began, nothing is applied. Devices, sockets, pipes, set-id bits
and extended attributes are never applied.

Exit status: 1 if something was left out, 125 if the apply failed.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Aliases: []string{"n"}, Usage: "only list what would be applied"},
			&cli.BoolFlag{Name: "protected", Usage: "also protected paths: hooks, settings of editors and agents"},
			&cli.BoolFlag{Name: "links", Usage: "also links that can lead out of the directory"},
			&cli.BoolFlag{Name: "each", Usage: "leave out files in conflict, and apply the others"},
			jsonFlag,
		},
		Action: workspaceApply,
	}
}

func workspaceExportCommand() *cli.Command {
	return &cli.Command{
		Name: "export", Usage: "write the changes to standard output, as a patch for git apply", ArgsUsage: "ID [PATH...]",
		Description: "Files that a patch cannot have (binary, longer than 1 MiB, special) are named on standard\nerror.\n\n   agentjail workspace export ID > changes.patch",
		Action:      workspaceExport,
	}
}

// opened is a view that a command works on.
type opened struct {
	*apply.View
	record *workspace.Record
	review *review.Review
	chosen []*review.Change
	lock   *os.File
}

func (o *opened) close() {
	if o.lock != nil {
		o.lock.Close()
	}
	o.Close()
}

// workspaceStore returns the store of views, after every apply that was cut off is finished.
func workspaceStore(c *cli.Context) (workspace.Store, error) {
	if os.Geteuid() != 0 {
		return workspace.Store{}, fmt.Errorf("workspace %s needs root, to read the layers of views (remedy: %s)",
			c.Command.Name, rootless.WithSudo())
	}
	s, err := state.Default()
	if err != nil {
		return workspace.Store{}, err
	}
	store := workspace.Of(s)
	lines, err := apply.RecoverAll(c.Context, store)
	if err != nil {
		lines = append(lines, err.Error())
	}
	for _, line := range lines {
		fmt.Fprintln(os.Stderr, "agentjail:", printable.Line(line, 0))
	}
	return store, nil
}

// openView opens and compares the view of a call's ID, and chooses the changes of its PATHs. alone
// locks the directory against another apply.
func openView(c *cli.Context, alone bool) (_ *opened, err error) {
	store, err := workspaceStore(c)
	if err != nil {
		return nil, err
	}
	r, err := caller.Runtime()
	if err != nil {
		return nil, err
	}
	o := new(opened)
	if o.record, err = store.Open(c.Args().First()); err != nil {
		return nil, err
	}
	if o.View, err = apply.Open(store, o.record); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			o.close()
		}
	}()
	if alone {
		if o.lock, err = apply.Lock(o.Directory); err != nil {
			return nil, err
		}
	}
	if o.review, err = o.Review(c.Context, o.record, r.Policy.Binds.Unprotect); err != nil {
		return nil, err
	}
	o.chosen, err = o.review.Select(o.paths(c.Args().Tail()))
	return o, err
}

// paths are paths below the view's directory; absolute ones of the host lead there, too.
func (o *opened) paths(args []string) (out []string) {
	for _, p := range args {
		if p != "" { // Select refuses that: a variable without a value is not all of the directory
			p = path.Clean(p)
		}
		if p == o.record.Path {
			p = "."
		} else if rest, ok := pathname.Rel(p, o.record.Path); ok {
			p = rest
		}
		out = append(out, p)
	}
	return out
}

// notes reports on standard error what the reader of changes has to know of the view.
func (o *opened) notes() {
	if o.record.State == workspace.Incomplete {
		fmt.Fprintln(os.Stderr, "agentjail: the machine ended while the jail ran: what it wrote last may be missing")
	}
	if o.Live {
		fmt.Fprintf(os.Stderr, "agentjail: jail %s has the view, and can go on changing it\n", printable.Line(o.record.Jail, 64))
	}
	if len(o.review.Git) > 0 {
		fmt.Fprintf(os.Stderr, "agentjail: changes in %s are never applied. Commits come out as patches (BASE is your last commit):\n"+
			"  agentjail git --view %s %s format-patch --stdout BASE.. > commits.patch\n", someOf(o.review.Git), o.ID, printable.Line(o.record.Path, 0))
	}
}

// someOf names the first paths of a list, and counts the others.
func someOf(paths []string) string {
	const most = 8
	var names []string
	for _, p := range paths[:min(len(paths), most)] {
		names = append(names, printable.Line(p, 0))
	}
	text := strings.Join(names, ", ")
	if more := len(paths) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func workspaceDiff(c *cli.Context) error {
	o, err := openView(c, false)
	if err != nil {
		return err
	}
	defer o.close()
	out := bufio.NewWriter(c.App.Writer)
	switch {
	case c.Bool("json"):
		err = o.printJSON(c)
	case c.Bool("p"):
		err = o.lines(c, out, false)
	case c.Bool("stat"):
		err = o.stat(out)
	default:
		err = review.Print(out, o.chosen, 0)
	}
	if err = errors.Join(err, out.Flush()); err != nil {
		return err
	}
	o.notes()
	if len(o.chosen) > 0 {
		if !c.Bool("json") {
			fmt.Fprintf(os.Stderr, "agentjail: %s\n", review.Count(o.chosen))
		}
		return no()
	}
	return nil
}

func (o *opened) printJSON(c *cli.Context) error {
	list := slices.DeleteFunc(slices.Clone(o.chosen), func(c *review.Change) bool { return c.Implied })
	var git []pathname.Text
	for _, at := range o.review.Git {
		git = append(git, pathname.Text(at))
	}
	return printJSON(c, struct {
		ID      string           `json:"id"`
		Path    pathname.Text    `json:"path"`
		State   workspace.State  `json:"state"`
		Git     []pathname.Text  `json:"git,omitempty"`
		Changes []*review.Change `json:"changes"`
	}{o.ID, pathname.Text(o.record.Path), o.record.State, git, append([]*review.Change{}, list...)})
}

// lines writes the changes as text, or as a patch.
func (o *opened) lines(c *cli.Context, out *bufio.Writer, patch bool) error {
	d := &review.Differ{Upper: o.Upper, Directory: o.Directory, Out: out, Patch: patch, Left: func(at, why string) {
		fmt.Fprintf(os.Stderr, "agentjail: left out: %s: %s\n", printable.Line(at, 0), printable.Line(why, 0))
	}}
	for _, change := range o.chosen {
		if err := d.Write(c.Context, change); err != nil {
			return err
		}
	}
	return nil
}

// stat writes a line of numbers for each change.
func (o *opened) stat(out *bufio.Writer) error {
	d := &review.Differ{Upper: o.Upper, Directory: o.Directory}
	for _, change := range o.chosen {
		if change.Implied {
			continue
		}
		numbers := "      -      -"
		if added, removed, ok := d.Lines(change); ok {
			numbers = fmt.Sprintf("%7s%7s", fmt.Sprintf("+%d", added), fmt.Sprintf("-%d", removed))
		}
		if _, err := fmt.Fprintf(out, "%s  %s\n", numbers, change); err != nil {
			return err
		}
	}
	return nil
}

func workspaceApply(c *cli.Context) error {
	o, err := openView(c, true)
	if err != nil {
		return err
	}
	defer o.close()
	options := apply.Options{Protected: c.Bool("protected"), Links: c.Bool("links"), Each: c.Bool("each")}
	var res *apply.Result
	if c.Bool("dry-run") {
		res = apply.Preview(o.review, o.chosen, o.Live, options)
	} else {
		res, err = o.Run(c.Context, o.review, o.chosen, options)
	}
	if res == nil {
		return err
	}
	if errors.Is(err, apply.ErrConflicts) {
		err = asAnswer(err)
	}
	if !c.Bool("dry-run") {
		noteView(o.record, journal.Event{Kind: journal.WorkspaceApply, Detail: journal.ViewApplied{
			View: o.record.ID, Directory: o.record.Path, Applied: len(res.Applied), Left: len(res.Left), Conflicts: len(res.Conflicts),
		}})
	}
	if c.Bool("json") {
		err = errors.Join(err, printJSON(c, res.ToJSON()))
	} else {
		err = errors.Join(err, printApplied(c, o.chosen, res))
	}
	o.notes()
	if err == nil && len(res.Left)+len(res.Conflicts)+len(res.Kept) > 0 {
		return no()
	}
	return err
}

// printApplied prints what was applied, and on standard error what was not.
func printApplied(c *cli.Context, chosen []*review.Change, res *apply.Result) error {
	out, modes := bufio.NewWriter(c.App.Writer), map[string]string{}
	for _, change := range chosen {
		modes[change.Path] = change.Modes()
	}
	for _, p := range res.Applied {
		line := printable.Line(p, 0)
		if modes[p] != "" {
			line += "  " + modes[p]
		}
		fmt.Fprintln(out, line)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	for _, part := range []struct {
		what string
		list []apply.Problem
	}{{"left out", res.Left}, {"conflict", res.Conflicts}, {"not taken back", res.Kept}} {
		for _, p := range part.list {
			fmt.Fprintf(os.Stderr, "agentjail: %s: %s\n", part.what, p)
		}
	}
	for _, w := range res.Warnings {
		fmt.Fprintln(os.Stderr, "agentjail:", w)
	}
	return nil
}

func workspaceExport(c *cli.Context) error {
	if out, ok := c.App.Writer.(*os.File); ok && isTerminal(out) {
		return errors.New("the patch is not written to a terminal (remedy: `agentjail workspace export ID > FILE`, or `agentjail workspace diff -p ID`)")
	}
	o, err := openView(c, false)
	if err != nil {
		return err
	}
	defer o.close()
	out := bufio.NewWriter(c.App.Writer)
	if err := errors.Join(o.lines(c, out, true), out.Flush()); err != nil {
		return err
	}
	o.notes()
	return nil
}
