// Command preflight reports, within half a minute, a kernel that can no longer run tests: one on
// which an earlier run left threads stuck. It is silent where all is well. Tests on such a kernel
// do not fail, they hang.
//
// Known reason: freeing the seccomp filters of thousands of threads at once can deadlock Linux 6.9
// and later. Each freed filter is a work item of the system workqueue that waits for pack_mutex
// (kernel/bpf/core.c), whose holder flushes work items of the same full queue (mm/vmalloc.c). From
// then on no process of that machine can load a filter, and only a restart helps.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	// most is how long a probe may take. Each takes milliseconds on a kernel that works.
	most = 15 * time.Second
	// stuckWorkers is how many kernel workers in uninterruptible sleep, all through the
	// observation, are too many. A busy disk has a few.
	stuckWorkers = 32
	// observed is for how long they are observed.
	observed = 2 * time.Second
)

func main() {
	if len(os.Args) == 2 {
		if p, ok := probes[os.Args[1]]; ok {
			if err := p(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	if len(os.Args) > 1 {
		fmt.Fprintln(os.Stderr, "preflight takes no arguments")
		os.Exit(2)
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "preflight:", err)
		os.Exit(2)
	}
	found := findings(self, most)
	if len(found) == 0 {
		return
	}
	fmt.Fprintln(os.Stderr, "preflight: this kernel is stuck: restart the machine. Tests would hang, not fail.")
	for _, f := range found {
		fmt.Fprintln(os.Stderr, "  "+f)
	}
	os.Exit(1)
}

// findings runs all probes at once, and reports what is stuck.
func findings(self string, limit time.Duration) []string {
	answers := make(chan string)
	n := 0
	for name := range probes {
		n++
		go func() { answers <- attempt(name, limit, self, name) }()
	}
	n++
	go func() { answers <- workers("/proc", observed) }()
	var out []string
	for range n {
		if a := <-answers; a != "" {
			out = append(out, a)
		}
	}
	return out
}

// attempt runs a probe as a process of its own. One that does not end in time is stuck in the
// kernel: it is neither waited for nor counted on to be killed. A probe that fails has an answer,
// which is not what this program is about: agentjail check reports that.
func attempt(name string, limit time.Duration, program string, args ...string) string {
	cmd := exec.Command(program, args...)
	cmd.Stderr = nil
	if err := cmd.Start(); err != nil {
		return fmt.Sprintf("%s: the probe cannot be started: %v", name, err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	select {
	case <-ended:
		return ""
	case <-ctx.Done():
		_ = cmd.Process.Kill()
		return fmt.Sprintf("%s: no answer in %v (process %d is %s)", name, limit, cmd.Process.Pid, stateOf("/proc", fmt.Sprint(cmd.Process.Pid)))
	}
}

// workers reports kernel workers that are in uninterruptible sleep at the beginning and at the end
// of the observation.
func workers(proc string, observed time.Duration) string {
	before, err := sleeping(proc)
	if err != nil {
		return "kernel workers: " + err.Error()
	}
	if len(before) < stuckWorkers {
		return ""
	}
	time.Sleep(observed)
	after, err := sleeping(proc)
	if err != nil {
		return "kernel workers: " + err.Error()
	}
	n := 0
	for pid, switches := range before {
		if now, still := after[pid]; still && now == switches {
			n++
		}
	}
	if n < stuckWorkers {
		return ""
	}
	return fmt.Sprintf("kernel workers: %d have been in uninterruptible sleep for %v without running", n, observed)
}

// sleeping maps the kernel workers in state D (proc_pid_stat(5)) to how often they were switched,
// which stays the same for those that do not run in between.
func sleeping(proc string) (map[string]string, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string)
	for _, e := range entries {
		if pid := e.Name(); pid[0] >= '1' && pid[0] <= '9' && isWorker(proc, pid) && stateOf(proc, pid) == "D" {
			out[pid] = switchesOf(proc, pid)
		}
	}
	return out, nil
}

func isWorker(proc, pid string) bool {
	comm, err := os.ReadFile(proc + "/" + pid + "/comm")
	return err == nil && strings.HasPrefix(string(comm), "kworker/")
}

// stateOf is the letter of a process' state, "gone" when it has ended.
func stateOf(proc, pid string) string {
	text, err := os.ReadFile(proc + "/" + pid + "/stat")
	if errors.Is(err, os.ErrNotExist) {
		return "gone"
	}
	// The name may hold anything, so fields count from its closing parenthesis.
	end := bytes.LastIndex(text, []byte(") "))
	if err != nil || end < 0 || len(text) < end+3 {
		return "unknown"
	}
	return string(text[end+2])
}

// switchesOf is the process' count of context switches, of both kinds (proc_pid_status(5)).
func switchesOf(proc, pid string) string {
	text, err := os.ReadFile(proc + "/" + pid + "/status")
	if err != nil {
		return ""
	}
	_, counts, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
	return counts
}
