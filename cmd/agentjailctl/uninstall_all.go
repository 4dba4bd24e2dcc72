package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/install"
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/kernel/programs"
	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/workspace"
	"agentjail.dev/runtime/workspace/homes"
)

// uninstallAllCommand returns the command that the removal of a package calls.
func uninstallAllCommand() *cli.Command {
	return &cli.Command{
		Name: "all", Usage: "take these programs out of every engine's configuration",
		Description: `Takes every name out of the configuration of Docker, Podman, containerd and CRI-O
that leads to the programs beside this one, as "uninstall docker" and so on do.
Names that lead elsewhere, to another copy of agentjail for example, stay.
Refuses while there are jails, rootless ones too: nothing could stop them any
more when the programs are gone. Packages call it before they are removed.
Homes of agents and views of workspaces are listed, and kept.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Usage: "print what would change, as a diff, and change nothing"},
			&cli.BoolFlag{Name: "force", Usage: "also while there are jails"},
		},
		Action: uninstallAll,
	}
}

func uninstallAll(c *cli.Context) error {
	dir, err := programs.Dir()
	if err != nil {
		return err
	}
	if jails := livingJails(state.DefaultRoot, "/run/user"); len(jails) > 0 && !c.Bool("force") && !c.Bool("dry-run") {
		return fmt.Errorf("refused: %d jails run, which nothing could stop without these programs: %s (remedy: stop them first, by the engine that started them; or --force)",
			len(jails), strings.Join(jails[:min(len(jails), 5)], ", "))
	}
	var plans []*install.Plan
	var errs []error
	for _, e := range engines {
		p, err := removal(e.engine, dir)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", e.engine.Title(), err))
		} else if p != nil {
			plans = append(plans, p)
		}
	}
	if len(errs) > 0 { // before anything is changed
		return errors.Join(errs...)
	}
	for _, p := range plans {
		if c.Bool("dry-run") {
			err = printPlan(c.App.Writer, p)
		} else {
			err = applyPlan(c, p)
		}
		errs = append(errs, err)
	}
	for _, line := range keptWork(homes.DefaultDir, workspace.Of(state.Store{Root: state.DefaultRoot})) {
		fmt.Fprintln(c.App.Writer, printable.Line(line, 0))
	}
	return errors.Join(errs...)
}

// keptWork lists the users' work that outlives the programs: homes of agents, and views.
func keptWork(homesDir string, views workspace.Store) (out []string) {
	all, err := homes.List(homesDir)
	if err != nil {
		out = append(out, fmt.Sprintf("kept: homes in %s: %v", homesDir, err))
	}
	for _, k := range all {
		out = append(out, fmt.Sprintf("kept: the home of %s for %s (remedy: agentjail home remove %s, or rm %s*)",
			cmp.Or(k.Program, "an agent"), cmp.Or(k.Project, "a project that is not recorded"), k.ID, k.Path))
	}
	records, err := views.List()
	if err != nil {
		out = append(out, fmt.Sprintf("kept: views in %s: %v", views.Dir, err))
	}
	for _, r := range records {
		out = append(out, fmt.Sprintf("kept: view %s of %s (remedy: agentjail workspace apply %s, or discard %s)",
			r.ID, cmp.Or(r.Path, "a directory that is not recorded"), r.ID, r.ID))
	}
	return out
}

// removal plans to remove the entries that point to the directory from an engine's configuration;
// nil if there are none.
func removal(e install.Engine, dir string) (*install.Plan, error) {
	o := install.Options{Shim: filepath.Join(dir, install.ShimName)}
	names, err := install.Registered(e, o, dir)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	o.Undo, o.Runtimes = true, names
	return install.NewPlan(e, o)
}

// livingJails returns the ids of root's jails and of users', whose state directories are below one
// of their own.
func livingJails(root, users string) []string {
	roots := []string{root}
	if more, err := filepath.Glob(filepath.Join(users, "*", "agentjail")); err == nil {
		roots = append(roots, more...)
	}
	var out []string
	for _, root := range roots {
		store := state.Store{Root: root}
		keys, err := store.Keys()
		if err != nil {
			continue // there never were any
		}
		for _, key := range keys {
			if j, err := store.Brief(key); err == nil && j.BootID == state.BootID() && (j.InitAlive() || j.CreatorAlive()) {
				out = append(out, printable.Line(j.ID, 64)) // of a user's file
			}
		}
	}
	slices.Sort(out)
	return out
}
