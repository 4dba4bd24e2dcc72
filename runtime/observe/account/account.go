// Package account writes a jail's journal for the life cycle: the jail's identity when it is made,
// refusals, and at its end its use of resources, its changes and its remains.
package account

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/state"
)

// A Book writes the journals of a store's jails. A journal that cannot be written prevents neither
// create nor delete: it is logged, once per boot and reason.
type Book struct {
	Store state.Store
	Log   *logrus.Logger
	// Step begins a step of the trace, and returns the function that ends it.
	Step func(name string) (done func())
	// ExitStatus returns the exit status of a container's first process, if a caller waited for it:
	// that of a shell, 128 and the signal's number if a signal ended the process. It may be nil.
	ExitStatus func(id string) (status uint32, known bool)
}

// pruneEvery is how many jails are made, on average, for each look at the journals of deleted
// jails. For a hundred journals a look takes a twentieth of the time of a create.
const pruneEvery = 64

// Choose records where a new jail's journal will be, by the policy. The error is a refusal by
// journal.required.
func (b Book) Choose(j *state.Brief, p policy.Journal) error {
	if !p.Enabled {
		return nil
	}
	dir, err := journal.Dir(p)
	if err != nil {
		return b.missing(p, err)
	}
	j.Journal, j.JournalSize = journal.NewPath(dir, j.Key, time.Now()), int64(p.Size)
	j.FullReceipt = p.Receipt == policy.ReceiptFull
	return nil
}

// missing is for a new jail whose journal cannot be made: it is logged, or by policy a refusal.
func (b Book) missing(p policy.Journal, err error) error {
	if !p.Required {
		b.unwritten(err)
		return nil
	}
	return &refusal.Error{
		Code: refusal.Journal, Of: "the jail", Why: fmt.Sprintf("policy requires a journal (journal.required), and it cannot be written: %v", err),
		Remedy: "make the directory of journal.dir writable, with free space",
	}
}

// unwritten logs a journal that could not be written.
func (b Book) unwritten(err error) {
	// The path of each is another.
	text := fmt.Sprint(err)
	if path, ok := errors.AsType[*os.PathError](err); ok {
		text = fmt.Sprintf("%s: %v", filepath.Dir(path.Path), path.Err)
	}
	if b.Store.OncePerBoot("journal: " + text) {
		b.Log.Warnf("agentjail: %v: jails run without it", err)
	}
}

// Note appends to a jail's journal.
func (b Book) Note(j *state.Brief, events ...journal.Event) {
	if j.Journal == "" || len(events) == 0 {
		return
	}
	defer b.Step("journal")()
	if err := journal.Of(j).Log().Append(events...); err != nil {
		b.unwritten(err)
	}
}

// Begin makes the jail's journal. It runs beside the delegate. identity is the jail's, and
// config is its hardened config.json. The error is a refusal by journal.required.
func (b Book) Begin(j *state.Jail, rep *report.Report, identity journal.Created, config []byte) error {
	if j.Journal == "" {
		return nil
	}
	defer b.Step("journal")()
	first := journal.Event{
		Kind: journal.JailCreate, Policy: j.Policy.Hash(), Value: journal.OwnIDs(&j.Brief),
		Target: filepath.Base(j.Delegate), Hash: journal.HashOf(config), Detail: identity,
	}
	if j.Process != nil {
		About(&first, j, j.Process)
	}
	events := append([]journal.Event{first}, Changed(rep.Changes)...)
	for _, v := range j.Reviews {
		events = append(events, journal.Event{
			Kind: journal.WorkspaceOpen, Path: v.At,
			Detail: journal.ViewOpened{View: v.ID, Directory: string(v.Source), Size: v.Size},
		})
	}
	if err := journal.Of(&j.Brief).Log().Begin(events...); err != nil {
		return b.missing(j.Policy.Journal, err)
	}
	if rand.N(pruneEvery) == 0 {
		_, _ = journal.Prune(b.Store, filepath.Dir(j.Journal), j.Policy.Journal) // `agentjail gc` reports it
	}
	return nil
}

// About records in an event what program is run, and as whom.
func About(e *journal.Event, j *state.Jail, p *specs.Process) {
	e.Argv, e.Cwd = p.Args, p.Cwd
	if uid, ok := j.IDs.HostUID(p.User.UID); ok {
		e.UID = &uid
	}
}

// Changed are the events of a report: what was denied and what is missing.
func Changed(changes []report.Change) []journal.Event {
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

// Refused records a jail that was not made.
func (b Book) Refused(j *state.Brief, kind journal.Kind, err error) {
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

// End records what the jail's groups and layer hold, before they are removed. ws is nil where
// its end was not waited for.
func (b Book) End(j *state.Brief, ws *syscall.WaitStatus) {
	if j.Journal == "" {
		return
	}
	done := b.Step("last look")
	read, ended := cgroups.Once(), !j.InitAlive()
	events := append(collect(b.Store, j, read).events(), journal.Counters(j.CgroupDirs, ended, read)...)
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
			b.statusOf(j, &e)
		case ws.Signaled():
			e.Status = ws.Signal().String()
		default:
			e.Status = fmt.Sprint(ws.ExitStatus())
		}
		events = append(events, e)
	}
	b.Note(j, events...)
	b.noteVanished(j)
	b.noteStale(j)
}

// Gone copies the files of the jail's directory that are read later, before the directory is
// removed, and ends the journal.
func (b Book) Gone(j *state.Brief) {
	if unix.Access(j.Journal, unix.F_OK) != nil {
		return // it has none, or it was never begun: the attempt failed, and reports it itself
	}
	events, err := journal.Keep(j.Journal, b.Store.Dir(j.Key))
	if err != nil {
		b.unwritten(err)
	}
	kind := journal.JailDelete
	if j.BootID != state.BootID() {
		kind = journal.JailReclaimed
	}
	b.Note(j, append(events, journal.Event{Kind: kind})...)
}
