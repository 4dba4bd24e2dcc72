// Package apparmor renders the profile that confines every jail and loads it into the kernel.
//
// The profile is a protection of its own within the access ring: no mounting, no capability, no raw sockets, no tracing beyond jails, no
// writes to the kernel's files, whatever the other rings let through.
package apparmor

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

var (
	// ErrDisabled says that the running kernel has no AppArmor, or that it is switched off.
	ErrDisabled = errors.New("this kernel runs without AppArmor (boot with lsm=…,apparmor, or make the profile optional in agentjail's config)")
	// ErrNoInterface says that AppArmor is on but cannot be spoken to.
	ErrNoInterface = errors.New("AppArmor's files are missing (mount securityfs: mount -t securityfs securityfs /sys/kernel/security)")
	// ErrNoParser says that profiles cannot be compiled here.
	ErrNoParser = errors.New("apparmor_parser is missing (install the package apparmor)")
)

// system is where the host's things are; tests put their own in place.
type system struct {
	enabled    string   // the kernel's switch
	securityfs string   // AppArmor's directory in securityfs
	abiDirs    []string // where the parser finds feature ABIs
	parsers    []string // candidates, in order
	state      string   // what Ensure remembers; must not survive a reboot
	trustedFn  func(path string) (string, error)
}

// Enabled says whether the kernel has AppArmor switched on.
func Enabled() bool { return host.isEnabled() }

func (s system) isEnabled() bool {
	b, err := os.ReadFile(s.enabled)
	return err == nil && len(b) > 0 && b[0] == 'Y'
}

// Loaded says whether a profile of that name is in the kernel in a mode that enforces it (enforce, kill; not complain or unconfined).
// Without AppArmor the answer is false and no error. Reading the list needs root.
func Loaded(name string) (bool, error) { return host.loaded(name) }

func (s system) loaded(name string) (bool, error) {
	if !s.isEnabled() {
		return false, nil
	}
	path := filepath.Join(s.securityfs, "profiles")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, ErrNoInterface
	}
	if err != nil {
		return false, fmt.Errorf("read AppArmor profiles: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		// Each line is "name (mode)"; names may hold spaces and parentheses.
		line := lines.Text()
		i := strings.LastIndex(line, " (")
		if i < 0 || line[:i] != name {
			continue
		}
		if mode := strings.TrimSuffix(line[i+2:], ")"); mode == "enforce" || mode == "kill" {
			return true, nil
		}
	}
	return false, lines.Err()
}

// HostABI returns the newest feature ABI for Params.ABI that this host's parser has, or "".
func HostABI() string { return host.abi() }

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
