package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/state"
	"agentjail.dev/tests/engine"
)

// warmup is how many rounds are run and not counted.
const warmup = 3

// bench is one run of the program.
type bench struct {
	options
	res       *results
	e         *engine.Engine
	dir       string // of bundles and traces, swept with the engine's
	agentjail string
	found     []delegate
	captured  *capture
	root      *rootfs
	made      int // bundles
}

// A delegate is a runc, and the policy that makes agentjail use it.
type delegate struct{ name, path, policy string }

// measures are what can be measured, in this order, by the names that -only takes.
var measures = []struct {
	name string
	take func(*bench, context.Context) error
}{
	{"cycle", (*bench).cycles},
	{"exec", (*bench).execs},
	{"docker", (*bench).dockerRuns},
}

// all prepares and measures.
func (b *bench) all(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("needs root")
	}
	// Other work on the machine should disturb little; everything measured inherits this alike.
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, -20); err != nil {
		b.say("cannot be run before other processes (setpriority: %v): numbers will be noisier", err)
	}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	for _, m := range measures {
		if b.has(m.name) {
			if err := m.take(b, ctx); err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
		}
	}
	return ctx.Err()
}

// prepare builds, starts Docker and copies the bundle that it makes.
func (b *bench) prepare(ctx context.Context) (err error) {
	if b.agentjail, err = engine.UnderTest(); err != nil {
		return err
	}
	if err := b.findDelegates(); err != nil {
		return err
	}
	bin, err := engine.BinDir()
	if err != nil {
		return err
	}
	config, script := filepath.Join(bin, "captured.json"), filepath.Join(bin, "capture")
	if err := os.WriteFile(script, fmt.Appendf(nil, captureRuntime, config), 0o755); err != nil {
		return err
	}
	runtimes := map[string]engine.Runtime{"capture": {Path: script}}
	for _, d := range b.found {
		runtimes[dockerName("bare", d)] = engine.Runtime{Path: d.path}
		runtimes[dockerName("agentjail", d)] = engine.Runtime{Path: b.agentjail, Args: []string{"--config", d.policy}}
	}
	b.say("starting a Docker of its own")
	if b.e, err = engine.Start(engine.Options{Runtimes: runtimes, Log: b.say}); err != nil {
		return err
	}
	if err := b.e.ImportBusybox(); err != nil {
		return err
	}
	b.res.Host = describeHost(b.e.Versions())
	b.dir = filepath.Join(b.e.Dir, "bench")
	if err := os.Mkdir(b.dir, 0o711); err != nil {
		return err
	}
	if b.captured, err = captureBundle(ctx, b.e, "capture", config); err != nil {
		return err
	}
	b.root, err = newRootfs(b.dir)
	return err
}

// close cleans up; what a jail left in an interrupted run is reclaimed.
func (b *bench) close() error {
	var errs []error
	if b.e != nil {
		errs = append(errs, b.e.Close())
		if out, err := exec.Command(b.agentjail, "gc").CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("agentjail gc: %w: %s", err, out))
		}
	}
	return errors.Join(append(errs, engine.RemoveBuilt())...)
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}

// findDelegates takes the distribution's runc and builds the newest one.
func (b *bench) findDelegates() error {
	var paths []string
	if p, err := exec.LookPath("runc"); err == nil {
		if p, err = filepath.EvalSymlinks(p); err == nil {
			paths = append(paths, p)
		}
	}
	root, err := engine.ModuleRoot()
	if err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(root, "hack/tools/build.sh"), "runc")
	cmd.Stderr = os.Stderr
	if out, err := cmd.Output(); err == nil {
		paths = append(paths, strings.TrimSpace(string(out)))
	} else {
		b.say("the newest runc cannot be built here, and is left out: %v", err)
	}
	bin, err := engine.BinDir()
	if err != nil {
		return err
	}
	for i, p := range paths {
		out, err := exec.Command(p, "--version").Output()
		if err != nil {
			return fmt.Errorf("%s --version: %w", p, err)
		}
		// "runc version 1.1.5+ds1"
		line, _, _ := strings.Cut(string(out), "\n")
		version, _, _ := strings.Cut(line[strings.LastIndexByte(line, ' ')+1:], "+")
		d := delegate{name: "runc " + version, path: p, policy: filepath.Join(bin, fmt.Sprintf("policy-%d.toml", i))}
		if !strings.Contains(d.name, b.delegates) {
			continue
		}
		if err := os.WriteFile(d.policy, fmt.Appendf(nil, "delegate = %q\n", p), 0o644); err != nil {
			return err
		}
		b.found = append(b.found, d)
	}
	if len(b.found) == 0 {
		return errors.New("no runc to compare with")
	}
	return nil
}

// dockerName is what a runtime is registered as.
func dockerName(what string, d delegate) string {
	return what + "-" + strings.ReplaceAll(d.name, " ", "-")
}

