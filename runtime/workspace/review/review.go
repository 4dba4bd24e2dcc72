// Package review compares a view with its directory: what an apply would do to the directory, and
// which of it the host may run or follow later.
//
// The jail has written the upper layer, and may go on meanwhile; the directory is its owner's.
// Names are opened relative to descriptors, without following links, and nothing in either is run.
package review

import (
	"context"
	"encoding/json"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/kernel/users"
	"agentjail.dev/runtime/protect"
)

// Kinds of changes. A mode is compared by its permissions: set-id bits and the sticky bit are
// never applied.
const (
	Added    = "A"
	Modified = "M"
	Mode     = "m" // only the permissions
	Deleted  = "D"
	Renamed  = "R" // a directory; the file's rename is D and A
	Type     = "T" // another type of file
)

// Types of files.
const (
	File    = "file"
	Dir     = "directory"
	Link    = "link"
	Special = "special" // a device, socket or pipe: never applied
)

// Source is where a change's content is read.
type Source struct {
	Upper bool   // in the view's layer, else in the directory
	Path  string // below either
}

// A State identifies a file and its content, as far as the kernel records changes of it.
type State struct {
	Ino   uint64
	Mode  uint32
	Size  int64
	Mtime int64 // nanoseconds since 1970, as Ctime
	Ctime int64
}

// StateOf is the state of a file.
func StateOf(st *unix.Stat_t) State {
	return State{st.Ino, st.Mode, st.Size, unix.TimespecToNsec(st.Mtim), unix.TimespecToNsec(st.Ctim)}
}

// A Change is one difference between the view and the directory.
type Change struct {
	Kind string `json:"kind"`
	Path string `json:"path"`           // below the directory
	From string `json:"from,omitempty"` // of Renamed: the former path
	Type string `json:"type"`           // in the view; of Deleted in the directory
	Perm string `json:"mode,omitempty"` // octal, in the view
	// OldPerm is that of the directory's file, where it is another and the file stays.
	OldPerm string `json:"oldMode,omitempty"`
	Size    int64  `json:"size,omitempty"`
	// Target is a link's.
	Target string `json:"target,omitempty"`
	Marks  []Mark `json:"marks,omitempty"`
	// Conflict is why it cannot be applied: what the directory's owner did meanwhile.
	Conflict string `json:"conflict,omitempty"`

	// Implied is a part of a renamed directory that is otherwise unchanged, or its removal at
	// From.
	Implied bool `json:"-"`
	// By is the renamed directory's path, in the removal at its former one.
	By string `json:"-"`
	// Source, New and Old are for an apply; Old is zero where the directory has no such path.
	Source   Source `json:"-"`
	New, Old State  `json:"-"`
	// Tree identifies all that is in a removed or replaced directory.
	Tree string `json:"-"`
	// Sum identifies the content of a file of the view's layer; Token sets it.
	Sum string `json:"-"`

	own     []Mark // the marks whatever else is applied
	implied bool   // Implied, but for other marks
	shared  bool   // the directory's file has further names
	git     bool   // the removed directory has a repository
}

// MarshalJSON has the change's names as pathname.ToJSON returns them: they need not be UTF-8.
func (c Change) MarshalJSON() ([]byte, error) {
	for _, name := range []*string{&c.Path, &c.From, &c.Target} {
		*name = pathname.ToJSON(*name)
	}
	type fields Change
	return json.Marshal(fields(c))
}

// String is the change on one line, whatever the jail has put into the name.
func (c *Change) String() string {
	name := printable.Line(c.Path, 0)
	if c.Type == Dir {
		name += "/"
	}
	switch {
	case c.Kind == Renamed:
		name = printable.Line(c.From, 0) + "/ -> " + name
	case c.Type == Link && c.Kind != Deleted:
		name += " -> " + printable.Line(c.Target, 0)
	}
	if m := c.Modes(); m != "" {
		name += "  " + m
	}
	return c.Kind + " " + name
}

