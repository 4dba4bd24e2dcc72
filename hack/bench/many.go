package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

const (
	// parallelRounds is how often each number of starts at once is measured, parallelStarts how
	// many starts that is.
	parallelRounds, parallelStarts = 5, 16
	// edge is how many of the first and the last starts of a crowd are counted.
	edge = 10

	firstStarts = "first 10"
	lastStarts  = "last 10"
)

// own is the change that makes a bundle one of several that run at a time: in a control group of
// its own, without what belongs to one container of Docker's.
func (b *bench) own(id string, args ...string) func(*specs.Spec) {
	return func(s *specs.Spec) {
		s.Linux.CgroupsPath = "/" + b.e.CgroupParent() + "/" + id
		s.Mounts = without(s.Mounts, dockersFiles...)
		s.Process.Args = args
	}
}

// parallel measures how many lives are lived in a second when several start at once: 1 to twice the
// processors.
func (b *bench) parallel(ctx context.Context) error {
	return reaping(func() error {
		type team struct {
			measured
			workers []*subject
		}
		var teams []*team
		for _, d := range b.newest() {
			for _, k := range []kind{bareDocker, jailedDocker} {
				var workers []*subject
				for i := range 2 * runtime.NumCPU() {
					id := fmt.Sprintf("bench-parallel-%d-%d", len(teams), i)
					s, err := b.subject(d, k, id, b.own(id, "/bin/true"))
					if err != nil {
						return err
					}
					workers = append(workers, s)
				}
				for n := 1; n <= len(workers); n *= 2 {
					teams = append(teams, &team{measured{
						Measure: "parallel", Variant: fmt.Sprint(n, " at once"), Delegate: d.name, Kind: k, Unit: "starts/s",
					}, workers[:n]})
				}
			}
		}
		random := rand.New(rand.NewPCG(2, 3))
		b.logf("parallel: %d rounds of %d subjects", parallelRounds, len(teams))
		for range parallelRounds {
			for _, i := range random.Perm(len(teams)) {
				start := time.Now()
				if err := atOnce(ctx, teams[i].workers, parallelStarts); err != nil {
					return err
				}
				teams[i].Samples = append(teams[i].Samples, parallelStarts/time.Since(start).Seconds())
			}
		}
		for _, t := range teams {
			b.res.addValues(t.measured)
		}
		return nil
	})
}

// atOnce has the workers live n lives between them.
func atOnce(ctx context.Context, workers []*subject, n int) error {
	lives := make(chan struct{}, n)
	for range n {
		lives <- struct{}{}
	}
	close(lives)
	errs := make([]error, len(workers))
	var wg sync.WaitGroup
	for i, s := range workers {
		wg.Go(func() {
			for range lives {
				if errs[i] != nil || ctx.Err() != nil {
					continue
				}
				if errs[i] = s.rename(); errs[i] == nil {
					_, errs[i] = s.lifecycle()
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}

// rename sets an id that no container had for the subject and its control group: as engines do.
func (s *subject) rename() error {
	config := filepath.Join(s.bundle, "config.json")
	text, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	base, n, _ := strings.Cut(s.id, ".")
	i, _ := strconv.Atoi(n)
	id := fmt.Sprint(base, ".", i+1)
	text = bytes.ReplaceAll(text, []byte("/"+s.id+`"`), []byte("/"+id+`"`))
	s.id = id
	return os.WriteFile(config, text, 0o600)
}

// crowd measures how the start of a container depends on how many there are already.
func (b *bench) crowd(ctx context.Context) error {
	return reaping(func() error { return b.crowdOf(ctx, b.newest()[0]) })
}

// crowdOf is crowd over one delegate.
func (b *bench) crowdOf(ctx context.Context, d delegate) error {
	for _, k := range []kind{bareDocker, jailedDocker} {
		b.logf("crowd: %d containers, %s, %s", b.crowdSize, d.name, k)
		var starts []float64
		stop, err := b.idle(ctx, d, k, b.crowdSize, func(s sample) { starts = append(starts, ms(s.wall)) })
		if serr := stop(); err == nil {
			err = serr
		}
		if err != nil {
			return err
		}
		m := measured{Measure: "crowd", Delegate: d.name, Kind: k, Unit: "ms"}
		m.Variant, m.Samples = firstStarts, starts[:edge]
		b.res.addValues(m)
		m.Variant, m.Samples = lastStarts, starts[len(starts)-edge:]
		b.res.addValues(m)
	}
	return nil
}

// idle starts n containers that only sleep, one after the other, and hands what each start took to
// each. stop, which is never nil, removes them. The caller is reaping.
func (b *bench) idle(ctx context.Context, d delegate, k kind, n int, each func(sample)) (stop func() error, err error) {
	var made []*subject
	pids := map[*subject]int{}
	stop = func() error {
		queue := make(chan *subject, len(made))
		for _, s := range made {
			queue <- s
		}
		close(queue)
		errs := make(chan error, len(made))
		var wg sync.WaitGroup
		for range runtime.NumCPU() {
			wg.Go(func() {
				for s := range queue {
					err := s.call(&sample{}, "delete", "--force", s.id)
					if pid := pids[s]; err == nil && pid != 0 {
						var ws unix.WaitStatus
						err = wait(pid, &ws, nil)
					}
					errs <- errors.Join(err, unix.Unmount(filepath.Join(s.bundle, "merged"), unix.MNT_DETACH), os.RemoveAll(s.bundle))
				}
			})
		}
		wg.Wait()
		close(errs)
		var all []error
		for err := range errs {
			all = append(all, err)
		}
		return errors.Join(all...)
	}
	for i := range n {
		if ctx.Err() != nil {
			return stop, ctx.Err()
		}
		id := fmt.Sprintf("bench-idle-%d", i)
		s, err := b.subject(d, k, id, b.own(id, "/bin/sleep", "100000"))
		if err != nil {
			return stop, err
		}
		s.global, s.trace = s.global[:2:2], "" // a trace of so many is of no use
		made = append(made, s)
		var took sample
		if pids[s], err = s.create(&took); err != nil {
			return stop, err
		}
		if err := s.call(&took, "start", s.id); err != nil {
			return stop, err
		}
		each(took)
	}
	return stop, nil
}
