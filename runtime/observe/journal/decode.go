package journal

import (
	"encoding/json"
	"errors"
)

// decode decodes a line of a journal. A line with a number that is no event of this version is of
// the kind JournalUnknown; ok is false for one without. Host programs wrote it, but a disk, another
// version or an editor can have changed it.
func decode(line []byte) (e Event, ok bool) {
	err := json.Unmarshal(line, &e)
	if err == nil && e.Kind == 0 {
		err = errors.New("it has no kind")
	}
	if err == nil {
		return e, e.Seq > 0
	}
	var head struct {
		Seq  uint64 `json:"seq"`
		Time string `json:"time"`
		Jail string `json:"jail"`
		Key  string `json:"key"`
		Prev string `json:"prev"`
	}
	if json.Unmarshal(line, &head) != nil || head.Seq == 0 {
		return Event{}, false
	}
	e = Event{
		Seq: head.Seq, Time: head.Time, Jail: head.Jail, Key: head.Key, Kind: JournalUnknown, Prev: head.Prev,
		Reason: "it cannot be decoded: " + err.Error(),
	}
	if err := e.Complete(); err != nil {
		return Event{}, false
	}
	return e, true
}
