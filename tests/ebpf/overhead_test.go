package ebpf

import (
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"agentjail.dev/runtime/observe/ebpf"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// Rounds of TestCostOfPrograms, with and without programs in turn, and how many calls of a kind are timed in each.
const (
	costRounds = 3
	costCalls  = 20000
)

// TestCostOfPrograms measures what the programs cost, outside jails and in one, as ratios of the quickest: those of the default, and besides those that
// an option adds, on connections where the kernel lets programs refuse, and otherwise on every system call. Under emulation the ratios are the
// emulator's, not a processor's, and a machine with other work has others each time, so none of them fails the test.
func TestCostOfPrograms(t *testing.T) {
	option := "--connections"
	if can, err := needsPrograms(t); can == ebpf.Watches {
		option = "--syscalls"
		t.Logf("this kernel's programs do not block, so what that costs cannot be measured here: %v", err)
	}
	p := newPlace(t)
	path := p.runtime(t)
	probe := filepath.Join(p.bin, "probe")
	env.Check(t, engine.Build("./tests/probe", probe))
	times := map[string]map[string][3][]int64{"outside": {}, "in a jail": {}}
	measure := func(with int) {
		t.Helper()
		outside, err := runProbe(probe, "costs", strconv.Itoa(costCalls))
		env.Check(t, err)
		inside, err := p.bundle(t, "costs", strconv.Itoa(costCalls)).Run(t, engine.Caller{Path: path, Args: []string{"--root", filepath.Join(p.base, "state")}})
		env.Check(t, err)
		for where, text := range map[string]string{"outside": outside, "in a jail": inside} {
			for call, ns := range found[int64](t, text) {
				all := times[where][call]
				all[with] = append(all[with], ns)
				times[where][call] = all
			}
		}
	}
	for range costRounds {
		measure(0)
		for i, args := range [][]string{{"--no-pins"}, {"--no-pins", option}} {
			c := p.collect(t, args...)
			measure(1 + i)
			c.kill(t)
		}
	}
	for where, calls := range times {
		for call, all := range calls {
			for _, list := range all {
				slices.Sort(list)
			}
			without, with, more := all[0][0], all[1][0], all[2][0]
			t.Logf("%s %s: %d ns, and %d without the programs (%.2f); %d with %s (%.2f)", call, where, with, without, ratio(with, without), more,
				option, ratio(more, without))
		}
	}
}
