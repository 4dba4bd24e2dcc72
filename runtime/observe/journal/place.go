package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/state/reference"
)

// DefaultDir is where the journals of root's jails live.
const DefaultDir = "/var/log/agentjail"

// Dir is where journals live by a policy: its journal.dir, else DefaultDir for root of the machine
// and the user's own state directory (XDG_STATE_HOME) for others. It outlives the jails, and boots.
func Dir(p policy.Journal) (string, error) {
	if p.Dir != "" {
		return p.Dir, nil
	}
	if os.Geteuid() == 0 && !rootless.Inside() {
		return DefaultDir, nil
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "agentjail", "journal"), nil
	}
	home := os.Getenv("HOME")
	if !filepath.IsAbs(home) {
		return "", errors.New("neither XDG_STATE_HOME nor HOME names a place for journals (remedy: policy: journal.dir)")
	}
	return filepath.Join(home, ".local", "state", "agentjail", "journal"), nil
}

// suffix ends the name of a journal's newest file, and firstSuffix and formerSuffix those of its
// other files.
const (
	suffix       = ".jsonl"
	firstSuffix  = ".first.jsonl"
	formerSuffix = ".former.jsonl"
)

// born is the time at which a jail was made in a file's name: a later jail with the same id has a
// journal of its own.
const born = "20060102T150405.000000"

// NewPath is the path of a new jail's journal.
func NewPath(dir, key string, now time.Time) string {
	return filepath.Join(dir, key+"@"+now.UTC().Format(born)+suffix)
}

// A Place is where jails and their journals are.
type Place struct {
	Store state.Store
	Dir   string
	// Invoker, if not 0, is the user on whose behalf root looks: jails of other users are left out,
	// and those that root made itself without an engine.
	Invoker uint32
}

// Here is the place of this process's user, by the policy at path.
func Here(path, profile string) (Place, error) {
	store, err := state.Default()
	if err != nil {
		return Place{}, err
	}
	p, err := policy.Load(path, profile)
	if err != nil {
		// A broken file must not keep anyone from looking.
		p = policy.Default()
	}
	dir, err := Dir(p.Journal)
	return Place{Store: store, Dir: dir}, err
}

// A Jail is one jail with its journal.
type Jail struct {
	ID, Key string
	// Path is the journal's newest file; "" for a jail that has none.
	Path string
	// Born is when the jail was made.
	Born time.Time
	// Brief is nil for a jail that was deleted.
	Brief *state.Brief
}

// Log is the jail's journal for appending.
func (j *Jail) Log() *Log {
	l := &Log{Path: j.Path, Jail: j.ID, Key: j.Key}
	if j.Brief != nil {
		l.Max = j.Brief.JournalSize
	}
	return l
}

// ErrNone means that a jail has no journal.
var ErrNone = errors.New("the jail has no journal (policy: journal.enabled)")

// Of is the jail of a record.
func Of(b *state.Brief) *Jail {
	j := &Jail{ID: b.ID, Key: b.Key, Path: b.Journal, Brief: b}
	if _, t, ok := parseName(filepath.Base(b.Journal)); ok {
		j.Born = t
	}
	return j
}

// shows reports whether a jail is the invoker's, or an engine's, which is no user's. The bundle of
// a sandbox is in the store.
func (p Place) shows(j *Jail) bool {
	by, bundle := uint32(0), ""
	if j.Brief != nil {
		by, bundle = j.Brief.Invoker, j.Brief.Bundle
	} else {
		c := j.created()
		by, bundle = c.Invoker, c.Bundle
	}
	return by == p.Invoker || by == 0 && bundle != "" && bundle != p.Store.Dir(j.Key)
}

// OwnIDs are the host ids that a jail has for itself, as FIRST:COUNT, or "" where they are an
// engine's choice. They are the Value of jail.create, by which what the kernel reports of a process
// is known to be this jail's.
func OwnIDs(b *state.Brief) string {
	uid, ok := b.IDs.HostUID(1)
	if b.IDs.Given || !ok {
		return ""
	}
	return fmt.Sprintf("%d:%d", uid&^(idmap.RangeSize-1), idmap.RangeSize)
}

// parseName takes the name of a journal's newest file apart.
func parseName(name string) (key string, at time.Time, ok bool) {
	name, ok = strings.CutSuffix(name, suffix)
	if !ok || strings.HasSuffix(name, ".first") || strings.HasSuffix(name, ".former") {
		return "", at, false
	}
	key, text, ok := strings.Cut(name, "@")
	if !ok {
		return "", at, false
	}
	at, err := time.Parse(born, text)
	return key, at, err == nil
}

// Jails lists all jails of the place: those that exist, and those of which there is a journal
// still, the newest first.
func (p Place) Jails() ([]*Jail, error) {
	var out []*Jail
	known := map[string]bool{}
	keys, err := p.Store.Keys()
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		if b, err := p.Store.Brief(k); err == nil {
			out = append(out, Of(b))
			known[b.Journal] = true
		}
	}
	entries, err := os.ReadDir(p.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return out, fmt.Errorf("the journals: %w", err)
	}
	for _, e := range entries {
		key, at, ok := parseName(e.Name())
		path := filepath.Join(p.Dir, e.Name())
		if !ok || known[path] {
			continue
		}
		_, id, _ := strings.Cut(key, "-")
		out = append(out, &Jail{ID: id, Key: key, Path: path, Born: at})
	}
	if p.Invoker != 0 {
		out = slices.DeleteFunc(out, func(j *Jail) bool { return !p.shows(j) })
	}
	slices.SortStableFunc(out, func(a, b *Jail) int { return b.Born.Compare(a.Born) })
	return out, nil
}

// Open finds a jail, existing or deleted, by its id, its key, its name with the engine or the
// beginning of its id (reference.Find). Of several ended jails with one id or name the last one
// counts. "ID@TIME", as `agentjail journal` lists them and a receipt names its run, is one of
// several jails with the same id.
func (p Place) Open(id string) (*Jail, error) {
	jails, err := p.Jails()
	if err != nil && len(jails) == 0 {
		return nil, err
	}
	if name, text, ok := strings.Cut(id, "@"); ok {
		for _, j := range jails {
			if (j.ID == name || j.Key == name) && (j.Born.Format(born) == text || At(j.Born) == text) {
				return j, nil
			}
		}
		return nil, fmt.Errorf("%q: %w, and there is no journal of it (remedy: agentjail journal lists each ID@TIME)", id,
			state.ErrNotFound)
	}
	named := make([]reference.Named, len(jails))
	for i, j := range jails {
		names := func() []string { return []string{j.Key, j.Called()} }
		named[i] = reference.Named{ID: j.ID, Show: j.Name(), Runs: j.Brief != nil, Names: names}
	}
	at, err := reference.Find(id, named, true)
	switch {
	case err != nil:
		return nil, err
	case at < 0:
		return nil, fmt.Errorf("%q: %w, and there is no journal of it (remedy: agentjail ls lists all; what a policy with passthrough made is no jail)",
			id, state.ErrNotFound)
	}
	return jails[at], nil
}

// Name distinguishes a jail from others with the same id: ID@TIME.
func (j *Jail) Name() string { return j.ID + "@" + j.Born.Format(born) }
