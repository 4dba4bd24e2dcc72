// Package apparmor renders the profile that confines every jail and loads it into the kernel.
//
// The profile is a protection of its own within the access ring: no mounting, no capability, no raw
// sockets, no tracing beyond jails, no writes to the kernel's files, whatever the other rings let
// through.
package apparmor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

var (
	// errDisabled means that the running kernel has no AppArmor, or that it is switched off.
	errDisabled = errors.New("this kernel runs without AppArmor (boot with lsm=…,apparmor, or make the profile optional in agentjail's config)")
	// errNoInterface means that AppArmor is on but its files are not mounted.
	errNoInterface = errors.New("AppArmor's files are missing (mount securityfs: mount -t securityfs securityfs /sys/kernel/security)")
	// errNoParser means that profiles cannot be compiled here.
	errNoParser = errors.New("apparmor_parser is missing (install the package apparmor)")
)

// system has the places of the host's files; tests have their own.
type system struct {
	enabled    string   // the kernel's switch
	securityfs string   // AppArmor's directory in securityfs
	abiDirs    []string // where the parser finds feature ABIs
	parsers    []string // candidates, in order
	state      string   // Ensure's notes; must not survive a reboot
	trustedFn  func(path string) (string, error)
}

// Enabled reports whether the kernel has AppArmor switched on.
func Enabled() bool { return host.isEnabled() }

func (s system) isEnabled() bool {
	b, err := os.ReadFile(s.enabled)
	return err == nil && len(b) > 0 && b[0] == 'Y'
}

// Loaded reports whether a profile of that name is in the kernel in a mode that enforces it
// (enforce, kill; not complain or unconfined). Without AppArmor the answer is false and no error.
func Loaded(name string) (bool, error) { return host.loaded(name) }

func (s system) loaded(name string) (bool, error) {
	if !s.isEnabled() {
		return false, nil
	}
	modes, err := s.modes(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, errNoInterface
	}
	return slices.ContainsFunc(modes, func(m string) bool { return m == "enforce" || m == "kill" }), err
}

// abi returns the newest feature ABI for Params.ABI that the host's parser has, or "".
func (s system) abi() string {
	for i := len(abis) - 1; i > 0; i-- {
		for _, dir := range s.abiDirs {
			if _, err := os.Stat(filepath.Join(dir, abis[i])); err == nil {
				return abis[i]
			}
		}
	}
	return ""
}
