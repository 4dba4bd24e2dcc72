package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/tests/engine"
)

// What is at rest.
const (
	idleContainer kind = "idle container"
	idleJail      kind = "idle jail"
	stockShim     kind = "containerd's own shim"
	ourShim       kind = "agentjail's shim"
)

// idleCount is how many containers lie idle at once; memoryRounds, how often that is done.
const (
	idleCount    = 20
	memoryRounds = 4
)

// atRest is when what was started has come to rest: agentjail's shim releases memory after a second
// without work.
const atRest = 3 * time.Second

// The ways to look at what a container takes.
const (
	wholeMachine = "whole machine: memory that is no longer free once caches are dropped"
	kernelParts  = "kernel: slabs, page tables, per-processor data, stacks and other vmalloc"
	processesPSS = "PSS of processes"
)

// memoryPairs are about what lies idle.
var memoryPairs = []pair{
	{"idle", "memory per idle container", side{kind: idleJail, variant: wholeMachine}, side{kind: idleContainer, variant: wholeMachine}, &target{ofDifference, 1024, "at most +1 MiB"}, 0},
	{"idle", "memory per idle container", side{kind: idleJail, variant: kernelParts}, side{kind: idleContainer, variant: kernelParts}, nil, 0},
	{"idle", "memory per idle container", side{kind: idleJail, variant: processesPSS}, side{kind: idleContainer, variant: processesPSS}, nil, 0},
	{"shim", "memory of an idle shim", side{kind: ourShim}, side{kind: stockShim}, atMost(1, "no more"), 2},
}

// idleContainers measures what the machine has less while many containers sleep.
func (b *bench) idleContainers(ctx context.Context) error {
	return reaping(func() error { return b.idleOf(ctx, "idle", []kind{idleContainer, idleJail}) })
}

// idleOf is idleContainers of some kinds, over one delegate: none leaves anything behind that lies
// idle with its container. The caller is reaping.
func (b *bench) idleOf(ctx context.Context, measure string, kinds []kind) error {
	d := b.newest()[0]
	of := map[kind]map[string][]float64{}
	b.logf("%s: %d rounds of %d containers over %s", measure, memoryRounds, idleCount, d.name)
	for round := range 1 + memoryRounds {
		for _, k := range kinds {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			got, err := b.idleOnce(d, k)
			if err != nil {
				return err
			}
			if round == 0 { // fills what the kernel keeps for the next
				of[k] = map[string][]float64{}
				continue
			}
			for what, v := range got {
				of[k][what] = append(of[k][what], v)
			}
		}
	}
	for _, k := range kinds {
		for _, what := range []string{wholeMachine, kernelParts, processesPSS} {
			b.res.addValues(measured{Measure: measure, Variant: what, Delegate: d.name, Kind: k, Unit: "KiB", Samples: of[k][what]})
		}
	}
	return nil
}

// idleOnce starts containers, looks, and removes them. What it returns is per container, in KiB.
func (b *bench) idleOnce(d delegate, k kind) (_ map[string]float64, err error) {
	as := map[kind]kind{idleContainer: bareDocker, idleJail: jailedDocker, idleNamed: jailedNames}[k]
	before, err := machineMemory()
	if err != nil {
		return nil, err
	}
	var subjects []*subject
	defer func() {
		err = errors.Join(err, deleteAll(subjects))
	}()
	var pids []int
	for range idleCount {
		id := fmt.Sprintf("bench-idle-%d", b.made)
		s, err := b.subject(d, as, id, func(s *specs.Spec) { b.sleeping(s, id) })
		if err != nil {
			return nil, err
		}
		pid, err := s.begin()
		if err != nil {
			return nil, err
		}
		subjects = append(subjects, s)
		pids = append(pids, pid)
		if as == jailedNames {
			helper, err := s.helper()
			if err != nil {
				return nil, err
			}
			pids = append(pids, helper)
		}
	}
	// A delegate's own program may still be there for a moment after start has reported its end.
	time.Sleep(atRest)
	pss := 0.0
	for _, pid := range pids {
		m, err := processMemory(pid)
		if err != nil {
			return nil, err
		}
		pss += m["Pss"]
	}
	after, err := machineMemory()
	if err != nil {
		return nil, err
	}
	more := func(names ...string) (sum float64) {
		for _, n := range names {
			sum += after[n] - before[n]
		}
		return sum / idleCount
	}
	return map[string]float64{
		wholeMachine: -more("MemFree"),
		// Stacks are part of VmallocUsed (proc_meminfo(5), CONFIG_VMAP_STACK).
		kernelParts:  more("Slab", "PageTables", "Percpu", "VmallocUsed"),
		processesPSS: pss / idleCount,
	}, nil
}

