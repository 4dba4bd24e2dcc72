package seccomp

import (
	"fmt"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// Actions are the actions that a bundle's own filter may have, sorted. SCMP_ACT_NOTIFY is none of
// them: it needs a listener, which would decide for the jail from outside.
func Actions() []string {
	return []string{
		string(specs.ActAllow), string(specs.ActErrno), string(specs.ActKill), string(specs.ActKillProcess),
		string(specs.ActKillThread),
		string(specs.ActLog), string(specs.ActTrace), string(specs.ActTrap),
	}
}

// Operators are the comparisons that a bundle's own filter may have, sorted.
func Operators() []string {
	return []string{
		string(specs.OpEqualTo), string(specs.OpGreaterEqual), string(specs.OpGreaterThan), string(specs.OpLessEqual),
		string(specs.OpLessThan), string(specs.OpMaskedEqual), string(specs.OpNotEqual),
	}
}

// Check returns an error for a bundle's own filter that cannot be read, as runc does: an action or
// operator that OCI does not define, and a rule for a listener.
func Check(s *specs.LinuxSeccomp) error {
	if err := checkAction(s.DefaultAction); err != nil {
		return fmt.Errorf("linux.seccomp.defaultAction: %w", err)
	}
	for i := range s.Syscalls {
		if err := checkAction(s.Syscalls[i].Action); err != nil {
			return fmt.Errorf("linux.seccomp.syscalls[%d].action: %w", i, err)
		}
		for _, a := range s.Syscalls[i].Args {
			if !slices.Contains(Operators(), string(a.Op)) {
				return fmt.Errorf("linux.seccomp.syscalls[%d].args: %.60q is not an operator", i, a.Op)
			}
		}
	}
	return nil
}

func checkAction(a specs.LinuxSeccompAction) error {
	switch {
	case a == specs.ActNotify:
		return fmt.Errorf("%s is not for jails: they have no listener", a)
	case !slices.Contains(Actions(), string(a)):
		return fmt.Errorf("%.60q is not an action", a)
	}
	return nil
}
