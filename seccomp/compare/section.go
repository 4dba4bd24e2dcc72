// Package compare holds a filter against another: what each lets pass, decided
// from their compiled programs and not from how they are written.
package compare

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/invoker"
	"agentjail.dev/seccomp"
)

// docker is what Docker's default profile allows a container without capabilities, as a section for
// both architectures (moby/profiles of June 2026; the list of calls is a fact about it, the form is
// ours).
//
//go:embed docker.json
var docker []byte

// Docker is the name of Docker's default profile, for Section.
const Docker = "docker"

// maxFile bounds a file with a section.
const maxFile = 4 << 20

// Section finds a section to compare with: a profile of package seccomp, Docker's
// default ("docker"), or a file that has a path separator in its name or ends in
// .json: an OCI seccomp section, a whole config.json with one, or a profile in
// Docker's form, of which is taken what a container without capabilities gets.
// arch is a GOARCH.
//
// Errors: no such profile or file, and a file that is none of these.
func Section(name, arch string) (*specs.LinuxSeccomp, error) {
	switch {
	case name == Docker:
		return parse(docker, arch)
	case slices.Contains(seccomp.Profiles(), name):
		return seccomp.OCI(seccomp.Options{Profile: name, Arch: arch})
	}
	data, err := invoker.Read(name, maxFile)
	if err != nil {
		return nil, fmt.Errorf("%q is neither a profile (%v, docker) nor a file that can be read: %w", name, seccomp.Profiles(), err)
	}
	s, err := parse(data, arch)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// dockerRule is a rule in Docker's form: one of OCI's, and when it holds.
type dockerRule struct {
	specs.LinuxSyscall
	Name     string // of old profiles
	Includes condition
	Excludes condition
}

type condition struct {
	Caps   []string
	Arches []string
}

// applies reports whether a rule holds for a container without capabilities. Conditions on kernel
// versions are taken to hold.
func (r *dockerRule) applies(arch string) bool {
	return len(r.Includes.Caps) == 0 && (len(r.Includes.Arches) == 0 || slices.Contains(r.Includes.Arches, arch)) &&
		!slices.Contains(r.Excludes.Arches, arch)
}

// parse reads a section in one of the three forms.
func parse(data []byte, arch string) (*specs.LinuxSeccomp, error) {
	var f struct {
		DefaultAction   specs.LinuxSeccompAction
		DefaultErrnoRet *uint
		Architectures   []specs.Arch
		ArchMap         []struct {
			Architecture     specs.Arch
			SubArchitectures []specs.Arch
		}
		Syscalls []dockerRule
		Linux    *struct{ Seccomp json.RawMessage }
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("no seccomp filter: %w", err)
	}
	if f.Linux != nil && f.Linux.Seccomp != nil && f.DefaultAction == "" {
		return parse(f.Linux.Seccomp, arch)
	}
	if f.DefaultAction == "" {
		return nil, fmt.Errorf("no seccomp filter: it has no defaultAction")
	}
	out := &specs.LinuxSeccomp{DefaultAction: f.DefaultAction, DefaultErrnoRet: f.DefaultErrnoRet, Architectures: f.Architectures}
	for _, m := range f.ArchMap {
		if goarchOf[m.Architecture] == arch {
			out.Architectures = append([]specs.Arch{m.Architecture}, m.SubArchitectures...)
		}
	}
	for _, r := range f.Syscalls {
		if !r.applies(arch) {
			continue
		}
		if r.Name != "" {
			r.Names = append(r.Names, r.Name)
		}
		out.Syscalls = append(out.Syscalls, r.LinuxSyscall)
	}
	return out, nil
}