// machineMemory reads /proc/meminfo, in KiB, once caches are dropped.
func machineMemory() (map[string]float64, error) {
	if err := dropCaches(); err != nil {
		return nil, err
	}
	return kibibytes("/proc/meminfo")
}

// processMemory is what a process has in memory, in KiB (proc_pid_smaps(5)).
func processMemory(pid int) (map[string]float64, error) {
	return kibibytes(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
}

// kibibytes reads lines like "Name:  123 kB". Others are skipped.
func kibibytes(path string) (map[string]float64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 3 || f[2] != "kB" {
			continue
		}
		if out[strings.TrimSuffix(f[0], ":")], err = strconv.ParseFloat(f[1], 64); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, line, err)
		}
	}
	return out, nil
}

// shims measures what a shim has in memory that has one container and nothing to do.
func (b *bench) shims(ctx context.Context) (err error) {
	shim, err := engine.Shim()
	if err != nil {
		return err
	}
	for _, tool := range []string{"", "containerd"} {
		c, err := startContainerd(tool, shim, b.logf)
		if err != nil {
			b.res.leftOut("a containerd", err)
			continue
		}
		if err := errors.Join(b.shimsOf(ctx, c), c.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) shimsOf(ctx context.Context, c *engine.Containerd) error {
	if err := c.ImportBusybox(c.Namespace()); err != nil {
		return err
	}
	kinds := []kind{stockShim, ourShim}
	names := map[string]string{"Rss": "resident", "Pss": "PSS", "Anonymous": "anonymous", "Private_Dirty": "private and written to"}
	of := map[kind]map[string][]float64{stockShim: {}, ourShim: {}}
	for range memoryRounds {
		for _, k := range kinds {
			m, err := idleShim(ctx, c, map[kind]string{stockShim: "io.containerd.runc.v2", ourShim: engine.ShimRuntime}[k])
			if err != nil {
				return err
			}
			for n := range names {
				of[k][n] = append(of[k][n], m[n])
			}
		}
	}
	for _, k := range kinds {
		for _, n := range []string{"Pss", "Anonymous", "Private_Dirty", "Rss"} {
			b.res.addValues(measured{Measure: "shim", Variant: names[n], Delegate: "containerd " + c.Version(), Kind: k, Unit: "KiB", Samples: of[k][n]})
		}
	}
	return nil
}

// idleShim runs a container and a second process in it, and looks at its shim when that is at rest.
// Only one shim runs at a time, so that no two share the pages of a program.
func idleShim(ctx context.Context, c *engine.Containerd, runtime string) (_ map[string]float64, err error) {
	const id = "idle"
	if r := c.Ctr(ctx, "run", "-d", "--runtime", runtime, engine.BusyboxImage, id, "sleep", "100000"); r.Code != 0 {
		return nil, errors.New(r.String())
	}
	defer func() {
		for _, args := range [][]string{{"tasks", "rm", "--force", id}, {"containers", "rm", id}} {
			if r := c.Ctr(ctx, args...); r.Code != 0 && err == nil {
				err = errors.New(r.String())
			}
		}
	}()
	if r := c.Ctr(ctx, "tasks", "exec", "--exec-id", "one", id, "true"); r.Code != 0 {
		return nil, errors.New(r.String())
	}
	pid, err := processIn(c.Bundle(id))
	if err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(atRest):
	}
	return processMemory(pid)
}

// processIn finds the process that has a working directory: a shim's is its container's bundle.
func processIn(dir string) (int, error) {
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(links, func(l string) bool { at, err := os.Readlink(l); return err == nil && at == dir })
	if i < 0 {
		return 0, fmt.Errorf("no process is in %s", dir)
	}
	return strconv.Atoi(strings.Split(links[i], "/")[2])
}
