package env

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"agentjail.dev/runtime/kernel/procstatus"
)

// A PID is a process's number, which engines print.
type PID interface{ int | string }

// ProcFile returns what is in a file of a process in /proc.
func ProcFile[P PID](t testing.TB, pid P, name string) string {
	t.Helper()
	return string(Read(t, fmt.Sprintf("/proc/%v/%s", pid, name)))
}

// ProcLink returns where a link of a process in /proc leads.
func ProcLink[P PID](t testing.TB, pid P, name string) string {
	t.Helper()
	to, err := os.Readlink(fmt.Sprintf("/proc/%v/%s", pid, name))
	Check(t, err)
	return to
}

// Status returns a field of a process's status, such as CapEff; "" where this kernel has none of that name.
func Status[P PID](t testing.TB, pid P, field string) string {
	t.Helper()
	return procstatus.Status(ProcFile(t, pid, "status")).Field(field)
}

// Memory returns what a process has in memory, in KiB by the names of proc_pid_smaps(5).
func Memory(pid int) (map[string]int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return nil, err
	}
	all := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[2] == "kB" {
			all[strings.TrimSuffix(f[0], ":")], _ = strconv.Atoi(f[1])
		}
	}
	if all["Rss"] == 0 {
		return nil, fmt.Errorf("process %d has no memory: %q", pid, text)
	}
	return all, nil
}

// Private returns how much of Memory no other process has.
func Private(m map[string]int) int {
	return m["Private_Clean"] + m["Private_Dirty"] + m["Private_Hugetlb"]
}

// Arguments returns a process's arguments, nil for one that has ended.
func Arguments(pid int) []string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if len(text) == 0 {
		return nil
	}
	return strings.Split(string(bytes.TrimSuffix(text, []byte{0})), "\x00")
}

// CommandLine returns a process's arguments with spaces between, "" for one that has ended.
func CommandLine(pid int) string { return strings.Join(Arguments(pid), " ") }

// Parent returns a process's parent, 0 for one that has ended.
func Parent(pid int) int {
	f, err := procstatus.Stat(pid)
	if err != nil {
		return 0
	}
	parent, _ := strconv.Atoi(f[1])
	return parent
}

// Children returns a process's children (proc_pid_task_tid_children(5): each thread has its own).
func Children(pid int) (all []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, l := range lists {
		text, _ := os.ReadFile(l)
		for f := range strings.FieldsSeq(string(text)) {
			if n, err := strconv.Atoi(f); err == nil && n > 0 { // 0 is one of another PID namespace
				all = append(all, n)
			}
		}
	}
	return all
}

// ChildrenNamed returns a process's children that have a word as the argument at an index.
func ChildrenNamed(pid, index int, word string) []int {
	return slices.DeleteFunc(Children(pid), func(c int) bool {
		args := Arguments(c)
		return len(args) <= index || args[index] != word
	})
}

// Processes returns the processes that this one sees and for which holds is true.
func Processes(holds func(pid int) bool) []int {
	all, _ := procstatus.Pids()
	return slices.DeleteFunc(all, func(pid int) bool { return !holds(pid) })
}
