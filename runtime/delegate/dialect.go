package delegate

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/seccomp"
)

// Dialect removes the parts of a hardened spec that a delegate with these capabilities would
// refuse. The caller that runs the delegate must apply the returned Time.
func (c Caps) Dialect(s *specs.Spec) Time {
	if newer(s.Version, c.OCIMax) {
		// Older crun refuses by the number alone (1.8 knows none above 1.0).
		s.Version = "1.0.2"
	}
	if c.SeccompFlags && s.Linux.Seccomp != nil && len(s.Linux.Seccomp.Flags) == 0 {
		seccomp.DenySpecAllow(s.Linux.Seccomp)
	}
	if joinsUserNS(s) && c.ReadsMaps {
		s.Linux.UIDMappings, s.Linux.GIDMappings = nil, nil // a second source, which it warns of
	}
	emptyMqueue(s)
	i := slices.IndexFunc(s.Linux.Namespaces, func(n specs.LinuxNamespace) bool { return n.Type == specs.TimeNamespace })
	if i < 0 || c.TimeNS {
		return Time{}
	}
	var text string
	for _, clock := range []string{"boottime", "monotonic"} {
		o := s.Linux.TimeOffsets[clock]
		text += fmt.Sprintf("%s %d %d\n", clock, o.Secs, o.Nanosecs)
	}
	s.Linux.Namespaces = slices.Delete(s.Linux.Namespaces, i, i+1)
	s.Linux.TimeOffsets = nil
	return Time{Offsets: text}
}

// newer reports whether a bundle's version of the specification is above the delegate's newest; ""
// is that of a delegate that does not report it.
func newer(version, ociMax string) bool {
	var have, most [2]int
	_, _ = fmt.Sscanf(version, "%d.%d", &have[0], &have[1])
	if n, _ := fmt.Sscanf(ociMax, "%d.%d", &most[0], &most[1]); n != 2 {
		most = [2]int{1, 0}
	}
	return have[0] > most[0] || have[0] == most[0] && have[1] > most[1]
}

// joinsUserNS reports whether a spec names a user namespace to join.
func joinsUserNS(s *specs.Spec) bool {
	return slices.ContainsFunc(s.Linux.Namespaces, func(n specs.LinuxNamespace) bool {
		return n.Type == specs.UserNamespace && n.Path != ""
	})
}

// emptyMqueue puts an empty file system in mqueue's place under SELinux, where the delegate would
// label it. mqueue's root belongs to the creator of the IPC namespace (mqueue_get_inode in
// ipc/mqueue.c): runc makes it as the host's root, who has no id in a user namespace that it has
// joined, so that the label is refused (EPERM). No process of a jail can use queues:
// RLIMIT_MSGQUEUE is 0.
func emptyMqueue(s *specs.Spec) {
	if s.Linux.MountLabel == "" || !joinsUserNS(s) {
		return
	}
	for i, m := range s.Mounts {
		if m.Type == "mqueue" {
			s.Mounts[i] = specs.Mount{
				Destination: m.Destination, Type: "tmpfs", Source: "tmpfs",
				Options: []string{"nosuid", "noexec", "nodev", "ro", "mode=555", "size=4k"},
			}
		}
	}
}

// StartArgs are the options of create and exec, behind the global ones. There is
// none for what would loosen a jail: --no-pivot leaves the host's root mounted,
// --no-new-keyring shares the caller's keys.
type StartArgs struct {
	ID string
	// Bundle is create's, Process, Detach and IgnorePaused are exec's.
	Bundle, Process      string
	Detach, IgnorePaused bool
	// PidFile, ConsoleSocket and PidfdSocket are paths; "" requests none.
	PidFile, ConsoleSocket, PidfdSocket string
	// Files is the number of files that the process gets from descriptor 3 on
	// (runc(8), --preserve-fds).
	Files int
}

// Create are the arguments of create.
func (a StartArgs) Create() []string { return a.with("create", "--bundle", a.Bundle) }

// Exec are the arguments of exec.
func (a StartArgs) Exec() []string {
	args := []string{"exec", "--process", a.Process}
	if a.Detach {
		args = append(args, "--detach")
	}
	if a.IgnorePaused {
		args = append(args, "--ignore-paused")
	}
	return a.with(args...)
}

// with adds what both have.
func (a StartArgs) with(args ...string) []string {
	for _, f := range [][2]string{
		{"--pid-file", a.PidFile},
		{"--console-socket", a.ConsoleSocket},
		{"--pidfd-socket", a.PidfdSocket},
	} {
		if f[1] != "" {
			args = append(args, f[0], f[1])
		}
	}
	return append(args, "--preserve-fds", strconv.Itoa(a.Files), a.ID)
}
