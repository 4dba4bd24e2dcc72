package lifecycle

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/network/helper"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/rootfs"
	"agentjail.dev/runtime/rootfs/changes"
	"agentjail.dev/runtime/state"
)

// A LastLook is what is seen of a jail just before it is removed, for its journal: afterwards there is nothing to look at. It costs each
// delete some reads of small files and no process.
type LastLook struct {
	// Used are facts: the most that was used, and how full the layer is.
	Used []string
	// Files are the first files of the layer, and More says that there are others.
	Files []changes.Change
	More  bool
	// Known reports that the layer was looked at.
	Known bool
	// Mounted is what was seen of mounted directories.
	Mounted []MountedLook
}

// A part is something that was made for a jail and goes with it.
type part struct {
	kind, what string
	// left reports whether it is still there.
	left func() bool
}

// Bounds of the files that are named.
const (
	maxFiles     = 256
	maxFilesFull = 4096
)

// Look looks at a jail that exists.
func Look(s state.Store, j *state.Brief) *LastLook { return look(s, j, cgroups.Read) }

// look is Look with who reads the control groups.
func look(s state.Store, j *state.Brief, read func(dir, file string) (string, error)) *LastLook {
	l := &LastLook{Used: groupFacts(j.CgroupDirs, read), Mounted: lookMounted(j)}
	layer, err := rootfs.OpenChanges(s.Dir(j.Key))
	if err != nil {
		return l
	}
	defer layer.Close()
	var fs unix.Statfs_t
	if unix.Fstatfs(int(layer.Fd()), &fs) == nil {
		l.Used = append(l.Used, "layer.bytes="+strconv.FormatUint((fs.Blocks-fs.Bfree)*uint64(fs.Bsize), 10),
			"layer.inodes="+strconv.FormatUint(fs.Files-fs.Ffree, 10))
	}
	most := maxFiles
	if j.FullReceipt {
		most = maxFilesFull
	}
	l.Files, l.More, err = changes.First(context.Background(), layer, changes.ByOrigin(layer), most)
	if l.Known = err == nil; l.Known {
		l.Used = append(l.Used, "layer.known=true")
	}
	if l.More {
		l.Used = append(l.Used, "layer.more=true")
	}
	return l
}

// perEvent is how many files one event names.
const perEvent = 60

// events are what the journal keeps of the look.
func (l *LastLook) events() []journal.Event {
	var out []journal.Event
	if len(l.Used) > 0 {
		out = append(out, journal.Event{Kind: journal.JailUsed, Facts: l.Used})
	}
	for part := range slices.Chunk(l.Files, perEvent) {
		e := journal.Event{Kind: journal.JailFiles}
		for _, c := range part {
			e.Facts = append(e.Facts, c.Kind+" "+c.Path)
		}
		out = append(out, e)
	}
	for i := range l.Mounted {
		out = append(out, l.Mounted[i].Events()...)
	}
	return out
}

// counters are what control groups say of the most that was used (cgroups(7); Documentation/admin-guide/cgroup-v1/memory.rst), and the fact
// that each becomes. The controller is that of version 1, or "" for version 2 (cgroups.Counting).
var counters = []struct{ controller, file, fact string }{
	{"", "memory.peak", "memory.peak"}, {"memory", "memory.max_usage_in_bytes", "memory.peak"},
	{"", "pids.peak", "pids.peak"}, {"pids", "pids.peak", "pids.peak"},
	{"", "cpu.stat", "cpu.usec"}, {"cpuacct", "cpuacct.usage", "cpu.nsec"},
}

// groupFacts reads the counters of a jail's control groups. A group that is gone, or has no such counter, has no fact.
func groupFacts(dirs []string, read func(dir, file string) (string, error)) []string {
	var out []string
	for _, dir := range dirs {
		counting := cgroups.Counting(dir)
		for _, c := range counters {
			if !slices.Contains(counting, c.controller) {
				continue
			}
			text, err := read(dir, c.file)
			if err != nil {
				continue
			}
			if c.file == "cpu.stat" {
				_, text, _ = strings.Cut(text, "usage_usec ")
				text, _, _ = strings.Cut(text, "\n")
			}
			if text = strings.TrimSpace(text); text != "" && strings.Trim(text, "0123456789") == "" {
				out = append(out, c.fact+"="+text)
			}
		}
	}
	return out
}

// parts are all that was made for a jail and goes with it. What it has of directories is not read: it is asked before and after. A jail
// without a journal, for which nobody asks, has none.
func (w *Runtime) parts(j *state.Brief) []part {
	if j.Journal == "" {
		return nil
	}
	var out []part
	add := func(kind, what string, left func() bool) { out = append(out, part{kind, what, left}) }
	path := func(p string) func() bool {
		return func() bool { return !errors.Is(unix.Lstat(p, new(unix.Stat_t)), unix.ENOENT) }
	}
	if j.InitPid != 0 {
		add("process", strconv.Itoa(j.InitPid)+" and all in its process namespace", j.InitAlive)
	}
	if r, err := helper.Load(w.Store.Dir(j.Key)); err == nil && r != nil {
		add("helper", r.Name+", process "+strconv.Itoa(r.Pid), r.Alive)
		for _, dir := range r.Cgroups {
			add("control group", dir, path(dir))
		}
	}
	if j.EngineRoot != "" && j.EngineRootDev != 0 {
		root, dev := j.EngineRoot, j.EngineRootDev
		add("mount", root, func() bool {
			var st unix.Stat_t
			return unix.Stat(root, &st) == nil && st.Dev == dev
		})
		changes := filepath.Join(w.Store.Dir(j.Key), "changes")
		add("mount", changes, path(changes))
	}
	for _, dir := range j.CgroupDirs {
		add("control group", dir, path(dir))
	}
	for _, dir := range j.Removed {
		add("control group", dir, func() bool { return false }) // the kernel reported it when it was removed
	}
	add("delegate's record", j.DelegateState(), path(j.DelegateState()))
	add("record", w.Store.Dir(j.Key), path(w.Store.Dir(j.Key)))
	if !j.IDs.Given && j.IDs.Block >= 0 {
		member := w.Store.Member(j.Userns, j.IDs, j.Key)
		add("host ids", filepath.Base(filepath.Dir(member)), path(member))
	}
	return out
}

// noteTeardown reports what is gone of a jail that was removed, and what is not, by looking for it.
func (w *Runtime) noteTeardown(j *state.Brief, parts []part) {
	if j.Journal == "" || unix.Access(j.Journal, unix.F_OK) != nil {
		return // it has none, or it was never begun
	}
	defer w.step("teardown")()
	e := journal.Event{Kind: journal.JailTeardown}
	for _, p := range parts {
		word := "gone "
		if p.left() {
			word = "remains "
		}
		e.Facts = append(e.Facts, word+p.kind+"="+p.what)
	}
	w.note(j, e)
}
