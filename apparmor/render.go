package apparmor

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/traits"
)

// DefaultName is the profile that every jail gets unless its policy names another one.
const DefaultName = policy.DefaultAppArmor

// Params is what can be chosen about a profile.
type Params struct {
	// Name of the profile, at most 64 characters from A-Z a-z 0-9 . _ -, beginning with a letter or
	// digit.
	Name string
	// ABI is the AppArmor feature ABI that the profile is written for: "4.0" (knows user namespaces
	// and io_uring), "3.0", or "" for parsers older than 3.0. Pinning it keeps the meaning of the
	// rules on later kernels (from ABI 5 on "network" no longer includes unix sockets). Ensure
	// fills it in for the host.
	ABI string
	// Peers are further profiles from which signals are accepted, for engines that are confined
	// themselves. Unconfined processes and profiles called runc and crun (Ubuntu 24.04 has them)
	// always are.
	Peers []string
}

// abis are the feature ABIs that Render knows, oldest first.
var abis = []string{"", "3.0", "4.0"}

// Checked by hand: compiling a regular expression would cost every start of the program half a
// millisecond.

// validName reports whether a profile may be called s.
func validName(s string) bool { return plain(s, "", "._-", 64) }

// validPeer allows paths (profiles without a name of their own) but none of the characters that
// mean something in a pattern.
func validPeer(s string) bool { return plain(s, "/", "._/@+-", 256) }

// plain reports whether s has 1 to longest characters, each a letter, a digit or one of the others,
// of which only those of first may begin it.
func plain(s, first, others string, longest int) bool {
	if s == "" || len(s) > longest {
		return false
	}
	for i := range len(s) {
		c := s[i]
		also := others
		if i == 0 {
			also = first
		}
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte(also, c) < 0 {
			return false
		}
	}
	return true
}

func (p Params) peers() []string {
	// Distributions have profiles that confine nothing for delegates, and for Podman, whose
	// processes keep that name and send the signals that stop a jail.
	out := slices.Concat([]string{"unconfined", "podman"}, traits.Auto(), p.Peers)
	slices.Sort(out)
	return slices.Compact(out)
}

func (p Params) validate() error {
	if !validName(p.Name) {
		return fmt.Errorf("apparmor profile name %q: at most 64 letters, digits, dots, underscores and dashes are allowed", p.Name)
	}
	if p.Name == "unconfined" {
		return errors.New("apparmor profile name: unconfined is the absence of a profile")
	}
	if !slices.Contains(abis, p.ABI) {
		return fmt.Errorf("apparmor ABI %q is unknown", p.ABI)
	}
	for _, peer := range p.Peers {
		if !validPeer(peer) {
			return fmt.Errorf("apparmor peer %q is not a plain profile name", peer)
		}
	}
	return nil
}

// Render returns the profile's text for apparmor_parser(8). The same parameters give the same text.
// It includes no file but the ABI, so it does not depend on the host's tunables and abstractions.
func Render(p Params) (string, error) {
	if err := p.validate(); err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("# Made by agentjail. Changes are lost: it loads its own text when that differs.\n")
	if p.ABI != "" {
		fmt.Fprintf(&b, "abi <abi/%s>,\n", p.ABI)
	}
	// attach_disconnected: file descriptors from outside of the jail's mount namespace (its
	// standard streams) have no path in it. mediate_deleted: deleted files are mediated by the path
	// that they had.
	fmt.Fprintf(&b, "profile %s flags=(attach_disconnected,mediate_deleted) {\n", p.Name)
	for i, s := range sections(p) {
		if slices.Index(abis, s.abi) > slices.Index(abis, p.ABI) {
			continue
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "  # %s\n", s.title)
		for _, r := range s.rules {
			fmt.Fprintf(&b, "  %s,", r.text)
			if r.why != "" {
				fmt.Fprintf(&b, " # %s", r.why)
			}
			b.WriteByte('\n')
		}
	}
	b.WriteString("}\n")
	return b.String(), nil
}
