package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// grantable are the capabilities that process.capabilities may name, and their numbers
// (linux/capability.h): those by which an entry point prepares its files and becomes another of
// the jail's users. Each acts on the jail's own ids alone. Not in it: FSETID (the filter refuses
// set-user-ID bits), NET_BIND_SERVICE (a setting of the network namespace stands in for it),
// SYS_CHROOT (the filter), SETPCAP, SETFCAP, MKNOD, NET_RAW, AUDIT_WRITE.
var grantable = []struct {
	name   string
	number uint
}{
	{"CHOWN", 0},
	{"DAC_OVERRIDE", 1},
	{"FOWNER", 3},
	{"KILL", 5},
	{"SETGID", 6},
	{"SETUID", 7},
}

// Grantable are the names that process.capabilities may have, without CAP_.
func Grantable() (out []string) {
	for _, c := range grantable {
		out = append(out, c.name)
	}
	return out
}

// CapabilityMask is the set of these capabilities as the kernel writes it (CapEff in
// proc_pid_status(5)). Names are with or without CAP_; one that is not Grantable has no bit.
func CapabilityMask(names []string) (mask uint64) {
	for _, c := range grantable {
		if slices.Contains(names, c.name) || slices.Contains(names, "CAP_"+c.name) {
			mask |= 1 << c.number
		}
	}
	return mask
}

// CommonCapabilities are the Grantable ones that every list has, sorted, without CAP_.
func CommonCapabilities(lists ...[]string) (out []string) {
	for _, c := range grantable {
		if !slices.ContainsFunc(lists, func(l []string) bool { return CapabilityMask(l)&(1<<c.number) == 0 }) {
			out = append(out, c.name)
		}
	}
	return out
}

// Names of AppArmor profiles. The kernel has profiles by name: two texts need two names.
const (
	DefaultAppArmor = "agentjail-default"
	// ServiceAppArmor lets the Grantable capabilities be used.
	ServiceAppArmor = "agentjail-service"
)

// matchAppArmor has jails that keep capabilities use the profile that permits them.
func (p *Policy) matchAppArmor() {
	if len(p.Process.Capabilities) > 0 && p.AppArmor.Profile == DefaultAppArmor {
		p.AppArmor.Profile = ServiceAppArmor
	}
}

func (p Policy) checkCapabilities() error {
	if len(p.Process.Capabilities) == 0 {
		return nil
	}
	for _, c := range p.Process.Capabilities {
		if all := Grantable(); !slices.Contains(all, c) {
			return fmt.Errorf("process.capabilities has %q: must be of %s%s", clipped(c), strings.Join(all, ", "), Suggestion(c, all))
		}
	}
	if p.Userns.Map == MapNobody {
		return errors.New(`process.capabilities: with userns.map = "nobody" the jail's root is the host's user 65534, and could open its files (remedy: userns.map = "range")`)
	}
	if p.AppArmor.Profile != ServiceAppArmor {
		return fmt.Errorf("process.capabilities: the AppArmor profile %q refuses them (remedy: apparmor.profile = %q)", clipped(p.AppArmor.Profile), ServiceAppArmor)
	}
	return nil
}
