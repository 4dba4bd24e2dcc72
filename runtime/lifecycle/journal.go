package lifecycle

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/state"
)

// What is recorded of a jail in its journal. A journal that cannot be written keeps no jail from
// being made or deleted: it is logged, once per boot and reason.

// pruneEvery is how many jails are made for one look at the journals of those that were deleted: at
// a hundred of them it takes the twentieth part of a create.
const pruneEvery = 64

// chooseJournal reports where the jail's journal will be.
func (r *Runtime) chooseJournal(j *state.Brief) {
	if !r.Policy.Journal.Enabled {
		return
	}
	dir, err := journal.Dir(r.Policy.Journal)
	if err != nil {
		r.unwritten(err)
		return
	}
	j.Journal, j.JournalSize = journal.NewPath(dir, j.Key, time.Now()), int64(r.Policy.Journal.Size)
	j.FullReceipt = r.Policy.Journal.Receipt == policy.ReceiptFull
}

// unwritten logs a journal that could not be written.
func (r *Runtime) unwritten(err error) {
	// The path of each is another.
	var path *os.PathError
	text := fmt.Sprint(err)
	if errors.As(err, &path) {
		text = fmt.Sprintf("%s: %v", filepath.Dir(path.Path), path.Err)
	}
	if r.Store.OncePerBoot("journal: " + text) {
		r.Log.Warnf("agentjail: %v: jails run without it", err)
	}
}

// note appends to a jail's journal.
func (r *Runtime) note(j *state.Brief, events ...journal.Event) {
	if j.Journal == "" || len(events) == 0 {
		return
	}
	defer r.step("journal")()
	if err := journal.Of(j).Log().Append(events...); err != nil {
		r.unwritten(err)
	}
}

// beginJournal makes the jail's journal. It runs beside the delegate. identity is the jail's, and
// config is its hardened config.json.
func (r *Runtime) beginJournal(j *state.Jail, rep *report.Report, identity journal.Created, config []byte) {
	if j.Journal == "" {
		return
	}
	defer r.step("journal")()
	first := journal.Event{Kind: journal.JailCreate, Policy: j.Policy.Hash(), Value: journal.OwnIDs(&j.Brief), Target: filepath.Base(j.Delegate), Hash: hash(config), Detail: identity}
	if j.Process != nil {
		about(&first, j, j.Process)
	}
	events := append([]journal.Event{first}, changed(rep.Changes)...)
	if err := journal.Of(&j.Brief).Log().Begin(events...); err != nil {
		r.unwritten(err)
		return
	}
	if time.Now().UnixMicro()%pruneEvery == 0 {
		_, _ = journal.Prune(r.Store, filepath.Dir(j.Journal), j.Policy.Journal.Keep) // `agentjail gc` reports it
	}
}

// about reports what program is run, and as whom.
func about(e *journal.Event, j *state.Jail, p *specs.Process) {
	e.Argv, e.Cwd = p.Args, p.Cwd
	if uid, ok := j.IDs.HostUID(p.User.UID); ok {
		e.UID = &uid
	}
}

// changed are the events of a report: what was denied and what is missing.
func changed(changes []report.Change) []journal.Event {
	var out []journal.Event
	for _, c := range changes {
		e := journal.Event{Ring: c.Ring, Target: c.Field, Value: c.Was, Limit: c.Now, Reason: c.Why}
		switch c.Kind {
		case report.Denied:
			e.Kind = journal.PrivilegeDenied
		case report.Missing:
			e.Kind = journal.ProtectionMissing
		default:
			continue
		}
		out = append(out, e)
	}
	return out
}

// noteRefused records a jail that was not made.
func (rt *Runtime) noteRefused(j *state.Brief, kind journal.Kind, err error) {
	if j.Journal == "" {
		return
	}
	var events []journal.Event
	for _, r := range refusal.All(err) {
		events = append(events, journal.Event{Kind: kind, Target: r.Of, Rule: string(r.Code), Reason: r.Why, Remedy: r.Remedy})
	}
	if len(events) == 0 {
		events = []journal.Event{{Kind: kind, Reason: err.Error()}}
	}
	l := journal.Of(j).Log()
	if aerr := l.Append(events...); errors.Is(aerr, os.ErrNotExist) {
		_ = l.Begin(events...) // it failed before there was one
	}
}

// noteEnd records what the jail's groups and layer hold, before they are removed. ws is nil where
// its end was not waited for.
func (r *Runtime) noteEnd(j *state.Brief, ws *syscall.WaitStatus) {
	if j.Journal == "" {
		return
	}
	done := r.step("last look")
	read, ended := cgroups.Once(), !j.InitAlive()
	events := append(collectFinalState(r.Store, j, read).events(), journal.Counters(j.CgroupDirs, ended, read)...)
	done()
	if j.EngineRoot != "" && j.EngineRootDev != 0 {
		var st unix.Stat_t
		if unix.Lstat(j.EngineRoot, &st) == nil && st.Dev == j.EngineRootDev {
			events = append(events, journal.Full(j.EngineRoot)...)
		}
	}
	if j.InitPid != 0 && ended {
		e := journal.Event{Kind: journal.JailExit, Pid: j.InitPid}
		switch {
		case ws == nil:
			statusOf(j.ID, &e)
		case ws.Signaled():
			e.Status = ws.Signal().String()
		default:
			e.Status = fmt.Sprint(ws.ExitStatus())
		}
		events = append(events, e)
	}
	r.note(j, events...)
	r.noteVanished(j)
	r.noteStale(j)
}

// noteGone keeps what is read later of the jail's directory, which is about to be removed, and ends
// the journal.
func (r *Runtime) noteGone(j *state.Brief) {
	if j.Journal == "" {
		return
	}
	if unix.Access(j.Journal, unix.F_OK) != nil {
		return // it was never begun: the attempt failed, and reports it itself
	}
	events, err := journal.Keep(j.Journal, r.Store.Dir(j.Key))
	if err != nil {
		r.unwritten(err)
	}
	kind := journal.JailDelete
	if j.BootID != state.BootID() {
		kind = journal.JailReclaimed
	}
	r.note(j, append(events, journal.Event{Kind: kind})...)
}
