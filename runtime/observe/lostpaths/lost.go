// Package lostpaths detects when a host program removes the protection of a path
// from a running jail. Removing or replacing a file on which another mount
// namespace has a mount detaches that mount (mount_namespaces(7); __detach_mounts
// in the kernel's fs/namespace.c). Then the jail can write to the path.
package lostpaths

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/state"
)

// A Loss is a protected path whose protection does not hold.
type Loss struct {
	Path string // the jail's
	Why  string
}

// String is the loss as a sentence.
func (l Loss) String() string { return l.Path + " " + l.Why }

// In compares a jail's protected paths with its mounts.
func In(protected []string, mounts []mountinfo.Mount) (out []Loss) {
	top := make(map[string]*mountinfo.Mount, len(mounts))
	for i := range mounts {
		top[path.Clean(mounts[i].Point)] = &mounts[i] // the last one shows
	}
	for _, p := range protected {
		switch m := top[path.Clean(p)]; {
		case m == nil:
			out = append(out, Loss{p, "is not mounted any more"})
		case !m.ReadOnly():
			out = append(out, Loss{p, "can be written to"})
		}
	}
	return out
}

// Now looks at a running jail.
func Now(j *state.Jail) ([]Loss, error) {
	if len(j.Protected) == 0 || !j.InitAlive() {
		return nil, nil
	}
	mounts, err := mountinfo.Of(j.MountsPid())
	if err != nil {
		return nil, fmt.Errorf("the jail's mounts: %w", err)
	}
	if !j.InitAlive() {
		return nil, nil
	}
	return In(j.Protected, mounts), nil
}

func table(pid int) string { return filepath.Join("/proc", strconv.Itoa(pid), "mountinfo") }

// maxNamed bounds the alerts of one look.
const maxNamed = 64

// Report appends an alert of each loss to the jail's journal, once, and pauses the
// jail if its policy requires that. It returns the losses that were not reported
// before.
func Report(s state.Store, j *state.Jail, losses []Loss) (fresh []Loss, err error) {
	for _, l := range losses[:min(len(losses), maxNamed)] {
		if First(s, j.Key, l.Path) {
			fresh = append(fresh, l)
		}
	}
	if len(fresh) == 0 {
		return nil, nil
	}
	pauses := j.Policy.Binds.Lost == policy.LostPause
	if pauses {
		err = pause(j.InitPid)
	}
	return fresh, errors.Join(err, Note(&j.Brief, fresh, pauses && err == nil))
}

// Note appends the alerts to a jail's journal.
func Note(j *state.Brief, fresh []Loss, paused bool) error {
	if j.Journal == "" || len(fresh) == 0 {
		return nil
	}
	var events []journal.Event
	for _, l := range fresh {
		e := journal.Event{Kind: journal.ProtectionLost, Path: l.Path, Reason: l.Why + ": a program of the host's removed or replaced what is there"}
		if paused {
			e.Reason += "; the jail was paused (binds.lost)"
		}
		events = append(events, e)
	}
	return journal.Of(j).Log().Append(events...)
}

// First reports whether this call is the first for a jail's path: several processes
// may see one loss.
func First(s state.Store, key, at string) bool {
	h := fnv.New64a()
	h.Write([]byte(path.Clean(at)))
	fd, err := unix.Open(filepath.Join(s.Dir(key), fmt.Sprintf("lost-%016x", h.Sum64())),
		unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

// pause freezes the group of the jail's first process (cgroups(7), freezer;
// Documentation/admin-guide/cgroup-v2.rst, cgroup.freeze), as `runc pause` does.
func pause(pid int) error {
	dirs, err := journal.Groups(pid)
	if err != nil {
		return fmt.Errorf("pausing the jail: %w", err)
	}
	for _, dir := range dirs {
		for file, word := range map[string]string{"freezer.state": "FROZEN", "cgroup.freeze": "1"} {
			if !cgroups.CanHave(dir, file) {
				continue
			}
			err := os.WriteFile(filepath.Join(dir, file), []byte(word), 0)
			if err == nil {
				return nil
			}
			if !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("pausing the jail: %w", err)
			}
		}
	}
	return errors.New("pausing the jail: its control groups have no freezer")
}