// subject makes one with a bundle of its own.
func (b *bench) subject(d delegate, k kind, id string, change func(*specs.Spec)) (*subject, error) {
	b.made++
	dir := filepath.Join(b.dir, strconv.Itoa(b.made))
	s := &subject{
		name: d.name + ", " + string(k), delegate: d.name, kind: k, id: id, bin: d.path,
		bundle: dir, global: []string{"--root", dir + ".root"},
	}
	if k == jailed || k == jailedDocker {
		s.bin = b.agentjail
		s.trace = dir + ".trace"
		s.global = append(s.global, "--config", d.policy, "--trace", s.trace)
	}
	return s, writeBundle(s.bundle, b.root, &b.captured.spec, change)
}

// noFilter is the change that takes the profile from a bundle.
func noFilter(s *specs.Spec) { s.Linux.Seccomp = nil }

// cycles measures create, start, wait and delete.
func (b *bench) cycles(ctx context.Context) error {
	return reaping(func() error {
		var subjects []*subject
		for _, d := range b.found {
			jail, err := b.jailSpec(d)
			if err != nil {
				return err
			}
			for _, k := range []struct {
				kind   kind
				change func(*specs.Spec)
			}{
				{bare, noFilter},
				{bareDocker, nil},
				// A jail's filter expects no_new_privs, as every jail has it.
				{bareOurs, func(s *specs.Spec) { s.Linux.Seccomp = jail.Linux.Seccomp; s.Process.NoNewPrivileges = true }},
				{bareJail, func(s *specs.Spec) { onPlainRoot(s, jail) }},
				{jailed, noFilter},
				{jailedDocker, nil},
			} {
				s, err := b.subject(d, k.kind, b.captured.id, k.change)
				if err != nil {
					return err
				}
				subjects = append(subjects, s)
			}
		}
		return b.interleave(ctx, "cycle", b.rounds, subjects, (*subject).lifecycle)
	})
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

// dockersFiles are bind mounts of files that belong to one container of Docker's, in a folder that only root enters.
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
	return reaping(func() error {
		var subjects []*subject
		defer func() {
			for _, s := range subjects {
				_ = s.call(&sample{}, "delete", "--force", s.id)
			}
		}()
		process := filepath.Join(b.dir, "process.json")
		p := *b.captured.spec.Process
		data, err := json.Marshal(&p)
		if err != nil {
			return err
		}
		if err := os.WriteFile(process, data, 0o600); err != nil {
			return err
		}
		for i, d := range b.found {
			for k, kind := range []kind{bareDocker, jailedDocker} {
				id := fmt.Sprintf("bench-exec-%d-%d", i, k)
				s, err := b.subject(d, kind, id, func(s *specs.Spec) {
					s.Process.Args = []string{"/bin/sleep", "100000"}
					s.Linux.CgroupsPath = "/" + b.e.CgroupParent() + "/" + id
					s.Mounts = without(s.Mounts, dockersFiles...)
				})
				if err != nil {
					return err
				}
				if _, err := s.create(&sample{}); err != nil {
					return err
				}
				subjects = append(subjects, s)
				if err := s.call(&sample{}, "start", s.id); err != nil {
					return err
				}
			}
		}
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

// dockerRuns measures what somebody at a terminal waits for.
func (b *bench) dockerRuns(ctx context.Context) error {
	var subjects []*subject
	for _, d := range b.found {
		subjects = append(subjects,
			&subject{name: d.name + ", docker run", delegate: d.name, kind: wholeDocker, id: dockerName("bare", d)},
			&subject{name: d.name + ", docker run with agentjail", delegate: d.name, kind: wholeDockerJailed, id: dockerName("agentjail", d)})
	}
	return b.interleave(ctx, "docker", b.dockerRounds, subjects, func(s *subject) (out sample, err error) {
		r := b.e.Docker(ctx, "run", "--rm", "--runtime", s.id, engine.Busybox, "true")
		if r.Code != 0 {
			err = fmt.Errorf("%s: %s", s.name, r)
		}
		out.wall = r.Took
		return out, err
	})
}

// interleave measures every subject once a round, in an order that chance gives (the same chance in every run), so that
// neither the machine's changing load nor what one leaves in caches favours any of them.
func (b *bench) interleave(ctx context.Context, measure string, rounds int, subjects []*subject, take func(*subject) (sample, error)) error {
	random := rand.New(rand.NewPCG(2, 3))
	samples := map[*subject][]sample{}
	b.say("%s: %d rounds of %d subjects", measure, rounds, len(subjects))
	for round := range warmup + rounds {
		if round == warmup {
			for _, s := range subjects {
				if s.trace != "" {
					_ = os.Remove(s.trace)
				}
			}
		}
		for _, i := range random.Perm(len(subjects)) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			got, err := take(subjects[i])
			if err != nil {
				return err
			}
			if round >= warmup {
				samples[subjects[i]] = append(samples[subjects[i]], got)
			}
		}
	}
	for _, s := range subjects {
		if err := b.res.add(measure, s, samples[s]); err != nil {
			return err
		}
	}
	return nil
}
