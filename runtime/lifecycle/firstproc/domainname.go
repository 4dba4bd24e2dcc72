package firstproc

import (
	"fmt"
	"maps"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/namespace"
	"agentjail.dev/runtime/spec/plan"
)

// TakeDomainname takes the UTS domain name out of a hardened spec, for this process to set. The
// kernel setting's file belongs to host root: no delegate can write it from a user namespace
// (Linux, utsname_sysctl.c, mode 0644). runc before 1.2 and crun before 1.8.2 do not know the
// specification's own field. A namespace that is shared with another container keeps its name.
func TakeDomainname(s *specs.Spec) string {
	name := plan.Domainname(s)
	s.Domainname = ""
	maps.DeleteFunc(s.Linux.Sysctl, func(key, _ string) bool { return plan.IsDomainname(key) })
	own := slices.ContainsFunc(s.Linux.Namespaces, func(n specs.LinuxNamespace) bool {
		return n.Type == specs.UTSNamespace && n.Path == ""
	})
	if !own {
		return ""
	}
	return name
}

// SetDomainname sets the domain name in the UTS namespace of a process.
func SetDomainname(pid int, name string) error {
	if name == "" {
		return nil
	}
	if err := namespace.InUTS(pid, func() error { return unix.Setdomainname([]byte(name)) }); err != nil {
		return fmt.Errorf("setting the domain name %q (setdomainname(2)): %w", name, err)
	}
	return nil
}
