package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/state"
)

// noFilter is the change that takes the profile from a bundle.
func noFilter(s *specs.Spec) { s.Linux.Seccomp = nil }

// cycles measures create, start, wait and delete.
func (b *bench) cycles(ctx context.Context) error {
	if err := b.reachable(); err != nil {
		return err
	}
	return reaping(func() error {
		var subjects []*subject
		var jail *specs.Spec
		for _, d := range b.found {
			kinds := []withChange{{bareDocker, nil}, {jailedDocker, nil}}
			if !b.brief {
				var err error
				if jail, err = b.jailSpec(d); err != nil {
					return err
				}
				kinds = allKinds(jail)
			}
			for _, k := range kinds {
				s, err := b.subject(d, k.kind, b.captured.id, k.change)
				if err != nil {
					return err
				}
				if k.kind == bareJail {
					if _, err := s.lifecycle(); err != nil {
						b.res.leftOut(s.name, err)
						continue
					}
				}
				subjects = append(subjects, s)
			}
		}
		if b.delegates == "" && !b.brief {
			subjects = append(subjects, b.peers()...)
		}
		if !b.brief {
			if s, err := b.least(jail); err == nil {
				subjects = append(subjects, s)
			} else {
				b.res.leftOut("the kernel's share", err)
			}
		}
		return b.interleave(ctx, "cycle", b.rounds, subjects, (*subject).lifecycle)
	})
}

// reachable opens Docker's directories, which are for the host's root and get their modes anew with
// each container: what enters a user namespace finds its root by name.
func (b *bench) reachable() error {
	for _, dir := range []string{b.e.Dir, filepath.Join(b.e.Dir, "docker"), filepath.Dir(b.dir)} {
		if err := os.Chmod(dir, 0o711); err != nil {
			return err
		}
	}
	return nil
}

// row is how many lives a sample of unrested has.
const row = 5

// unrested measures lives without any rest between them, several of one subject in a row, as on a
// machine that does nothing else than start containers. The kernel is then never in the state that
// a start after a rest meets (see rest), and what a subject hides behind waiting it hides no more.
func (b *bench) unrested(ctx context.Context) error {
	return reaping(func() error {
		subjects, err := b.lives(withChange{kind: bareDocker}, withChange{kind: jailedDocker})
		if err != nil {
			return err
		}
		return b.interleave(ctx, "unrested", b.rounds, subjects, func(s *subject) (sum sample, err error) {
			if _, err = s.lifecycle(); err != nil { // the one that had a rest
				return sum, err
			}
			for range row {
				one, err := s.lifecycle()
				if err != nil {
					return sum, err
				}
				sum.wall, sum.cpu = sum.wall+one.wall/row, sum.cpu+one.cpu/row
			}
			return sum, nil
		})
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

// onPlainRoot makes s the spec of a jail, but on its own root, and without what would need
// agentjail: bind mounts of Docker's files, and of what lies in the mount namespace that agentjail
// stages in, with what is mounted on top; and agentjail's own step before the program.
func onPlainRoot(s, jail *specs.Spec) {
	own := *s
	*s = *clone(jail)
	s.Root, s.Process.Args = own.Root, own.Process.Args
	var staged []string
	s.Mounts = slices.DeleteFunc(without(s.Mounts, dockersFiles...), func(m specs.Mount) bool {
		if pathname.Below(m.Source, state.DefaultRoot) {
			staged = append(staged, m.Destination)
			return true
		}
		return slices.ContainsFunc(staged, func(at string) bool { return pathname.Below(m.Destination, at) })
	})
}

// dockersFiles are bind mounts of files that belong to one container of Docker's, in a directory
// that only root enters.
var dockersFiles = []string{"/etc/resolv.conf", "/etc/hostname", "/etc/hosts"}

// jailSpec makes a jail and reads the spec that its delegate got.
func (b *bench) jailSpec(d delegate) (*specs.Spec, error) {
	s, err := b.subject(d, jailedDocker, b.captured.id, nil)
	if err != nil {
		return nil, err
	}
	if _, err := s.create(&sample{}); err != nil {
		return nil, err
	}
	store := state.Store{Root: state.DefaultRoot}
	key := state.Key(s.global[1], s.id)
	data, err := os.ReadFile(filepath.Join(store.Dir(key), "bundle", "config.json"))
	var record *state.Brief
	if err == nil {
		record, err = store.Brief(key)
	}
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
	// agentjail made the user namespace; here the delegate makes one with the same ids.
	for i := range spec.Linux.Namespaces {
		spec.Linux.Namespaces[i].Path = ""
	}
	spec.Linux.UIDMappings, spec.Linux.GIDMappings = record.IDs.UIDs, record.IDs.GIDs
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
