package ebpf

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"agentjail.dev/runtime/ebpf/registry"
)

// Event is what a program reports: struct event of src/programs.c. Program and Text are the jail's to choose.
type Event struct {
	// Time is since boot, in nanoseconds.
	Time uint64
	// Jail is the first host id of the jail's, shifted by 32, or the number of its user namespace where the ids are not the pool's.
	Jail    uint64
	Hook    Hook
	Pid     uint32
	UID     uint32
	Refused bool
	// Result and Number are of a system call.
	Result  int32
	Number  uint32
	Args    [6]uint64
	Program string
	Text    string
}

// Size of an event, in bytes.
const Size = 8 + 8 + 4*4 + 4 + 4 + 6*8 + commSize + textSize

const (
	commSize = 16
	textSize = 64
)

// Parse reads an event. It trusts nothing in it: what it is read from is shared with processes that can fail.
func Parse(b []byte) (e Event, err error) {
	if len(b) != Size {
		return e, fmt.Errorf("an event of %d bytes, not %d", len(b), Size)
	}
	le := binary.LittleEndian
	e.Time, e.Jail = le.Uint64(b), le.Uint64(b[8:])
	e.Hook, e.Pid, e.UID, e.Refused = Hook(le.Uint32(b[16:])), le.Uint32(b[20:]), le.Uint32(b[24:]), le.Uint32(b[28:]) != 0
	e.Result, e.Number = int32(le.Uint32(b[32:])), le.Uint32(b[36:])
	for i := range e.Args {
		e.Args[i] = le.Uint64(b[40+8*i:])
	}
	e.Program, e.Text = cString(b[88:88+commSize]), cString(b[88+commSize:])
	if e.Hook >= hooks {
		return e, fmt.Errorf("an event of hook %d, and there are %d", e.Hook, hooks)
	}
	if e.Result > 0 || e.Result < -4095 {
		return e, fmt.Errorf("an event with the result %d, which is no error", e.Result)
	}
	return e, nil
}

func cString(b []byte) string {
	text, _, _ := bytes.Cut(b, []byte{0})
	return string(text)
}

// Counts are what a jail's events came to since the programs were loaded.
type Counts struct {
	Jail                         uint64
	Refused, Seen, Dropped, Lost uint64
}

// jailEntry is struct jail of src/programs.c.
type jailEntry struct {
	Second                       uint64
	Count                        [2]uint32
	Refused, Seen, Dropped, Lost uint64
}

// maxJails is the size of the map.
const maxJails = 8192

// Counts reads what was counted, jail by jail.
func (s *Set) Counts() []Counts {
	var out []Counts
	var key uint64
	var j jailEntry
	for it := s.maps["jails"].Iterate(); len(out) < maxJails && it.Next(&key, &j); {
		out = append(out, Counts{Jail: key, Refused: j.Refused, Seen: j.Seen, Dropped: j.Dropped, Lost: j.Lost})
	}
	return out
}

// Forget drops what was counted of a jail that is gone.
func (s *Set) Forget(jail uint64) { _ = s.maps["jails"].Delete(jail) }

// Register has the programs recognise the jails of user namespaces that they would not know, and refuse what their policies block.
func (s *Set) Register(spaces []registry.Space) error {
	for i := range spaces {
		if err := s.maps[registry.MapName].Put(spaces[i].Number, spaces[i].Value()); err != nil {
			return fmt.Errorf("registering a jail: %w", err)
		}
	}
	return nil
}
