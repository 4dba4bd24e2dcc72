package inspect

import (
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/fork"
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/observe/ebpf/jailmap"
)

// userNS is what was seen of the jail's user namespace.
type userNS struct {
	// owner is the host's user who made it, and for whom counts there what its
	// members take.
	owner uint32
	// limits on the namespaces in it, by the file's name in /proc/sys/user.
	limits map[string]string
	// fixed reports that no process can set limits here: /proc/sys is mounted read-only.
	fixed bool
}

// lookUserNS requests the owner (ioctl_nsfs(2), NS_GET_OWNER_UID) and the limits.
// The host's own, where the jail should have another, is not entered.
func (s *seen) lookUserNS(p *proc) error {
	if n := s.namespaces["user"]; n.Jail == n.Host {
		return nil
	}
	f, err := p.open("ns/user", unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	var number uint32
	if number, s.userNS.owner, err = jailmap.About(f); err != nil {
		return err
	}
	s.registered = s.ebpf.Acting && jailmap.Known(number)
	const size = 32 // a number
	limits, err := fork.ReadInside(f, fork.NestedLimits(), size)
	if err != nil {
		return err
	}
	var fs unix.Statfs_t
	if err := unix.Statfs("/proc/sys/user", &fs); err != nil {
		return fmt.Errorf("/proc/sys/user: %w", err)
	}
	s.userNS.fixed = fs.Flags&unix.ST_RDONLY != 0
	s.userNS.limits = map[string]string{}
	for _, l := range limits {
		s.userNS.limits[path.Base(l.Path)] = strings.TrimSpace(l.Text)
	}
	return nil
}

// countedFor: what the kernel counts by user (inotify, message queues, pending signals) counts for
// the jail's own host user, and for no other.
func countedFor(d *demands, s *seen) outcome {
	owner, _ := d.jail.IDs.Owner()
	want := fmt.Sprintf("user %d of the host, who is the jail's alone", owner)
	switch {
	case d.host.Rootless:
		return lacking(want, "the user, like all of this user's processes")
	case s.userNS.owner != owner:
		return broken(want, "user %d of the host", s.userNS.owner)
	}
	return holds("user %d of the host", owner)
}

// nestedNamespaces: the kernel refuses to make namespaces in the jail's user namespace, whatever
// the filter allows.
func nestedNamespaces(_ *demands, s *seen) outcome {
	var bad []string
	for name, most := range s.userNS.limits {
		if most != "0" {
			bad = append(bad, name+" is "+most)
		}
	}
	const want = "none but mount namespaces"
	if len(bad) > 0 && s.userNS.fixed {
		return lacking(want, "no limit can be set where /proc/sys is read-only: the filter alone keeps them from being made")
	}
	return holdsUnless(want, bad, "none but mount namespaces, by %s", printable.Count(len(s.userNS.limits), "limit"))
}
