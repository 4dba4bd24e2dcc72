package account

import (
	"cmp"
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/network/helper"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/rootfs"
	"agentjail.dev/runtime/rootfs/changes"
	"agentjail.dev/runtime/state"
)

// Final is the state of a jail just before its removal, for its journal. Each delete reads some
// small files for it, and starts no process.
type Final struct {
	// Used is the most that was used, and how full the layer is.
	Used journal.Used
	// Files are the first files of the layer, and More reports that there are others.
	Files []changes.Change
	More  bool
	// Known reports that the layer was looked at.
	Known bool
	// Mounted is what was seen of mounted directories.
	Mounted []MountedLook
}

// A Part is something that was made for a jail and goes with it.
type Part struct {
	kind, what string
	// left reports whether it is still there.
	left func() bool
}

// Bounds of the files that are named.
const (
	maxFiles     = 256
	maxFilesFull = 4096
)

// Collect looks at a jail that exists.
func Collect(s state.Store, j *state.Brief) *Final {
	return collect(s, j, cgroups.Read)
}

// collect is Collect with a reader of control groups.
func collect(s state.Store, j *state.Brief, read func(dir, file string) (string, error)) *Final {
	l := &Final{Used: journal.Used{Amounts: groupUse(j.CgroupDirs, read)}, Mounted: lookMounted(s, j)}
	layer, err := rootfs.OpenChanges(s.Dir(j.Key))
	if err != nil {
		return l
	}
	defer layer.Close()
	most := maxFiles
	if j.FullReceipt {
		most = maxFilesFull
	}
	l.Files, l.More, err = changes.First(context.Background(), layer, changes.ByOrigin(layer), s.FirstAt(j.Key), most)
	if l.Known = err == nil; !l.Known {
		return l
	}
	l.Used.Layer = &journal.LayerUse{More: l.More}
	var fs unix.Statfs_t
	if unix.Fstatfs(int(layer.Fd()), &fs) == nil {
		l.Used.Layer.Bytes, l.Used.Layer.Inodes = int64((fs.Blocks-fs.Bfree)*uint64(fs.Bsize)), int64(fs.Files-fs.Ffree)
	}
	return l
}

// perEvent is how many files one event names.
const perEvent = 60

// events are what the journal keeps of the look.
func (l *Final) events() []journal.Event {
	var out []journal.Event
	if l.Used != (journal.Used{}) {
		out = append(out, journal.Event{Kind: journal.JailUsed, Detail: l.Used})
	}
	for part := range slices.Chunk(l.Files, perEvent) {
		var files journal.Files
		for _, c := range part {
			files.Files = append(files.Files, journal.File(c))
		}
		out = append(out, journal.Event{Kind: journal.JailFiles, Detail: files})
	}
	for i := range l.Mounted {
		out = append(out, l.Mounted[i].Events()...)
	}
	return out
}

// counters are what control groups report of the most that was used (cgroups(7);
// Documentation/admin-guide/cgroup-v1/memory.rst), and the amount that each becomes. The controller
// is that of version 1, or "" for version 2 (cgroups.Counting).
var counters = []struct {
	controller, file, key string
	set                   func(*journal.Amounts, int64)
}{
	{"", "memory.peak", "", setMemory},
	{"memory", "memory.max_usage_in_bytes", "", setMemory},
	{"", "pids.peak", "", setPids},
	{"pids", "pids.peak", "", setPids},
	{"", "cpu.stat", "usage_usec", func(a *journal.Amounts, n int64) { a.CPU = cmp.Or(a.CPU, float64(n)/1e6) }},
	{"cpuacct", "cpuacct.usage", "", func(a *journal.Amounts, n int64) { a.CPU = cmp.Or(a.CPU, float64(n)/1e9) }},
}

func setMemory(a *journal.Amounts, n int64) { a.Memory = cmp.Or(a.Memory, n) }
func setPids(a *journal.Amounts, n int64)   { a.Pids = cmp.Or(a.Pids, n) }

// groupUse reads the counters of a jail's control groups. A group that is gone, or has no such
// counter, leaves its amount 0.
func groupUse(dirs []string, read func(dir, file string) (string, error)) (out journal.Amounts) {
	for _, dir := range dirs {
		counting := cgroups.Counting(dir)
		for _, c := range counters {
			if !slices.Contains(counting, c.controller) {
				continue
			}
			text, _ := read(dir, c.file)
			if n, known := cgroups.Number(text, c.key); known && n <= math.MaxInt64 {
				c.set(&out, int64(n))
			}
		}
	}
	return out
}

// Parts are all that was made for a jail and goes with it. Directories are not read: whether they
// are there is looked at before and after. A jail without a journal, where no part would be
// recorded, has none.
func (b Book) Parts(j *state.Brief) []Part {
	if j.Journal == "" {
		return nil
	}
	var out []Part
	add := func(kind, what string, left func() bool) { out = append(out, Part{kind, what, left}) }
	path := func(p string) func() bool {
		return func() bool { return !errors.Is(unix.Lstat(p, new(unix.Stat_t)), unix.ENOENT) }
	}
	if j.InitPid != 0 {
		add("process", strconv.Itoa(j.InitPid)+" and all in its process namespace", j.InitAlive)
	}
	if r, err := helper.Load(b.Store.Dir(j.Key)); err == nil && r != nil {
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
		changes := filepath.Join(b.Store.Dir(j.Key), "changes")
		add("mount", changes, path(changes))
	}
	for _, dir := range j.CgroupDirs {
		add("control group", dir, path(dir))
	}
	for _, dir := range j.Removed {
		add("control group", dir, func() bool { return false }) // the kernel reported it when it was removed
	}
	add("delegate's record", j.DelegateState(), path(j.DelegateState()))
	add("record", b.Store.Dir(j.Key), path(b.Store.Dir(j.Key)))
	if !j.IDs.Given && j.IDs.Block >= 0 {
		member := b.Store.Member(j.Userns, j.IDs, j.Key)
		add("host ids", filepath.Base(filepath.Dir(member)), path(member))
	}
	return out
}

// Teardown reports what is gone of a jail that was removed, and what is not, by looking for it.
func (b Book) Teardown(j *state.Brief, parts []Part) {
	if unix.Access(j.Journal, unix.F_OK) != nil {
		return // it has none, or it was never begun
	}
	defer b.Step("teardown")()
	var found journal.Teardown
	for _, p := range parts {
		to := &found.Gone
		if p.left() {
			to = &found.Remains
		}
		*to = append(*to, journal.Part{Kind: p.kind, What: p.what})
	}
	b.Note(j, journal.Event{Kind: journal.JailTeardown, Detail: found})
}
