package policy

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/publish"
)

// maxServers bounds the name servers that are queried (resolv.conf(5): MAXNS is 3).
const maxServers = 3

// checkServers checks the servers that the helper of mode "names" queries.
func (n Network) checkServers() error {
	if len(n.Servers) > maxServers {
		return fmt.Errorf("network.servers: at most %d", maxServers)
	}
	for _, s := range n.Servers {
		if _, err := server(s); err != nil {
			return fmt.Errorf("network.servers: %w", err)
		}
	}
	return nil
}

// server reads a name server: ADDRESS or ADDRESS:PORT.
func server(text string) (netip.AddrPort, error) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return netip.AddrPortFrom(a, 53), nil
	}
	a, err := netip.ParseAddrPort(text)
	if err != nil || a.Port() == 0 {
		return a, fmt.Errorf("%q is not ADDRESS[:PORT]", text)
	}
	return a, nil
}

// maxCommand bounds the words of network.approval_command.
const maxCommand = 64

// checkApproval checks the command that decides on names. The start alone shows whether the program
// can be run.
func (n Network) checkApproval() error {
	c := n.ApprovalCommand
	switch {
	case len(c) == 0:
		return nil
	case !filepath.IsAbs(c[0]) || filepath.Clean(c[0]) != c[0]:
		return fmt.Errorf("network.approval_command: %q is no clean absolute path of a program", c[0])
	case len(c) > maxCommand:
		return fmt.Errorf("network.approval_command: at most %d words", maxCommand)
	}
	return nil
}

func (n Network) mayPublish() (may, engine []publish.Range, err error) {
	for _, text := range n.Publish {
		read, list := publish.ParseRange, &may
		if publish.IsEngine(text) {
			read, list = publish.ParseEngine, &engine
		}
		r, err := read(text)
		if err != nil {
			return nil, nil, fmt.Errorf("network.publish: %w", err)
		}
		*list = append(*list, r)
	}
	if len(engine) > publish.MaxEntries {
		return nil, nil, fmt.Errorf("network.publish: at most %d entries for the engine's network", publish.MaxEntries)
	}
	return may, engine, nil
}

// Publishes lists the ports that a jail publishes: those that it requested, or else policy's for
// the engine's network.
func (n Network) Publishes() []string {
	engines := slices.DeleteFunc(slices.Clone(n.Publish), func(text string) bool { return !publish.IsEngine(text) })
	return slices.Concat(n.Published, engines)
}

// PublishPorts has a jail publish these ports and no others, whatever the value of Publish. With
// another Mode, the jail gets mode "names" and may connect to nothing.
func (n *Network) PublishPorts(texts []string) error {
	entries, _, err := publish.List(texts)
	if err != nil {
		return err
	}
	if n.Mode != NetworkNames {
		n.Mode, n.Allow = NetworkNames, nil
	}
	// Policy's own entries for the engine's network stay for a jail without a request.
	n.Publish = slices.DeleteFunc(slices.Clone(n.Publish), publish.IsEngine)
	n.Published = slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return !publish.IsEngine(s) })
	for _, e := range entries {
		n.Published = append(n.Published, e.String())
	}
	return nil
}

// publish is PublishPorts for a container, which may publish the ports that policy allows:
// entries, separated by commas.
func (n *Network) publish(text string) (bool, error) {
	if n.Mode != NetworkNames {
		return false, fmt.Errorf("network.mode is not %q", NetworkNames)
	}
	texts := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
	entries, requested, err := publish.List(texts)
	if err != nil {
		return false, err
	}
	may, engine, err := n.mayPublish()
	if err != nil {
		return false, err
	}
	for _, r := range requested {
		if err := publish.WithinEngine(engine, r); err != nil {
			return false, err
		}
	}
	for _, e := range entries {
		if err := publish.Within(may, e); err != nil {
			return false, err
		}
	}
	return true, n.PublishPorts(texts)
}

// Helped returns the rules for the helper of mode "names".
func (n Network) Helped() (network.Rules, error) {
	set, err := n.Rules()
	if err != nil {
		return network.Rules{}, err
	}
	r := network.Rules{
		Mode: n.Mode, Allow: set.Entries(), Deny: set.Denied(), Publish: n.Publishes(),
		Approval: n.Approval == ApprovalPrompt,
	}
	for _, text := range n.Servers {
		s, err := server(text)
		if err != nil {
			return r, err
		}
		r.Servers = append(r.Servers, s.String())
	}
	return r, nil
}
