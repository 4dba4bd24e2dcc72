package lostpaths

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/state"
)

// A watched jail. A poll of the table of mounts returns at each change of it
// (proc_pid_mountinfo(5)); no process of the jail can change it.
//
// In Linux 6.18 a poll does not return for some detached mounts while the mounts of
// other namespaces change: the table is read at intervals, too.
type watched struct {
	jail  *state.Jail
	table *os.File
	pidfd int
}

// watch begins to watch a jail; nil where there is nothing to watch.
func watch(j *state.Jail) (*watched, error) {
	if len(j.Protected) == 0 || j.InitPid == 0 {
		return nil, nil
	}
	pidfd, err := unix.PidfdOpen(j.InitPid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("watching the jail's protected paths: %w", err)
	}
	f, err := os.Open(table(j.MountsPid()))
	// The number may have become another process's before it was opened.
	if err != nil || !j.InitAlive() {
		unix.Close(pidfd)
		if err == nil {
			f.Close()
		}
		return nil, nil
	}
	return &watched{j, f, pidfd}, nil
}

func (w *watched) close() {
	w.table.Close()
	unix.Close(w.pidfd)
}

// look reports what is lost.
func (w *watched) look(s state.Store) error {
	text, err := io.ReadAll(io.NewSectionReader(w.table, 0, math.MaxInt64)) // pread(2)
	if err != nil {
		return err
	}
	mounts, err := mountinfo.Parse(string(text))
	if err != nil || !w.jail.InitAlive() {
		return err
	}
	_, err = Report(s, w.jail, In(w.jail.Protected, mounts))
	return err
}

// poll waits until a table has changed or a jail has ended; timeout is in
// milliseconds, -1 for none. changed and ended are by index.
func poll(list []*watched, timeout int) (changed, ended []int, err error) {
	fds := make([]unix.PollFd, 0, 2*len(list))
	for _, w := range list {
		fds = append(fds, unix.PollFd{Fd: int32(w.table.Fd()), Events: unix.POLLPRI},
			unix.PollFd{Fd: int32(w.pidfd), Events: unix.POLLIN})
	}
	if _, err := unix.Poll(fds, timeout); err != nil && !errors.Is(err, unix.EINTR) {
		return nil, nil, err
	}
	for i := range list {
		if fds[2*i+1].Revents != 0 {
			ended = append(ended, i)
		} else if fds[2*i].Revents != 0 {
			changed = append(changed, i)
		}
	}
	return changed, ended, nil
}

// Watch reports what one jail loses, until the jail ends.
func Watch(s state.Store, j *state.Jail) error {
	w, err := watch(j)
	if w == nil {
		return err
	}
	defer w.close()
	list := []*watched{w}
	for {
		if err := w.look(s); err != nil {
			return err
		}
		if _, ended, err := poll(list, int(unwoken.Milliseconds())); err != nil || len(ended) > 0 {
			return err
		}
	}
}

// unwoken is how often a table is read without a change: each time takes some 100
// microseconds.
const unwoken = 5 * time.Second

// every is how often All looks for jails that have come.
const every = time.Second

// All reports what any jail of a store loses, until ctx ends.
func All(ctx context.Context, s state.Store, report func(error)) {
	known := map[string]uint64{} // keys, and the number of the record's directory: another jail's is another
	var list []*watched
	defer func() {
		for _, w := range list {
			w.close()
		}
	}()
	for last := time.Now(); ctx.Err() == nil; {
		list = append(list, arrived(s, known, report)...)
		changed, ended, err := poll(list, int(every.Milliseconds()))
		if err != nil {
			report(err)
			return
		}
		if time.Since(last) >= unwoken {
			last, changed = time.Now(), changed[:0]
			for i := range list {
				changed = append(changed, i)
			}
		}
		for _, i := range changed {
			if err := list[i].look(s); err != nil {
				report(err)
			}
		}
		for _, i := range slices.Backward(ended) {
			list[i].close()
			list = slices.Delete(list, i, i+1)
		}
	}
}

// arrived begins to watch the jails that are not known yet.
func arrived(s state.Store, known map[string]uint64, report func(error)) (out []*watched) {
	keys, err := s.Keys()
	if err != nil {
		return nil // before the first jail there are none
	}
	there := make(map[string]bool, len(keys))
	for _, key := range keys {
		there[key] = true
		var st unix.Stat_t
		if unix.Lstat(s.Dir(key), &st) != nil || known[key] == st.Ino {
			continue
		}
		j, err := s.Load(key)
		if err != nil || j.InitPid == 0 {
			continue // it is being made, or gone again
		}
		known[key] = st.Ino
		w, err := watch(j)
		if err != nil {
			report(err)
		}
		if w == nil {
			continue
		}
		if err := w.look(s); err != nil {
			report(err)
		}
		out = append(out, w)
	}
	for key := range known {
		if !there[key] {
			delete(known, key)
		}
	}
	return out
}
