package jail

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/netseal"
	"agentjail.dev/runtime/plan"
	"agentjail.dev/runtime/state"
)

// engines says whether a network namespace is one that an engine has made ready.
// Two kinds count: the one that live jails with such a network are in, which is
// how the containers of a pod name their sandbox's; and one that is kept as a
// file of its own (ip-netns(8), CNI), which takes root to make. That of a process
// that is no jail counts not, and neither does the host's under any name.
func (w *Runtime) engines(ns *os.File) (bool, []*state.Brief, error) {
	if hosts, err := netseal.IsHosts(ns); err != nil || hosts {
		return false, nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(ns.Fd()), &st); err != nil {
		return false, nil, err
	}
	jails, err := w.jailsIn("net", st.Ino)
	if err != nil {
		return false, nil, err
	}
	open := slices.DeleteFunc(slices.Clone(jails), func(j *state.Brief) bool { return !j.EngineNetwork })
	if len(jails) > 0 {
		return len(open) > 0, open, nil // a sealed one's owner tells the rest
	}
	// The name of a namespace that is reached through /proc/PID/ns is no path.
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", ns.Fd()))
	if err != nil {
		return false, nil, err
	}
	return strings.HasPrefix(name, "/") && !strings.HasPrefix(name, "/proc/"), nil, nil
}

// openNetwork opens the engine's network namespace that a hardened spec joins,
// or returns nil. A delegate that has entered the jail's user namespace cannot
// join one that the host's owns, so it is started inside.
func openNetwork(s *specs.Spec, p plan.Plan) (*os.File, error) {
	if !p.EngineNetwork {
		return nil, nil
	}
	for _, ns := range s.Linux.Namespaces {
		if ns.Type != specs.NetworkNamespace || ns.Path == "" {
			continue
		}
		f, err := openNamespace(ns.Path)
		if err != nil {
			return nil, fmt.Errorf("the engine's network namespace %s: %w", ns.Path, err)
		}
		// Looked at again, as it was opened again.
		if hosts, err := netseal.IsHosts(f); err != nil || hosts {
			f.Close()
			return nil, fmt.Errorf("the engine's network namespace %s is the host's, or cannot be told from it (%v)", ns.Path, err)
		}
		return f, nil
	}
	return nil, nil
}

// givenNetwork takes the engine's network namespace, with the settings for it,
// out of what the delegate does, and makes the settings.
func givenNetwork(s *specs.Spec, j *state.Jail, ns *os.File) error {
	j.GivenNetwork = true
	set := map[string]string{}
	for _, k := range slices.Sorted(maps.Keys(s.Linux.Sysctl)) {
		if name, ok := strings.CutPrefix(strings.ReplaceAll(k, "/", "."), "net."); ok {
			set[name] = s.Linux.Sysctl[k]
			delete(s.Linux.Sysctl, k)
		}
	}
	s.Linux.Namespaces = slices.DeleteFunc(s.Linux.Namespaces, func(n specs.LinuxNamespace) bool { return n.Type == specs.NetworkNamespace })
	return netseal.Set(ns, set)
}

// enterNetwork moves the calling thread, which must be locked and never be given
// back, to a network namespace; what it starts is there too.
func enterNetwork(ns *os.File) error {
	if ns == nil {
		return nil
	}
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("joining the engine's network namespace: %w", err)
	}
	return nil
}

// enterGiven is enterNetwork for a further process of a jail whose delegate
// knows nothing of its network namespace.
func enterGiven(j *state.Brief) error {
	if !j.GivenNetwork {
		return nil
	}
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", j.InitPid))
	if err != nil {
		return fmt.Errorf("the jail's network namespace: %w", err)
	}
	defer ns.Close()
	return enterNetwork(ns)
}
