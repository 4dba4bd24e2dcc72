package account

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/protect"
	"agentjail.dev/runtime/rootfs"
	"agentjail.dev/runtime/rootfs/changes"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/workspace"
)

// Bounds of the look at all mounted directories together, which delays a delete; the second of
// each pair is for journal.receipt = "full".
const (
	mountedEntries, mountedTime         = 4096, 5 * time.Millisecond
	mountedEntriesFull, mountedTimeFull = 20_000, 50 * time.Millisecond
)

// local are file systems of this machine's own, by rootfs.FSName: a look at others can wait for a
// server.
var local = map[string]bool{"ext4": true, "xfs": true, "btrfs": true, "tmpfs": true, "overlay": true, "f2fs": true, "zfs": true}

// NewMounted describes a mounted directory of the host's for the look at the jail's end.
func NewMounted(at string, src *bindsource.Source, storage plan.Storage) state.Mounted {
	m := state.Mounted{At: filepath.Clean(at)}
	if src != nil && src.File != nil {
		m.Source = pathname.Text(src.Path)
		m.Unseen = unseen(src.File, storage, &m)
	}
	return m
}

// unseen returns why the changes in a source will not be looked at. It returns "" if they will be,
// and sets the numbers of m.
func unseen(source *os.File, storage plan.Storage, m *state.Mounted) string {
	if storage != plan.StorageDirect {
		return "its storage is " + string(storage)
	}
	if fs := rootfs.FSName(source); !local[fs] {
		return "a file system that can keep who looks waiting: " + fs
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(source.Fd()), &st); err != nil {
		return err.Error()
	}
	if t := st.Mode & unix.S_IFMT; t != unix.S_IFDIR && t != unix.S_IFREG {
		return "no directory and no file"
	}
	m.Dev, m.Ino = st.Dev, st.Ino
	return ""
}

// A MountedLook is what was seen of a mounted directory, for the journal.
type MountedLook struct {
	At string
	// Unseen reports why it was not looked at, in place of all else.
	Unseen string
	// View is the id of the view that was looked at, in place of the directory.
	View string
	changes.Recent
	// Arrived is what of it the host runs, or is led by; nil for a single file.
	Arrived *protect.Arrivals
}

// lookMounted looks at what was changed in the jail's mounted directories since it was made, by any
// process.
func lookMounted(s state.Store, j *state.Brief) []MountedLook {
	if len(j.Mounted) == 0 {
		return nil
	}
	b := changes.Bounds{Entries: mountedEntries, Names: maxFiles, Until: time.Now().Add(mountedTime)}
	if j.FullReceipt {
		b = changes.Bounds{Entries: mountedEntriesFull, Names: maxFilesFull, Until: time.Now().Add(mountedTimeFull)}
	}
	var out []MountedLook
	for i, m := range j.Mounted {
		l := MountedLook{At: m.At, Unseen: m.Unseen}
		if err := l.look(s, j, m, b.Share(time.Now(), len(j.Mounted)-i)); err != nil {
			l.Unseen = err.Error()
		}
		b = b.Less(&l.Recent)
		out = append(out, l)
	}
	return out
}

// look looks at the layer of the jail's view of a directory, or without a view at the directory.
func (l *MountedLook) look(s state.Store, j *state.Brief, m state.Mounted, b changes.Bounds) error {
	view := slices.IndexFunc(j.Reviews, func(r state.Review) bool { return r.At == l.At })
	switch thisBoot := j.BootID == state.BootID(); {
	case view >= 0 && thisBoot:
		l.View, l.Unseen = j.Reviews[view].ID, ""
		return l.lookView(workspace.Of(s), b)
	case l.Unseen != "":
		return nil
	case !thisBoot:
		return errors.New("the machine has booted since")
	}
	f, err := openMounted(m)
	if err != nil {
		return err
	}
	defer f.Close()
	l.Recent = *changes.Since(f, time.Unix(0, j.MountedSince), b)
	l.Arrived = protect.Arrived(f, string(m.Source), time.Unix(0, j.MountedSince))
	return nil
}

// lookView looks at the layer of a view.
func (l *MountedLook) lookView(store workspace.Store, b changes.Bounds) error {
	view, err := store.Open(l.View)
	if err != nil {
		return err
	}
	layers, err := store.OpenLayers(view)
	if err != nil {
		return err
	}
	defer layers.Close()
	began, _, err := store.Began(view)
	if err != nil {
		return err
	}
	l.Recent = *changes.Since(layers.Upper, began, b)
	return nil
}

// openMounted opens a mounted directory or file, if it is still at its place: a program that can
// write beside it could have replaced it.
func openMounted(m state.Mounted) (*os.File, error) {
	f, err := openat.File(unix.AT_FDCWD, string(m.Source), openat.NoLinks, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return nil, fmt.Errorf("it cannot be opened any more: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Dev != m.Dev || st.Ino != m.Ino {
		f.Close()
		return nil, fmt.Errorf("something else is where it was")
	}
	return f, nil
}

// Events are what the journal keeps of the look at a mounted directory.
func (l *MountedLook) Events() []journal.Event {
	first := journal.Event{Kind: journal.JailMounted, Path: l.At}
	if l.Unseen != "" {
		first.Detail = journal.Mounted{Unseen: l.Unseen, View: l.View}
		return []journal.Event{first}
	}
	first.Detail = journal.Mounted{View: l.View, Entries: l.Entries, Changed: l.Changed, Short: l.Short}
	out := []journal.Event{first}
	for part := range slices.Chunk(l.Names, perEvent) {
		out = append(out, journal.Event{Kind: journal.JailMounted, Path: l.At, Detail: journal.Mounted{Names: part}})
	}
	return append(out, l.arrivals()...)
}

// arrivals are what the journal keeps of what the host may run.
func (l *MountedLook) arrivals() (out []journal.Event) {
	a := l.Arrived
	if a == nil || a.Total == 0 && a.Short == "" {
		return nil
	}
	first := journal.Event{Kind: journal.JailArrived, Path: l.At, Detail: journal.Arrived{Total: a.Total, Short: a.Short}}
	out = append(out, first)
	for _, x := range a.List {
		e := journal.Event{
			Kind: journal.JailArrived, Path: l.At, Target: strings.TrimSuffix(filepath.Join(l.At, x.Rel), "/"),
			Reason: x.Why,
		}
		e.Detail = journal.Arrived{What: string(x.Kind)}
		out = append(out, e)
	}
	return out
}
