package check

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/apparmor"
	"agentjail.dev/runtime/kernel/landlock"
	"agentjail.dev/runtime/spec/plan"
)

// parsers are where distributions put the program that compiles AppArmor
// profiles.
var parsers = []string{"/usr/sbin/apparmor_parser", "/sbin/apparmor_parser"}

// lsmConfines reports whether a security module can confine jails.
func lsmConfines(e *env) answer {
	name := e.policy.AppArmor.Profile
	switch {
	case apparmor.Enabled():
		loaded, err := apparmor.Loaded(name)
		parser := slices.ContainsFunc(parsers, func(p string) bool { return unix.Access(p, unix.X_OK) == nil })
		switch {
		case err == nil && loaded:
			return ok("AppArmor, profile %s is loaded", name)
		case !parser:
			return fail("install the package apparmor", "AppArmor is on, but apparmor_parser is missing and profile %s is not loaded", name)
		case err != nil:
			return fail("mount securityfs", "AppArmor is on, but %v", err)
		}
		return ok("AppArmor, profile %s is loaded with the first jail", name)
	case e.host.SELinux:
		if e.host.ProcessLabel == "" {
			return warn("install container-selinux", "SELinux, but its policy names no labels for containers: only those that the engine makes confine jails")
		}
		return ok("SELinux: jails keep the label that the engine sets (Docker: selinux-enabled), or get one with their own categories")
	}
	return fail("boot with lsm=...,apparmor, on a kernel that has it", "the kernel runs neither: the other protections of ring 1 stand alone")
}

// delegateLabels reports which AppArmor profile each delegate gets for its path: one that confines
// it confines the init step, too, which runs under the delegate's profile and the jail's, and lets
// no jail start (apparmor.Leave).
func delegateLabels(e *env) answer {
	if !apparmor.Enabled() {
		return ok("none: the kernel runs without AppArmor")
	}
	var paths []string
	for _, d := range delegates(e) {
		paths = append(paths, d.Path)
	}
	return labelsOf(paths, apparmor.AttachedTo)
}

func labelsOf(delegates []string, attached func(string) ([]apparmor.Attached, error)) answer {
	var lines, stay []string
	for _, path := range delegates {
		profiles, err := attached(path)
		if err != nil {
			return warn("mount securityfs", "the profile of %s cannot be read: %v", path, err)
		}
		if len(profiles) == 0 {
			lines = append(lines, path+": none")
		}
		for _, p := range profiles {
			line := fmt.Sprintf("%s: %s (%s), ", path, p.Name, p.Mode)
			if p.Left {
				lines = append(lines, line+"which confines nothing and is left")
				continue
			}
			lines = append(lines, line+"which stays and would confine the jail's init step: no jail starts")
			stay = append(stay, p.Name)
		}
	}
	switch {
	case len(lines) == 0:
		return warn("install runc", "there is no delegate")
	case len(stay) > 0:
		return warn("unload it and disable its file in /etc/apparmor.d (aa-disable "+strings.Join(slices.Compact(stay), " ")+
			"), or name a delegate without one in the policy file", "%s", strings.Join(lines, "; "))
	}
	return ok("%s", strings.Join(lines, "; "))
}

// landlockABI requests the version of the kernel's interface.
func landlockABI(*env) answer {
	abi, err := landlock.ABI()
	switch {
	case err == nil:
		if abi < plan.LandlockMin {
			return fail("boot Linux 5.19 or later", "version %d, which refuses every rename between directories: not used", abi)
		}
		return ok("version %d", abi)
	case errors.Is(err, unix.EOPNOTSUPP):
		return fail("boot with lsm=...,landlock", "built into the kernel, but off")
	}
	return fail("boot Linux 5.13 or later with CONFIG_SECURITY_LANDLOCK and lsm=...,landlock", "%v", err)
}
