package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/state"
)

// noFilter is the change that takes the profile from a bundle.
func noFilter(s *specs.Spec) { s.Linux.Seccomp = nil }

// cycles measures create, start, wait and delete.
func (b *bench) cycles(ctx context.Context) error {
	return reaping(func() error {
		var subjects []*subject
		for _, d := range b.found {
			kinds := []withChange{{bareDocker, nil}, {jailedDocker, nil}}
			if !b.brief {
				jail, err := b.jailSpec(d)
				if err != nil {
					return err
				}
				kinds = allKinds(jail)
			}
			for _, k := range kinds {
				s, err := b.subject(d, k.kind, b.captured.id, k.change)
				if err != nil {
					return err
				}
				subjects = append(subjects, s)
			}
		}
		if b.delegates == "" && !b.brief {
			subjects = append(subjects, b.peers()...)
		}
		return b.interleave(ctx, "cycle", b.rounds, subjects, (*subject).lifecycle)
	})
}

// withChange is a kind of subject with what its bundle differs in from Docker's.
type withChange struct {
	kind   kind
	change func(*specs.Spec)
}

// allKinds are those whose starts are measured, with the bundle of a jail.
func allKinds(jail *specs.Spec) []withChange {
	return []withChange{
		{bare, noFilter},
		{bareDocker, nil},
		// A jail's filter expects no_new_privs, as every jail has it.
		{bareOurs, func(s *specs.Spec) { s.Linux.Seccomp = jail.Linux.Seccomp; s.Process.NoNewPrivileges = true }},
		{bareJail, func(s *specs.Spec) { onPlainRoot(s, jail) }},
		{jailed, noFilter},
		{jailedDocker, nil},
	}
}

// onPlainRoot makes s the spec of a jail, but on its own root, and without what would need agentjail: bind mounts of
// Docker's files, and of what lies in the mount namespace that agentjail stages in, with what is mounted on top; and
// agentjail's own step before the program.
func onPlainRoot(s, jail *specs.Spec) {
	own := *s
	*s = *clone(jail)
	s.Root, s.Process.Args = own.Root, own.Process.Args
	var staged []string
	s.Mounts = slices.DeleteFunc(without(s.Mounts, dockersFiles...), func(m specs.Mount) bool {
		if strings.HasPrefix(m.Source, state.DefaultRoot+"/") {
			staged = append(staged, m.Destination)
			return true
		}
		return slices.ContainsFunc(staged, func(at string) bool { return strings.HasPrefix(m.Destination, at+"/") })
	})
}

// dockersFiles are bind mounts of files that belong to one container of Docker's, in a directory that only root enters.
var dockersFiles = []string{"/etc/resolv.conf", "/etc/hostname", "/etc/hosts"}

// jailSpec makes a jail and reads the spec that its delegate was given.
func (b *bench) jailSpec(d delegate) (*specs.Spec, error) {
	s, err := b.subject(d, jailedDocker, b.captured.id, nil)
	if err != nil {
		return nil, err
	}
	if _, err := s.create(&sample{}); err != nil {
		return nil, err
	}
	store := state.Store{Root: state.DefaultRoot}
	data, err := os.ReadFile(filepath.Join(store.Dir(state.Key(s.global[1], s.id)), "bundle", "config.json"))
	if derr := s.call(&sample{}, "delete", "--force", s.id); err == nil {
		err = derr
	}
	if err != nil {
		return nil, err
	}
	var spec specs.Spec
	if err := json.Unmarshal(data, &spec); err != nil {
		return nil, err
	}
	return &spec, nil
}

// execs measures a further process in a container that runs.
func (b *bench) execs(ctx context.Context) error {
	process := filepath.Join(b.dir, "process.json")
	p := *b.captured.spec.Process
	data, err := json.Marshal(&p)
	if err != nil {
		return err
	}
	if err := os.WriteFile(process, data, 0o600); err != nil {
		return err
	}
	return b.running(b.root, "", []kind{bareDocker, jailedDocker}, func(subjects []*subject) error {
		return b.interleave(ctx, "exec", b.rounds, subjects, func(s *subject) (sample, error) { return s.exec(process) })
	})
}

func without(mounts []specs.Mount, at ...string) []specs.Mount {
	var out []specs.Mount
	for _, m := range mounts {
		keep := true
		for _, a := range at {
			keep = keep && m.Destination != a
		}
		if keep {
			out = append(out, m)
		}
	}
	return out
}
