package apply

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/version/form"
	"agentjail.dev/runtime/workspace/review"
)

// Actions of an operation.
const (
	add     = "add"
	replace = "replace"
	remove  = "remove"
	chmod   = "mode"
)

// An operation changes one path of the directory, in one step.
type operation struct {
	Do   string
	Path string
	At   string // the name in the staging directory
	// New is what was staged, Old what the directory had.
	New, Old review.State
	// Tree identifies what is in a new directory, OldTree in a removed one.
	Tree, OldTree string
	Mode          uint32 // of a file or directory, without its type
	Dir           bool   // New is a directory
	// By is the path that has to be done, for this to be done: that of a renamed directory.
	By string
	// Settle reports that nothing of the view's layer at or below Path remains to be applied.
	Settle bool
}

// A stagedItem is a file to be staged.
type stagedItem struct {
	At     string // below the staging directory
	Path   string
	Type   string
	Mode   uint32
	Target string
	Source review.Source
	State  review.State
	Sum    string // review.Change's
	// Shut reports that its owner cannot read it, by its mode or a directory's.
	Shut bool
}

// An applyPlan is what one apply does: the content of the journal.
type applyPlan struct {
	Form    int    // package form
	Staging string // the staging directory's name
	// StagingIno is its inode; 0 before it is made, and of earlier versions of agentjail.
	StagingIno uint64
	UID, GID   uint32
	Each       bool
	Items      []stagedItem
	Ops        []operation
	// Units are directories of the layer that are not merged with those of the same path, and of
	// which nothing remains to be applied.
	Units []string
	// Live reports that a jail has the view: its layer stays as it is.
	Live bool
}

// Options choose what is applied.
type Options struct {
	Protected bool // also protected paths
	Links     bool // also links that can lead out of the directory
	Each      bool // go on without what is in conflict
}

// maxShut bounds the files that are opened before the privileges are dropped.
const maxShut = 200

// A Problem is a change that was not applied.
type Problem struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// String is the problem on one line.
func (p Problem) String() string { return printable.Line(p.Path, 0) + ": " + p.Why }

// planner makes a plan of a review.
type planner struct {
	o         Options
	review    *review.Review
	live      bool
	plan      *applyPlan
	staged    map[string]string // by path: the place of a directory to be made
	shut      map[string]bool   // directories that their owner cannot search
	shutFiles int
	out       map[string]bool // paths of changes that are not done
	shown     []string        // directories that the view goes on showing at another path
	left      []Problem       // by choice, or for ever
	conflicts []Problem
}

// Select returns those of the chosen changes that an apply takes over, whatever way takes them to
// the host, and the result that Run would have, if nothing changes meanwhile.
func Select(r *review.Review, chosen []*review.Change, live bool, o Options) ([]*review.Change, *Result) {
	plan, left, conflicts := newPlan(r, chosen, live, o)
	done := plan.paths()
	taken := slices.DeleteFunc(slices.Clone(chosen), func(c *review.Change) bool { return !done[c.Path] })
	return taken, planned(plan, left, conflicts)
}

// newPlan plans what to do for the chosen changes. left is what the options leave out, conflicts
// what the directory's owner did meanwhile.
func newPlan(r *review.Review, chosen []*review.Change, live bool, o Options) (plan *applyPlan, left, conflicts []Problem) {
	p := &planner{
		o: o, review: r, live: live, plan: &applyPlan{Form: form.Number, Each: o.Each, Live: live},
		staged: map[string]string{}, shut: map[string]bool{},
		out: map[string]bool{},
	}
	for _, c := range r.Changes {
		if c.Type == review.Dir && c.Kind != review.Deleted && c.New.Mode&0o100 == 0 {
			p.shut[c.Path] = true
		}
	}
	applied := map[*review.Change]bool{}
	var late []*review.Change
	for _, c := range chosen {
		if c.Kind == review.Deleted || c.Kind == review.Mode && c.Type == review.Dir {
			late = append(late, c)
			continue
		}
		applied[c] = p.take(c)
	}
	for _, c := range late {
		applied[c] = p.take(c)
	}
	// A directory is opened before what is in it is done, and shut afterwards.
	slices.SortStableFunc(p.plan.Ops, func(a, b operation) int {
		if n := cmp.Compare(turn(a), turn(b)); n != 0 || turn(a) != shuts {
			return n
		}
		return strings.Compare(b.Path, a.Path)
	})
	p.moved(applied)
	p.settle(applied)
	if !o.Protected && r.Judge(p.done(chosen, applied)) { // what is left out counts for what the rest leads to
		return newPlan(r, chosen, live, o)
	}
	return p.plan, p.left, p.conflicts
}