// Options are what a comparison depends on besides the trees.
type Options struct {
	// Since is when the view began: a file of the directory with a later ctime has changed.
	Since time.Time
	// Back is by how much the clock was set back meanwhile: Since is earlier by that.
	Back time.Duration
	// Applied are the ctimes that an apply left, by path. A path that ends with a slash stands for
	// a whole directory that was new then: nothing in it is later.
	Applied map[string]int64
	// Bases are those of the layer's files.
	Bases map[string]Base
	// Hide are the patterns of names that the view hides, and Unprotect what policy leaves to
	// jails.
	Hide, Unprotect []string
	// Path is the directory's on the host.
	Path string
	// Search has the homes and settings for the search of protected paths.
	Search protect.Options
}

// A Review is the result of a comparison.
type Review struct {
	Changes []*Change // a directory before its content
	// Git are the git directories in the view with changes, which are left out: commits come out
	// as patches.
	Git []string
	// Skipped are files in the view's layer that are in no comparison, as Git.
	Skipped []string
	// Units are directories of the layer that are not merged with the directory of the same path.
	Units []string
	// Moved are the directories that the view shows at another path, by their path in the
	// directory: each has to stay there while the view lasts.
	Moved map[string]string

	w      *walker
	before guarded
	linked map[uint64]bool // files with several names, one of which is protected
	marked []*Change       // by the last mark
	judged []*Change       // by the last Judge
	rounds int             // of Judge
}

// StagingPrefix begins the name of the directory in which an apply prepares files. The view's own
// files of such a name are left out.
const StagingPrefix = ".agentjail-apply-"

// Of compares a view's upper layer with the directory that it lies over. Both stay open while the
// result is used.
func Of(ctx context.Context, upper, directory *os.File, o Options) (*Review, error) {
	o.Search.Source, o.Search.Unprotect, o.Search.Protect, o.Search.Absent = o.Path, o.Unprotect, true, true
	w := &walker{
		ctx: ctx, upper: int(upper.Fd()), lower: int(directory.Fd()), directory: directory, o: o,
		out: &Review{Moved: map[string]string{}},
	}
	var st unix.Stat_t
	if err := unix.Fstat(w.lower, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: directory.Name(), Err: err}
	}
	w.owner, w.group, w.private, w.users = st.Uid, st.Gid, map[uint32]bool{}, sync.OnceValue(users.New().All)
	w.bufs = [2][]byte{make([]byte, 128<<10), make([]byte, 128<<10)}
	if err := w.dir(node{at: ".", upper: true, low: ".", merged: true}); err != nil {
		return nil, err
	}
	slices.SortStableFunc(w.out.Changes, func(a, b *Change) int { return strings.Compare(a.Path, b.Path) })
	w.join()
	for _, c := range w.out.Changes {
		c.own, c.implied = c.Marks, c.Implied
	}
	w.out.w = w
	w.out.mark(w.out.Changes)
	return w.out, nil
}

// join marks the removals that belong to renamed directories.
func (w *walker) join() {
	byFrom := map[string]*Change{}
	for _, c := range w.out.Changes {
		if c.Kind == Renamed {
			byFrom[c.From] = c
		}
	}
	for _, c := range w.out.Changes {
		if r := byFrom[c.Path]; c.Kind == Deleted && r != nil {
			if c.Implied, c.By = true, r.Path; c.git {
				c.Marks = append(c.Marks, Mark{Protected, "it has a repository, which the renamed directory is without"})
			}
		}
	}
}

// leftOut reports whether a name is in no comparison.
func (w *walker) leftOut(at string) bool {
	name := path.Base(at)
	return protect.IsHidden(w.o.Hide, name) || strings.HasPrefix(at, StagingPrefix)
}

// isDotGit reports whether a path is that by which git finds a repository.
func isDotGit(at string) bool { return protect.Fold(path.Base(at)) == ".git" }

// typeOf is a file's type by its mode.
func typeOf(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return File
	case unix.S_IFDIR:
		return Dir
	case unix.S_IFLNK:
		return Link
	}
	return Special
}
