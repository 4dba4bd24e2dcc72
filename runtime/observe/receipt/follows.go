package receipt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"agentjail.dev/runtime/observe/journal"
)

// Follows reports why an earlier receipt does not follow from a journal: the journal has to have
// the line whose hash the receipt names, and what follows of the jail from the lines up to it must
// be what the receipt has. Compared is what comes from the chain alone: identity, rings, exit and
// teardown. path is the journal's, which has to verify by itself.
func (r *Receipt) Follows(path string) error {
	found, err := journal.Verify(path)
	if err != nil {
		return err
	}
	if !found.Whole() {
		return errors.New("the journal's chain is broken: " + found.Problems[0])
	}
	events, err := journal.Read(path)
	if err != nil {
		return err
	}
	if r.Journal.Last != found.Head {
		at := slices.IndexFunc(events, func(e journal.Event) bool { return e.Prev != "" && e.Prev == r.Journal.Last })
		if at < 0 {
			return fmt.Errorf("the journal has no line with the hash %q: it is another's, or was written anew, or rotation has dropped that line", r.Journal.Last)
		}
		events = events[:at]
	}
	again := of(events, Now{Time: r.Made})
	for _, part := range []struct {
		name      string
		has, true any
	}{
		{"identity", r.Identity.named(), again.Identity.named()},
		{"beginning", r.Began.UTC().Format(time.RFC3339Nano), again.Began.UTC().Format(time.RFC3339Nano)},
		{"rings", r.Rings, again.Rings},
		{"exit", r.Exit.journaled(), again.Exit},
		{"teardown", r.Teardown, again.Teardown},
	} {
		has, err1 := json.Marshal(part.has)
		is, err2 := json.Marshal(part.true)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if !bytes.Equal(has, is) {
			return fmt.Errorf("its %s is not the journal's: %s, and there %s", part.name, has, is)
		}
	}
	return nil
}

// journaled is the exit as the journal has it.
func (e Exit) journaled() Exit {
	e.Engine = nil
	return e
}

// named is the identity as the journal has it: Run is the file's name.
func (i Identity) named() Identity {
	i.Run = ""
	return i
}