// done lists the chosen changes that the plan does.
func (p *planner) done(chosen []*review.Change, applied map[*review.Change]bool) []*review.Change {
	has := p.plan.paths()
	return slices.DeleteFunc(slices.Clone(chosen), func(c *review.Change) bool { return !applied[c] || !has[c.Path] })
}

// paths returns the paths of the plan's operations and of what it stages.
func (p *applyPlan) paths() map[string]bool {
	out := map[string]bool{}
	for _, op := range p.Ops {
		out[op.Path] = true
	}
	for _, item := range p.Items {
		out[item.Path] = true
	}
	return out
}

// The turns of operations.
const opens, within, shuts = -1, 0, 1

// turn is an operation's: of modes of directories, that of one whose owner cannot change files in
// it before, or afterwards.
func turn(o operation) int {
	const all = 0o300
	switch {
	case o.Do != chmod || !o.Dir:
		return within
	case o.Old.Mode&all != all && o.Mode&all == all:
		return opens
	}
	return shuts
}

// take adds a change to the plan, and reports whether it did.
func (p *planner) take(c *review.Change) bool {
	if why := p.o.exclude(c); why != "" {
		if !p.out[path.Dir(c.Path)] {
			p.left = append(p.left, Problem{c.Path, why})
		}
		p.exclude(c)
		return false
	}
	up := path.Dir(c.Path)
	if p.out[up] { // its directory is not made
		p.exclude(c)
		return false
	}
	if c.Conflict != "" {
		p.conflicts = append(p.conflicts, Problem{c.Path, c.Conflict})
		p.exclude(c)
		return false
	}
	if c.Kind == review.Deleted {
		p.op(operation{Do: remove, Path: c.Path, Old: c.Old, OldTree: c.Tree, By: c.By})
		return true
	}
	if c.Kind == review.Mode {
		p.op(operation{Do: chmod, Path: c.Path, Old: c.Old, Mode: c.New.Mode & 0o777, Dir: c.Type == review.Dir})
		return true
	}
	item := stagedItem{
		Path: c.Path, Type: c.Type, Mode: c.New.Mode & 0o777, Target: c.Target, Source: c.Source, State: c.New, Sum: c.Sum,
		Shut: c.Type == review.File && (c.New.Mode&0o400 == 0 || p.shutDir(c.Source)),
	}
	if item.Shut {
		if p.shutFiles++; p.shutFiles > maxShut {
			p.conflicts = append(p.conflicts, Problem{c.Path, fmt.Sprintf("more than %d files that their owner cannot read", maxShut)})
			p.out[c.Path] = true
			return false
		}
	}
	if in := p.staged[up]; in != "" {
		item.At = path.Join(in, path.Base(c.Path))
	} else {
		op := operation{Do: add, Path: c.Path, Mode: item.Mode, Dir: c.Type == review.Dir}
		if c.Old.Ino != 0 {
			op.Do, op.Old, op.OldTree = replace, c.Old, c.Tree
		}
		item.At = p.op(op)
	}
	if c.Type == review.Dir {
		p.staged[c.Path] = item.At
	}
	p.plan.Items = append(p.plan.Items, item)
	return true
}

// exclude leaves a change out, and with it what needs it: a directory whose mode alone is not
// changed is there.
func (p *planner) exclude(c *review.Change) {
	if c.Kind != review.Mode {
		p.out[c.Path] = true
	}
}

func (p *planner) op(o operation) (at string) {
	o.At = strconv.Itoa(len(p.plan.Ops))
	p.plan.Ops = append(p.plan.Ops, o)
	return o.At
}

// exclude returns why the options leave a change out; "" where they do not.
func (o Options) exclude(c *review.Change) string {
	switch {
	case c.Has(review.Never):
		return c.Marks[slices.IndexFunc(c.Marks, func(m review.Mark) bool { return m.Kind == review.Never })].Why
	case c.Has(review.Protected) && !o.Protected:
		return "a protected path (--protected applies it)"
	case c.Has(review.Out) && !o.Links:
		return "the link can lead out of the directory (--links applies it)"
	}
	return ""
}

