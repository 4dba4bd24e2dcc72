// Package exported makes a bundle for other programs of a jail's hardened one. It is a pure
// function of the specs: what the bundle loses by leaving agentjail is reported, never hidden.
package exported

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/pathname"
)

// A Jail has the facts about the jail that is exported.
type Jail struct {
	Hardened *specs.Spec    // as the delegate has it
	Original *specs.Spec    // as the engine wrote it, or nil
	Process  *specs.Process // the jail's, without the init step
	Dir      string         // the jail's directory of state
	Root     string         // of the file tree on the host; "" keeps the original's
	UIDs     []specs.LinuxIDMapping
	GIDs     []specs.LinuxIDMapping
}

// Bundle returns the spec for another runtime, and what a container of it lacks. The jail's specs
// are not changed.
func Bundle(j Jail) (*specs.Spec, []string, error) {
	s, err := clone(j.Hardened)
	if err != nil {
		return nil, nil, err
	}
	lacks := []string{
		"the init step: its checks, the inner system call filter, Landlock",
		"what agentjail does from outside: the sealed network, the network by name, protected paths, the owners of mounted directories, the journal",
	}
	if j.Process == nil || s.Linux == nil || s.Root == nil {
		return nil, nil, fmt.Errorf("the record has no process, root or Linux section")
	}
	if s.Process, err = clone(j.Process); err != nil {
		return nil, nil, err
	}
	s.Hooks = nil
	switch {
	case j.Root != "":
		s.Root.Path = j.Root
	case j.Original != nil && j.Original.Root != nil:
		s.Root.Path = j.Original.Root.Path
	}
	for i := range s.Linux.Namespaces {
		s.Linux.Namespaces[i].Path = ""
	}
	s.Linux.UIDMappings, s.Linux.GIDMappings = j.UIDs, j.GIDs
	var kept []specs.Mount
	for _, m := range s.Mounts {
		if !pathname.Within(m.Source, j.Dir) {
			kept = append(kept, m)
			continue
		}
		if m.Source = j.source(m.Destination); m.Source == "" {
			lacks = append(lacks, "the mount at "+m.Destination+", which has files of agentjail's")
			continue
		}
		kept = append(kept, m)
	}
	s.Mounts = kept
	return s, lacks, nil
}

// source is what the engine's bundle mounts at a place.
func (j Jail) source(at string) string {
	if j.Original == nil {
		return ""
	}
	for _, m := range j.Original.Mounts {
		if path.Clean(m.Destination) == path.Clean(at) &&
			(m.Type == "bind" || slices.Contains(m.Options, "bind") || slices.Contains(m.Options, "rbind")) {
			return m.Source
		}
	}
	return ""
}

// Targets are the programs that a bundle can be adapted for.
var Targets = map[string]func(*specs.Spec) []string{"nspawn": nspawn}

// nspawn takes out what systemd-nspawn --oci-bundle refuses or cannot read (release 252), and
// returns what a container of it lacks by that.
func nspawn(s *specs.Spec) []string {
	s.Version = "1.0.0"
	s.Linux.Resources, s.Linux.Seccomp, s.Linux.ReadonlyPaths, s.Linux.CgroupsPath, s.Linux.RootfsPropagation = nil, nil, nil, "", ""
	s.Process.Rlimits, s.Process.OOMScoreAdj, s.Process.ApparmorProfile, s.Process.SelinuxLabel = nil, nil, "", ""
	s.Linux.MountLabel, s.Annotations, s.Linux.TimeOffsets = "", nil, nil
	s.Linux.Namespaces = slices.DeleteFunc(s.Linux.Namespaces, func(n specs.LinuxNamespace) bool {
		return n.Type == specs.TimeNamespace
	})
	s.Mounts = slices.DeleteFunc(s.Mounts, func(m specs.Mount) bool { // its own, of other types
		return m.Type == "proc" || m.Type == "sysfs" || m.Type == "mqueue" || m.Type == "cgroup" || m.Type == "devpts" ||
			path.Clean(m.Destination) == "/dev"
	})
	return []string{
		"limits of resources, resource limits, the OOM score",
		"the system call filter: it has loose ones of its own",
		"read-only paths",
		"no_new_privs and the empty sets of capabilities, which it ignores: programs have most capabilities of the user namespace",
	}
}

func clone[T any](in *T) (*T, error) {
	out := new(T)
	data, err := json.Marshal(in)
	if err == nil {
		err = json.Unmarshal(data, out)
	}
	return out, err
}
