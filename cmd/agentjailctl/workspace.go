package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/kernel/invoker"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/lifecycle"
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
Files with the same content and mode as in the directory are not listed. The last line
is a token of what is shown: "apply --if TOKEN", with the same PATHs, applies nothing
else.

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
and extended attributes are never applied. While a jail has the view, what it writes after
the diff would be applied, too: that takes --if or --live.

Exit status: 1 if something was left out, 3 if the changes are not those of --if, 125 if
the apply failed.`,
		Flags: append(selectionFlags(),
			&cli.BoolFlag{Name: "dry-run", Aliases: []string{"n"}, Usage: "only list what would be applied"},
			&cli.BoolFlag{Name: "live", Usage: "as the view is now, while a jail has it"},
			jsonFlag,
		),
		Action: workspaceApply,
	}
}

func workspaceExportCommand() *cli.Command {
	return &cli.Command{
		Name: "export", Usage: "write the changes to standard output, as a patch for git apply", ArgsUsage: "ID [PATH...]",
		Description: `Writes what "apply" applies. What that leaves out, and files that a patch cannot have
(binary, longer than 1 MiB), are named on standard error.

   agentjail workspace export ID > changes.patch

Exit status: 1 if something was left out, 3 if the changes are not those of --if, 125 if
nothing is exported.`,
		Flags:  selectionFlags(),
		Action: workspaceExport,
	}
}

// selectionFlags choose what comes out of a view.
func selectionFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "protected", Usage: "also protected paths: hooks, settings of editors and agents"},
		&cli.BoolFlag{Name: "links", Usage: "also links that can lead out of the directory"},
		&cli.BoolFlag{Name: "each", Usage: "leave out files in conflict, and go on with the others"},
		&cli.StringFlag{Name: "if", Usage: "only if the changes are those of the diff that printed `TOKEN`"},
	}
}

func selection(c *cli.Context) apply.Options {
	return apply.Options{Protected: c.Bool("protected"), Links: c.Bool("links"), Each: c.Bool("each")}
}

// otherChanges is the exit status for changes that are not those of --if.
const otherChanges = 3

// checkToken refuses changes that are not those of --if.
func (o *opened) checkToken(c *cli.Context) error {
	if !c.IsSet("if") {
		return nil
	}
	same, err := review.IsToken(c.Context, o.Upper, o.chosen, c.String("if"))
	if err == nil && !same {
		err = &lifecycle.StatusError{Code: otherChanges, Err: fmt.Errorf("these are not the changes of --if: the view has changed since that diff, or its PATHs were others (remedy: agentjail workspace diff %s, with the same PATHs, and the token of its last line)", o.ID)}
	}
	return err
}

// opened is a view that a command works on.
type opened struct {
	*apply.View
	record *workspace.Record
	review *review.Review
	chosen []*review.Change
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
	store.Invoker, err = invoker.UID()
	return store, err
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
			o.Close()
		}
	}()
	if alone {
		if err = o.Lock(); err != nil {
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
	defer o.Close()
	token, err := review.Token(c.Context, o.Upper, o.chosen, o.Live)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(c.App.Writer)
	d := o.differ(out)
	switch {
	case c.Bool("json"):
		err = o.printJSON(c, token)
	case c.Bool("p"):
		err = d.writeAll(c, o.chosen)
	case c.Bool("stat"):
		err = o.stat(out, d)
	default:
		err = review.Print(out, o.chosen, 0)
	}
	switch {
	case d.Stale:
		fmt.Fprintln(os.Stderr, "agentjail: the jail changed files while they were shown: there is no token (remedy: diff again)")
	case len(o.chosen) > 0 && !c.Bool("json"):
		fmt.Fprintln(out, "token", token)
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

func (o *opened) printJSON(c *cli.Context, token string) error {
	list := slices.DeleteFunc(slices.Clone(o.chosen), func(c *review.Change) bool { return c.Implied })
	var git []pathname.Text
	for _, at := range o.review.Git {
		git = append(git, pathname.Text(at))
	}
	return printJSON(c, struct {
		ID      string           `json:"id"`
		Path    pathname.Text    `json:"path"`
		State   workspace.State  `json:"state"`
		Token   string           `json:"token"`
		Git     []pathname.Text  `json:"git,omitempty"`
		Changes []*review.Change `json:"changes"`
	}{o.ID, pathname.Text(o.record.Path), o.record.State, token, git, append([]*review.Change{}, list...)})
}

// A differ counts what text cannot have.
type differ struct {
	review.Differ
	left int
}

func (o *opened) differ(out io.Writer) *differ {
	d := &differ{Differ: review.Differ{Upper: o.Upper, Directory: o.Directory, Out: out}}
	d.Left = func(at, why string) {
		d.left++
		fmt.Fprintf(os.Stderr, "agentjail: left out: %s: %s\n", printable.Line(at, 0), printable.Line(why, 0))
	}
	return d
}

func (d *differ) writeAll(c *cli.Context, list []*review.Change) error {
	for _, change := range list {
		if err := d.Write(c.Context, change); err != nil {
			return err
		}
	}
	return nil
}

// stat writes a line of numbers for each change.
func (o *opened) stat(out *bufio.Writer, d *differ) error {
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
	defer o.Close()
	if o.Live && !c.IsSet("if") && !c.Bool("live") && !c.Bool("dry-run") {
		return fmt.Errorf("jail %s has the view, and can write after you have looked (remedy: agentjail workspace apply %s --if TOKEN, with the token of a diff, or --live)",
			printable.Line(o.record.Jail, 64), o.ID)
	}
	if err := o.checkToken(c); err != nil {
		return err
	}
	var res *apply.Result
	if c.Bool("dry-run") {
		_, res = apply.Select(o.review, o.chosen, o.Live, selection(c))
	} else {
		res, err = o.Run(c.Context, o.review, o.chosen, selection(c))
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
			Sums: sumsOf(o.record.Path, res.Applied),
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
	reportLeft(res)
	return nil
}

// reportLeft prints on standard error what was not applied.
func reportLeft(res *apply.Result) {
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
}

func workspaceExport(c *cli.Context) error {
	if out, ok := c.App.Writer.(*os.File); ok && isTerminal(out) {
		return errors.New("the patch is not written to a terminal (remedy: `agentjail workspace export ID > FILE`, or `agentjail workspace diff -p ID`)")
	}
	o, err := openView(c, false)
	if err != nil {
		return err
	}
	defer o.Close()
	if err := o.checkToken(c); err != nil {
		return err
	}
	taken, res := apply.Select(o.review, o.chosen, o.Live, selection(c))
	reportLeft(res)
	if len(res.Conflicts) > 0 && !c.Bool("each") {
		return asAnswer(apply.ErrConflicts)
	}
	out := bufio.NewWriter(c.App.Writer)
	d := o.differ(out)
	d.Patch = true
	if err := errors.Join(d.writeAll(c, taken), out.Flush()); err != nil {
		return err
	}
	o.notes()
	return answered(nil, len(res.Left)+len(res.Conflicts)+d.left == 0)
}
