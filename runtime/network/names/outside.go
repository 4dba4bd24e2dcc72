package names

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/namespace"
	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/network/seal"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/network"
)

// outside opens the engine's network namespace that the helper is to connect from; nil if there is
// none.
func outside(j network.Jail) (*os.File, error) {
	d := j.Decision
	if d.Outside == "" {
		return nil, nil
	}
	f, err := namespace.Open(d.Outside)
	if err == nil && j.OutsideIno != 0 {
		if err = isNamespace(f, j.OutsideDev, j.OutsideIno); err != nil {
			f.Close()
		}
	}
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, namespace.ErrNone) {
		return nil, refusal.New(refusal.Network, "the network that the engine made for the jail is gone: %s (%v)", d.Outside, err).
			WithRemedy("start the container anew, by its engine")
	}
	if err != nil {
		return nil, fmt.Errorf("the engine's network namespace %s: %w", d.Outside, err)
	}
	// The namespace was opened again, so it is checked again.
	if hosts, err := seal.IsHosts(f); err != nil || hosts {
		f.Close()
		return nil, refusal.New(refusal.Network, "the engine's network namespace %s is the host's, or cannot be distinguished from it (%v)", d.Outside, err)
	}
	return f, nil
}

// isNamespace checks that an opened namespace has these numbers. It returns namespace.ErrNone for
// any other.
func isNamespace(f *os.File, dev, ino uint64) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if st.Dev != dev || st.Ino != ino {
		return namespace.ErrNone
	}
	return nil
}

// Files that list name servers: the host's own, and the servers of systemd-resolved, which are used
// if the former lists only its stub on loopback.
const (
	resolvConf = "/etc/resolv.conf"
	resolved   = "/run/systemd/resolve/resolv.conf"
)

// serversOf returns the name servers that the helper queries. They are never those of the bundle: a
// name server decides where an allowed name leads. The host's stub on loopback cannot be reached
// from an engine's network.
func serversOf(d network.Decision, r network.Rules) ([]string, error) {
	if len(r.Servers) > 0 {
		return r.Servers, nil
	}
	var named []string
	for _, path := range []string{resolvConf, resolved} {
		text, err := readHosts(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("the host's name servers: %w", err)
		}
		named = servers(string(text))
		if d.Outside == "" {
			return named, nil
		}
		if named = elsewhere(named); len(named) > 0 {
			return named, nil
		}
	}
	return nil, refusal.New(refusal.Network, "the host's name servers are on loopback only, which %s does not reach", d.Outside).
		WithRemedy("network.servers in the policy")
}

// readHosts reads a file of the host's. It does so on another thread: the caller's mounts may be
// those of a jail that is being made.
func readHosts(path string) (text []byte, err error) {
	err = thread.Own(func() (err error) {
		text, err = os.ReadFile(path)
		return err
	})
	return text, err
}

// hostSearches returns the host's search domains.
func hostSearches() ([]string, error) {
	text, err := readHosts(resolvConf)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("the host's search domains: %w", err)
	}
	return searches(string(text)), nil
}

// elsewhere leaves out servers on loopback.
func elsewhere(servers []string) []string {
	return slices.DeleteFunc(slices.Clone(servers), func(s string) bool {
		a, err := netip.ParseAddrPort(s)
		return err != nil || a.Addr().IsLoopback()
	})
}

// hosts returns this host's addresses, which are refused. In the host's own network the helper
// queries the kernel each time instead.
func hosts(d network.Decision) ([]netip.Addr, error) {
	if d.Outside == "" {
		return nil, nil
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("the host's addresses: %w", err)
	}
	var out []netip.Addr
	for _, a := range all {
		n, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		if ip, ok := netip.AddrFromSlice(n.IP); ok {
			out = append(out, ip.Unmap())
		}
	}
	return out, nil
}

// isOutside returns the fault if a helper does not connect from the recorded namespace, or "". A
// namespace whose file is gone belongs to the helper alone.
func isOutside(pid int, d network.Decision) string {
	if d.Outside == "" {
		return ""
	}
	f, err := namespace.Open(d.Outside)
	if err != nil {
		return ""
	}
	defer f.Close()
	var want, got unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &want); err != nil {
		return err.Error()
	}
	if err := unix.Stat(fmt.Sprintf("/proc/%d/ns/net", pid), &got); err != nil {
		return fmt.Sprintf("the network namespace of process %d: %v", pid, err)
	}
	if want.Dev != got.Dev || want.Ino != got.Ino {
		return fmt.Sprintf("process %d is not in %s", pid, d.Outside)
	}
	return ""
}
