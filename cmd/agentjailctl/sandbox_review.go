package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/lifecycle"
	"agentjail.dev/runtime/rootfs"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/sandbox"
	"agentjail.dev/runtime/workspace"
	"agentjail.dev/runtime/workspace/apply"
	"agentjail.dev/runtime/workspace/review"
)

// reviewed requests views of a sandbox's workspaces: where the call does, and for an agent. An
// agent for which there can be none is refused.
func reviewed(c *cli.Context, o *sandbox.Options, agent *agentRun) error {
	review, direct := c.Bool("review"), c.Bool("direct")
	switch {
	case direct && agent == nil:
		return errors.New("--direct is an agent's: without --review a workspace is written at once (remedy: --agent NAME)")
	case direct && review:
		return errors.New("--direct and --review exclude each other (remedy: leave out one)")
	case agent != nil && direct:
		agent.unreviewed = "--direct"
	case agent != nil && !review && !o.ReadOnly:
		if err := unreviewable(*o); err != nil {
			return fmt.Errorf("an agent writes in a view, and there can be none: %w; or --direct, by which it writes at once", err)
		}
		review = true
	}
	if c.String("view") != "" && !review {
		why := ""
		if agent != nil {
			why = ": " + agent.unreviewed
		}
		return fmt.Errorf("--view names a view, and there is none%s (remedy: --review --view NAME)", why)
	}
	if !review {
		return nil
	}
	if rootless.Inside() {
		return errors.New("--review without root: a view is a file system that only root can mount (remedy: sudo agentjail sandbox ..., or leave out --review)")
	}
	if o.Workspace == "" || o.ReadOnly {
		return errors.New("--review is about what the command writes to a workspace (remedy: --workspace DIR, without --read-only)")
	}
	noteMounts(append([]string{o.Workspace}, o.Further...))
	o.Tighten[policy.AnnotationPrefix+policy.WorkspaceAnnotation] = strings.Join(append([]string{o.Workspace}, o.Further...), ",")
	return nil
}

// noteMounts reports what is mounted below directories, and is not in their views.
func noteMounts(dirs []string) {
	for _, dir := range dirs {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			continue // the start reports it
		}
		below, err := bindsource.MountsBelow(real)
		switch {
		case err != nil:
			fmt.Fprintf(os.Stderr, "agentjail: the mounts below %s: %s\n", printable.Line(dir, 0), printable.Line(err.Error(), 0))
		case len(below) > 0:
			fmt.Fprintf(os.Stderr, "agentjail: what is mounted below %s is not in its view: %s\n", printable.Line(dir, 0), printable.Line(strings.Join(below, ", "), 256))
		}
	}
}

// unreviewable returns why there can be no view of a sandbox's workspaces, with the remedy; nil
// where there can be.
func unreviewable(o sandbox.Options) error {
	if rootless.Inside() {
		return errors.New("there is no review without root (remedy: sudo agentjail sandbox ...)")
	}
	if err := workspace.CheckHost(); err != nil {
		return err
	}
	for _, dir := range append([]string{o.Workspace}, o.Further...) {
		f, err := rootfs.OpenDir(dir)
		if err != nil {
			return err
		}
		err = rootfs.Reviewable(f)
		fi, serr := f.Stat()
		f.Close()
		if err := errors.Join(err, serr); err != nil {
			return err
		}
		if st := fi.Sys().(*syscall.Stat_t); st.Uid == 0 || st.Gid == 0 {
			return fmt.Errorf("no layer can map root's %s (remedy: chown it to a user and a group that are not root)", printable.Line(dir, 0))
		}
	}
	return nil
}

// announceViews prints the views that an ended sandbox leaves.
func announceViews(r *lifecycle.Runtime, o sandbox.Options) {
	views, err := r.Views(o.ID)
	if err != nil {
		fmt.Fprintf(os.Stderr, "agentjail: %s\n", printable.Line(err.Error(), 0))
	}
	for _, v := range views {
		var found *review.Review
		err := thread.Own(func() (err error) { // this thread has left the host's mounts
			found, err = reviewOf(r, v)
			return err
		})
		what := "agentjail workspace diff " + v.ID
		if err == nil {
			what = review.Count(found.Changes).String()
		}
		state := "stays as it was; what was written"
		if applied, aerr := workspace.Of(r.Store).Applied(v); aerr != nil || len(applied) > 0 {
			state = "has what was applied; what was written besides"
		}
		fmt.Fprintf(os.Stderr, "agentjail: %s %s is in view %s: %s\n", printable.Line(v.Path, 0), state, v.ID, what)
		if err != nil {
			fmt.Fprintf(os.Stderr, "agentjail: comparing view %s: %s\n", v.ID, printable.Line(err.Error(), 0))
			continue
		}
		marked := slices.DeleteFunc(found.Changes, func(c *review.Change) bool { return len(c.Marks) == 0 })
		_ = review.Print(os.Stderr, marked, shownMarks)
		fmt.Fprintf(os.Stderr, "agentjail: next: sudo agentjail workspace diff %s, then apply or discard\n", cmp.Or(v.Name, v.ID))
	}
}

// shownMarks is how many changes the end of a run shows.
const shownMarks = 10

// reviewOf compares a view with its directory.
func reviewOf(r *lifecycle.Runtime, v *workspace.Record) (*review.Review, error) {
	view, err := apply.Open(workspace.Of(r.Store), v)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	return view.Review(context.Background(), v, r.Policy.Binds.Unprotect)
}