// shutDir reports whether a directory on the way keeps its owner from a file of the upper layer.
func (p *planner) shutDir(src review.Source) bool {
	if len(p.shut) == 0 || !src.Upper {
		return false
	}
	for dir := path.Dir(src.Path); dir != "."; dir = path.Dir(dir) {
		if p.shut[dir] {
			return true
		}
	}
	return false
}

// moved drops operations on what the view still shows at another path: a directory's former path
// is changed only together with all of the renamed directory, when no jail has the view. So it goes
// from the layer, which takes all of the directories around it that are not merged.
func (p *planner) moved(applied map[*review.Change]bool) {
	parts := map[string]bool{} // paths of which something is not applied, and all on their way
	part := func(at string) {
		for ; at != "." && !parts[at]; at = path.Dir(at) {
			parts[at] = true
		}
	}
	for _, at := range slices.Concat(p.review.Git, p.review.Skipped) {
		part(at)
	}
	alone := map[string]bool{} // directories of the layer that are not merged
	for _, at := range p.review.Units {
		alone[at] = true
	}
	for _, c := range p.review.Changes {
		if !applied[c] {
			part(c.Path)
		}
		if c.Type == review.Dir && slices.Contains([]string{review.Added, review.Type, review.Renamed}, c.Kind) {
			alone[c.Path] = true
		}
	}
	shown, above := map[string]string{}, map[string]string{} // by the former path, and by those on its way: why it stays
	for from, to := range p.review.Moved {
		for dir := to; dir != "."; dir = path.Dir(dir) {
			if alone[dir] {
				to = dir
			}
		}
		why := "the view shows it as " + printable.Line(to, 0) + ", of which not all is applied"
		switch {
		case p.live:
			why = "the running jail sees it as " + printable.Line(to, 0) + " (remedy: apply it when the jail has ended)"
		case !parts[to]:
			continue
		}
		p.shown = append(p.shown, from)
		shown[from] = why
		for dir := path.Dir(from); dir != "."; dir = path.Dir(dir) {
			above[dir] = why
		}
	}
	p.plan.Ops = slices.DeleteFunc(p.plan.Ops, func(o operation) bool {
		why, hit := above[o.Path]
		hit = hit && o.Do != add
		for at := o.Path; at != "." && !hit; at = path.Dir(at) {
			why, hit = shown[at]
		}
		if hit && o.Do == remove {
			p.left = append(p.left, Problem{o.Path, why})
		} else if hit {
			p.conflicts = append(p.conflicts, Problem{o.Path, why})
		}
		return hit
	})
	p.trim()
}

// settle finds out of which parts of the layer nothing remains.
func (p *planner) settle(applied map[*review.Change]bool) {
	remains := map[string]bool{} // paths, and all directories on their way
	leave := func(at string) {
		for ; at != "." && !remains[at]; at = path.Dir(at) {
			remains[at] = true
		}
	}
	for _, at := range slices.Concat(p.review.Git, p.review.Skipped, p.shown) {
		leave(at)
	}
	has := map[string]bool{}
	for i := range p.plan.Ops {
		has[p.plan.Ops[i].Path] = true
	}
	for _, c := range p.review.Changes {
		if !applied[c] || c.Kind == review.Deleted && !has[c.Path] {
			leave(c.Path)
		}
	}
	for i := range p.plan.Ops {
		p.plan.Ops[i].Settle = !remains[p.plan.Ops[i].Path]
	}
	for _, at := range p.review.Units {
		if !remains[at] {
			p.plan.Units = append(p.plan.Units, at)
		}
	}
}

// trim drops items whose operation was dropped.
func (p *planner) trim() {
	has := map[string]bool{}
	for _, o := range p.plan.Ops {
		has[o.At] = true
	}
	var items []stagedItem
	for _, i := range p.plan.Items {
		if top, _, _ := strings.Cut(i.At, "/"); has[top] {
			items = append(items, i)
		}
	}
	p.plan.Items = items
}

// errConflict is wrapped by an error that the directory's owner caused.
var errConflict = errors.New("it was changed in the directory meanwhile")
