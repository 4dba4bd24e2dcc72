package journal

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Full returns an event of its kind of limit if the jail's file system at path is full. It sees the
// moment: the kernel does not count how often writing failed.
func Full(path string) []Event {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil || st.Blocks == 0 {
		return nil
	}
	now := At(time.Now())
	var out []Event
	if st.Bavail == 0 {
		out = append(out, Event{
			Kind: LimitLayer, Time: now, Value: fmt.Sprint((st.Blocks - st.Bfree) * uint64(st.Bsize)),
			Limit: fmt.Sprint(st.Blocks * uint64(st.Bsize)),
		})
	}
	if st.Files != 0 && st.Ffree == 0 {
		out = append(out, Event{Kind: LimitInodes, Time: now, Value: fmt.Sprint(st.Files), Limit: fmt.Sprint(st.Files)})
	}
	return out
}
