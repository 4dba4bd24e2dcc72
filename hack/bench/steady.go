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
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/tests/engine"
)

// steadyPairs are about what a container does once it runs. What a jail's filters and Landlock cost
// shows in the first, held against a container as an engine makes it; real work is held against one
// without any filter.
var steadyPairs = []pair{
	{"calls", "system call", side{kind: jailedDocker}, side{kind: bareDocker}, atMost(1.02, "at most 1.02"), 3},
	{"calls", "system call, Docker's filter against none", side{kind: bareDocker}, side{kind: bare}, nil, 0},
	{"layer", "layer in memory against overlay2 on disk", side{kind: jailedDocker}, side{kind: bareDocker}, atMost(1, "no more"), 3},
	{"work", "real work", side{kind: jailedDocker}, side{kind: bare}, atMost(1.02, "at most 1.02"), 2},
	{"work", "real work, Docker's filter against none", side{kind: bareDocker}, side{kind: bare}, nil, 0},
}

// running makes a container of every kind over each delegate that sleeps on a root, and has f
// measure them. cpus are the processors that it may use, "" for all.
func (b *bench) running(root *rootfs, cpus string, kinds []kind, f func([]*subject) error) error {
	var changed []withChange
	for _, k := range kinds {
		c := withChange{kind: k}
		if k == bare || k == jailed {
			c.change = noFilter
		}
		changed = append(changed, c)
	}
	return b.runningChanged(root, cpus, changed, f)
}

// runningChanged is running of kinds with changed bundles.
func (b *bench) runningChanged(root *rootfs, cpus string, kinds []withChange, f func([]*subject) error) error {
	own := b.root
	b.root = root
	defer func() { b.root = own }()
	return reaping(func() error {
		var subjects []*subject
		defer func() { _ = deleteAll(subjects) }()
		for _, d := range b.found {
			for _, k := range kinds {
				id := fmt.Sprintf("bench-steady-%d", b.made)
				s, err := b.subject(d, k.kind, id, func(s *specs.Spec) {
					if k.change != nil {
						k.change(s)
					}
					b.sleeping(s, id)
					if s.Linux.Resources.CPU == nil {
						s.Linux.Resources.CPU = &specs.LinuxCPU{}
					}
					s.Linux.Resources.CPU.Cpus = cpus
				})
				if err != nil {
					return err
				}
				if _, err := s.begin(); err != nil {
					return err
				}
				subjects = append(subjects, s)
			}
		}
		return f(subjects)
	})
}

// sleeping makes s the spec of a container that does nothing.
func (b *bench) sleeping(s *specs.Spec, id string) {
	s.Process.Args = []string{"/bin/sleep", "100000"}
	s.Linux.CgroupsPath = "/" + b.e.CgroupParent() + "/" + id
	s.Mounts = without(s.Mounts, dockersFiles...)
}

// outputWait is when a program in a container has got stuck.
const outputWait = 2 * time.Minute

// output runs a program in the subject's container and returns what it prints.
func (b *bench) output(s *subject, args ...string) (string, error) {
	p := *b.captured.spec.Process
	p.Args = args
	data, err := json.Marshal(&p)
	if err != nil {
		return "", err
	}
	process := s.bundle + ".process.json"
	if err := os.WriteFile(process, data, 0o600); err != nil {
		return "", err
	}
	// No pipes: what the program leaves running would hold them open.
	var files [2]*os.File
	for i := range files {
		if files[i], err = os.Create(fmt.Sprintf("%s.out%d", s.bundle, i)); err != nil {
			return "", err
		}
		defer files[i].Close()
	}
	cmd := s.cmd(files[1], "exec", "--process", process, s.id)
	cmd.Stdout = files[0]
	if err := cmd.Start(); err != nil {
		return "", err
	}
	stuck := time.AfterFunc(outputWait, func() { _ = cmd.Process.Kill() })
	err = cmd.Wait()
	stuck.Stop()
	text, rerr := os.ReadFile(files[0].Name())
	if err != nil {
		errs, _ := os.ReadFile(files[1].Name())
		return "", fmt.Errorf("%s: %s: %w: %s%s", s.name, strings.Join(args, " "), err, text, errs)
	}
	return string(text), rerr
}

// A reading is a number that a program in a container printed, and what of.
type reading struct {
	variant string
	value   float64
}

