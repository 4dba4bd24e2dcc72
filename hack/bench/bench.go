package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
)

// warmup is how many rounds are run and not counted.
const warmup = 3

// rest is how long nothing happens before each sample. A move into a control group leaves the
// kernel in a state, for some ten milliseconds, in which the next costs nothing
// (kernel/rcu/sync.c): without a rest, chance would report which subject profits from the one
// before it. On a machine that starts containers all the time, none waits.
const rest = 50 * time.Millisecond

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
	cleanup   []func() error
	// repositories is where repository makes directories, "" beside the engine's.
	repositories string
}

// measures are what can be measured, in this order, by the names that -only takes.
var measures = []struct {
	name string
	take func(*bench, context.Context) error
}{
	{"cycle", (*bench).cycles},
	{"unrested", (*bench).unrested},
	{"exec", (*bench).execs},
	{"layers", (*bench).layers},
	{"docker", (*bench).dockerRuns},
	{"ctr", (*bench).ctrRuns},
	{"engines", (*bench).today},
	{"parallel", (*bench).parallel},
	{"crowd", (*bench).crowd},
	{"loops", (*bench).loops},
	{"work", (*bench).work},
	{"idle", (*bench).idleContainers},
	{"shim", (*bench).shims},
	{"disk", (*bench).disk},
	{"views", (*bench).views},
	{"apply", (*bench).applies},
	{"names", (*bench).names},
	{"connections", (*bench).connections},
}

// all prepares and measures.
func (b *bench) all(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("needs root")
	}
	// Other work on the machine should disturb little; everything measured inherits this alike.
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, -20); err != nil {
		b.logf("cannot be run before other processes (setpriority: %v): numbers will be noisier", err)
	}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	if b.brief {
		return b.smoke(ctx)
	}
	return b.take(ctx)
}

// take takes the measures that were requested. One that fails does not cost the others.
func (b *bench) take(ctx context.Context) error {
	var errs []error
	for _, m := range measures {
		if !b.has(m.name) || ctx.Err() != nil {
			continue
		}
		if err := m.take(b, ctx); err != nil {
			b.logf("%s: %v", m.name, err)
			errs = append(errs, fmt.Errorf("%s: %w", m.name, err))
		}
	}
	return errors.Join(append(errs, ctx.Err())...)
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
		runtimes[dockerName("agentjail", d)] = engine.Runtime{Path: d.agentjail}
	}
	b.logf("starting a Docker of its own")
	if b.e, err = engine.Start(engine.Options{Runtimes: runtimes, Log: b.logf}); err != nil {
		return err
	}
	if err := b.e.ImportBusybox(); err != nil {
		return err
	}
	b.res.Host = describeHost(b.e.Versions())
	// Among Docker's own layers: by them agentjail knows whose the files are that Docker's bundle
	// mounts.
	b.dir = filepath.Join(b.e.Dir, "docker", "overlay2", "bench")
	if err := os.MkdirAll(b.dir, 0o711); err != nil {
		return err
	}
	if b.captured, err = captureBundle(ctx, b.e, "capture", config); err != nil {
		return err
	}
	if b.root, err = newRootfs(b.dir, 1); err != nil {
		return err
	}
	return b.dropBroken()
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
	for _, f := range b.cleanup {
		errs = append(errs, f())
	}
	return errors.Join(append(errs, engine.RemoveBuilt())...)
}

func (b *bench) logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}

// subject makes one with a bundle of its own.
func (b *bench) subject(d delegate, k kind, id string, change func(*specs.Spec)) (*subject, error) {
	return b.subjectOf(b.root, d, k, id, change)
}

// lives makes subjects of kinds over each delegate, each with the life of Docker's container.
func (b *bench) lives(kinds ...withChange) (out []*subject, err error) {
	for _, d := range b.found {
		for _, k := range kinds {
			s, err := b.subject(d, k.kind, b.captured.id, k.change)
			if err != nil {
				return nil, err
			}
			out = append(out, s)
		}
	}
	return out, nil
}

// subjectOf makes one of another image.
func (b *bench) subjectOf(root *rootfs, d delegate, k kind, id string, change func(*specs.Spec)) (*subject, error) {
	b.made++
	dir := filepath.Join(b.dir, strconv.Itoa(b.made))
	s := &subject{
		name: d.name + ", " + string(k), delegate: d.name, kind: k, id: id, bin: d.path,
		bundle: dir, global: []string{"--root", dir + ".root"},
	}
	if slices.Contains([]kind{jailed, jailedDocker, jailedNames, jailedDisk, jailedDirect, jailedView}, k) {
		s.bin = d.agentjail
		s.trace = dir + ".trace"
		s.global = append(s.global, "--trace", s.trace)
	}
	if policy, err := policyOf(k); err != nil {
		return nil, err
	} else if policy != "" {
		s.global = append(s.global, "--config", policy)
	}
	return s, writeBundle(s.bundle, root, &b.captured.spec, change)
}

// interleave measures every subject once a round, in a random order (with the same seed in every
// run), so that neither the machine's changing load nor what one leaves in caches favours any of
// them. Nothing happens for rest before each sample.
func (b *bench) interleave(ctx context.Context, measure string, rounds int, subjects []*subject, take func(*subject) (sample, error)) error {
	random := rand.New(rand.NewPCG(2, 3))
	samples := map[*subject][]sample{}
	b.logf("%s: %d rounds of %d subjects", measure, rounds, len(subjects))
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
			time.Sleep(rest)
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
