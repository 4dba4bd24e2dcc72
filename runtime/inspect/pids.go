package inspect

import (
	"fmt"

	"agentjail.dev/runtime/kernel/procstatus"
	"agentjail.dev/runtime/state"
)

// Pids lists the processes of a running jail, the first one first: those in its
// mount namespace, which no process in the jail can leave. Errors: ErrNotRunning
// or that it waits for start, and a /proc that cannot be read.
func Pids(s state.Store, j *state.Jail) ([]int, error) {
	if err := running(s, j); err != nil {
		return nil, err
	}
	first, err := openProc(j.InitPid)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", j.ID, err)
	}
	defer first.close()
	want, err := first.inode("mnt")
	if err != nil || !j.InitAlive() {
		return nil, fmt.Errorf("%s: %w: it ended while it was looked at", j.ID, ErrNotRunning)
	}
	pids, err := procstatus.Pids()
	if err != nil {
		return nil, err
	}
	out := []int{j.InitPid}
	for _, pid := range pids {
		if pid == j.InitPid {
			continue
		}
		p, err := openProc(pid)
		if err != nil {
			continue // it has ended
		}
		if mnt, err := p.inode("mnt"); err == nil && mnt == want {
			out = append(out, pid)
		}
		p.close()
	}
	return out, nil
}
