package ebpf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"agentjail.dev/runtime/observe/ebpf/jailmap"
)

// Event is what a program reports: struct event of src/programs.c. Program and Text are the jail's
// to choose.
type Event struct {
	// Time is since boot, in nanoseconds.
	Time uint64
	// Jail is the first host id of the jail's, shifted by 32, or the number of its user namespace
	// where the ids are not the pool's.
	Jail    uint64
	Hook    Hook
	Pid     uint32
	UID     uint32
	Refused bool
	// Result and Number are of a system call.
	Result int32
	Number uint32
	Args   [6]uint64
	// Mounts is the number of the process's mount namespace, 0 where that is not known.
	Mounts uint32
	// Parent is the parent's process id.
	Parent  uint32
	Program string
	Text    string
	// Started is of a program that is executed, and empty of all else.
	Started Started
}

// Started is a program that is executed: struct exec_event of src/programs.c. All of it is the
// jail's to choose.
type Started struct {
	// Parent is the parent's program.
	Parent string
	// Argv are the arguments, each with a zero byte at its end, and ArgvSize is how many bytes they
	// had: what is more than 512 is not here. Of a program that only may be executed there are
	// none.
	Argv     string
	ArgvSize uint32
	// Cwd is the working directory as the process sees it, "" where that is not known. One that was
	// too deep begins with "…/".
	Cwd string
}

// Size of an event, in bytes, and ExecSize of that of a program that is executed.
const (
	Size     = 8 + 8 + 4*4 + 4 + 4 + 6*8 + 4 + 4 + commSize + textSize
	ExecSize = Size + commSize + 4*4 + argvSize + cwdSize
)

const (
	commSize = 16
	textSize = 64
	argvSize = 512
	cwdSize  = 512
)

// cwdCut reports that the root was not reached.
const cwdCut = 1

// sizeOf is how many bytes an event of a hook has.
func sizeOf(h Hook) int {
	if h == Exec {
		return ExecSize
	}
	return Size
}

// hookOf is the hook of an event that has at least the first bytes of one.
func hookOf(b []byte) Hook { return Hook(binary.LittleEndian.Uint32(b[hookAt:])) }

// hookAt is where an event has its hook.
const hookAt = 16

// Parse reads an event. It trusts nothing in it: what it is read from is shared with processes that
// can fail.
func Parse(b []byte) (e Event, err error) {
	if len(b) < Size || len(b) != sizeOf(hookOf(b)) {
		return e, fmt.Errorf("an event of %d bytes", len(b))
	}
	le := binary.LittleEndian
	e.Time, e.Jail = le.Uint64(b), le.Uint64(b[8:])
	e.Hook, e.Pid, e.UID, e.Refused = Hook(le.Uint32(b[16:])), le.Uint32(b[20:]), le.Uint32(b[24:]), le.Uint32(b[28:]) != 0
	e.Result, e.Number = int32(le.Uint32(b[32:])), le.Uint32(b[36:])
	for i := range e.Args {
		e.Args[i] = le.Uint64(b[40+8*i:])
	}
	e.Mounts, e.Parent = le.Uint32(b[88:]), le.Uint32(b[92:])
	e.Program, e.Text = cString(b[96:96+commSize]), cString(b[96+commSize:Size])
	if e.Hook >= hooks {
		return e, fmt.Errorf("an event of hook %d, and there are %d", e.Hook, hooks)
	}
	if e.Result > 0 || e.Result < -4095 {
		return e, fmt.Errorf("an event with the result %d, which is no error", e.Result)
	}
	if e.Hook == Exec {
		e.Started = parseStarted(b[Size:])
	}
	return e, nil
}

// parseStarted reads what an event of a program that is executed has more.
func parseStarted(b []byte) (s Started) {
	le := binary.LittleEndian
	s.Parent, b = cString(b[:commSize]), b[commSize:]
	argv, cwd, flags := le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:])
	b = b[4*4:]
	s.Argv, s.ArgvSize = string(b[:min(argv, argvSize)]), argv
	s.Cwd = directory(b[argvSize:][:min(cwd, cwdSize)], flags&cwdCut != 0)
	return s
}

// directory is the path of names that the kernel has from the last one to the first.
func directory(names []byte, cut bool) string {
	if len(names) == 0 {
		if cut {
			return "" // nothing could be read
		}
		return "/"
	}
	all := strings.Split(strings.TrimSuffix(string(names), "\x00"), "\x00")
	slices.Reverse(all)
	path := strings.Join(all, "/")
	if cut {
		return "…/" + path
	}
	return "/" + path
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

// Register has the programs recognise the jails of user namespaces that they would not know, and
// refuse what their policies block.
func (s *Set) Register(spaces []jailmap.Space) error {
	for i := range spaces {
		if err := s.maps[jailmap.MapName].Put(spaces[i].Number, spaces[i].Value()); err != nil {
			return fmt.Errorf("registering a jail: %w", err)
		}
	}
	return nil
}
