// Package oomscore reads and sets which processes the kernel kills first when
// the host's memory runs out (proc_pid_oom_score_adj(5)).
//
// A jail can hold kernel memory that no control group counts, such as records of locks and queues
// of netlink sockets, and its own memory stays small meanwhile. So the killer's sum of pages does
// not show which process took the memory, and the jail's processes get a score with which they die
// before the host's.
package oomscore

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

// Jail is the least score of a jail's processes. 1000 is the most that there is.
// It adds nine tenths of the host's memory to what the process itself uses
// (mm/oom_kill.c, oom_badness).
const Jail = 900

func file(process string) string { return "/proc/" + process + "/oom_score_adj" }

func read(process string) (int, error) {
	text, err := os.ReadFile(file(process))
	if err != nil {
		return 0, fmt.Errorf("reading the OOM score: %w", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", file(process), err)
	}
	return n, nil
}

func write(process string, score int) error {
	f, err := os.OpenFile(file(process), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("setting the OOM score: %w", err)
	}
	defer f.Close()
	if _, err := f.WriteString(strconv.Itoa(score)); err != nil {
		return fmt.Errorf("setting the OOM score to %d: %w", score, err)
	}
	return nil
}

// Raise sets a process's score to at least this value. Where the writer has CAP_SYS_RESOURCE, the
// kernel also takes the value for the least that the process may set by itself (fs/proc/base.c,
// __set_oom_adj): a score that is high enough is therefore written again.
func Raise(pid, score int) error {
	process := strconv.Itoa(pid)
	have, err := read(process)
	if err != nil {
		return err
	}
	return write(process, max(have, score))
}

// inherit keeps two callers of Inherit apart: the second would take the first
// one's score for that of this process.
var inherit sync.Mutex

// Inherit runs start, whose child processes get at least this score from this process. Afterwards
// this process has its own again: the kernel allows any process to go back to what a privileged
// process has set, and this one was there before.
func Inherit(score int, start func() error) error {
	inherit.Lock()
	defer inherit.Unlock()
	have, err := read("self")
	if err != nil {
		return err
	}
	if have >= score {
		return start()
	}
	if err := write("self", score); err != nil {
		return err
	}
	err = start()
	if back := write("self", have); back != nil && err == nil {
		err = back
	}
	return err
}