// readings parses lines of a number, a tab, and a name.
func readings(text string) ([]reading, error) {
	var out []reading
	for line := range strings.Lines(text) {
		number, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		v, err := strconv.ParseFloat(number, 64)
		if !ok || err != nil {
			return nil, fmt.Errorf("not a number and a name: %q", line)
		}
		out = append(out, reading{name, v})
	}
	return out, nil
}

// steadyRounds takes each subject's readings once a round, in a random order, and adds them to the
// results.
func (b *bench) steadyRounds(ctx context.Context, measure, unit string, rounds int, subjects []*subject, take func(*subject) ([]reading, error)) error {
	random := rand.New(rand.NewPCG(4, 5))
	b.logf("%s: %d rounds of %d subjects", measure, rounds, len(subjects))
	of := map[*subject][]*measured{} // in the order of the readings
	for round := range 1 + rounds {
		for _, i := range random.Perm(len(subjects)) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			s := subjects[i]
			got, err := take(s)
			if err != nil {
				return err
			}
			if round == 0 { // warms up
				for _, r := range got {
					of[s] = append(of[s], &measured{Measure: measure, Variant: r.variant, Delegate: s.delegate, Kind: s.kind, Unit: unit})
				}
				continue
			}
			if len(got) != len(of[s]) {
				return fmt.Errorf("%s: %d readings after %d", s.name, len(got), len(of[s]))
			}
			for k, r := range got {
				of[s][k].Samples = append(of[s][k].Samples, r.value)
			}
		}
	}
	for _, s := range subjects {
		for _, m := range of[s] {
			b.res.addValues(*m)
		}
	}
	return nil
}

// layerRounds is how often writes to the layer are measured.
const layerRounds = 15

// loopRounds is how often system calls are: their medians are steady by then.
const loopRounds = 30

// loopsPath is where hack/bench/loops lies in an image.
const loopsPath = "/usr/local/bin/loops"

// rootWith is the busybox image with a program of hack/bench in a layer of its own.
func (b *bench) rootWith(name, path string) (*rootfs, error) {
	base, err := newRootfs(b.dir, 1)
	if err != nil {
		return nil, err
	}
	r := &rootfs{dir: base.dir, lowers: append([]string{name}, base.lowers...)}
	return r, engine.Build("./hack/bench/"+name, filepath.Join(r.dir, name, path))
}

// loops measures single system calls, and writes to the layer.
func (b *bench) loops(ctx context.Context) error {
	root, err := b.rootWith("loops", loopsPath)
	if err != nil {
		return err
	}
	return b.running(root, "0", []kind{bare, bareDocker, jailedDocker}, func(subjects []*subject) error {
		if err := b.steadyRounds(ctx, "calls", "ns", min(b.rounds, loopRounds), subjects, func(s *subject) ([]reading, error) { return b.loop(s, "calls") }); err != nil {
			return err
		}
		// No delegate has a part in what a layer is; and files that are synced take long.
		first := slices.DeleteFunc(slices.Clone(subjects), func(s *subject) bool { return s.delegate != subjects[0].delegate || s.kind == bare })
		return b.steadyRounds(ctx, "layer", "ns", min(b.rounds, layerRounds), first, func(s *subject) ([]reading, error) { return b.loop(s, "layer") })
	})
}

func (b *bench) loop(s *subject, group string) ([]reading, error) {
	out, err := b.output(s, loopsPath, "-group", group)
	if err != nil {
		return nil, err
	}
	return readings(out)
}

// workRoot is the tests' image with toolchains, which is made the first time (minutes; see
// engine.WorkTar).
func (b *bench) workRoot() (*rootfs, error) {
	lower := filepath.Join(b.dir, "toolchains")
	r := &rootfs{dir: b.dir, lowers: []string{filepath.Base(lower)}}
	if _, err := os.Stat(lower); err == nil {
		return r, nil
	}
	tar, err := engine.WorkTar()
	if err != nil {
		return nil, err
	}
	part := lower + ".part"
	if err := os.Mkdir(part, 0o755); err != nil {
		return nil, err
	}
	if out, err := exec.Command("tar", "-x", "--numeric-owner", "-C", part, "-f", tar).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("unpack the image of toolchains: %w: %s", err, out)
	}
	for _, f := range dockersFiles {
		at := filepath.Join(part, f)
		if _, err := os.Lstat(at); errors.Is(err, os.ErrNotExist) {
			if err := os.WriteFile(at, nil, 0o644); err != nil {
				return nil, err
			}
		}
	}
	return r, os.Rename(part, lower)
}
