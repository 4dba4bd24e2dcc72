package lifecycle

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/lifecycle/jailnet"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/state"
)

// Networks returns the networks of the jails.
func (r *Runtime) Networks() jailnet.Networks {
	return jailnet.Networks{Store: r.Store, Root: r.Globals.Root, Book: r.book()}
}

// enterNetwork moves the calling thread, which must be locked and never be unlocked, to a network
// namespace. Processes started from it are in that namespace too.
func enterNetwork(ns *os.File) error {
	if ns == nil {
		return nil
	}
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("joining the engine's network namespace: %w", err)
	}
	return nil
}

// enterEngineNetwork is enterNetwork for a further process of a jail whose delegate does not know
// its network namespace.
func enterEngineNetwork(j *state.Brief) error {
	if j.Network.Namespace != network.Given {
		return nil
	}
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", j.InitPid))
	if err != nil {
		return fmt.Errorf("the jail's network namespace: %w", err)
	}
	defer ns.Close()
	return enterNetwork(ns)
}
