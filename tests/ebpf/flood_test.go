package ebpf

import (
	"path/filepath"
	"strconv"
	"testing"

	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// flood is how many refused calls a jail makes at once.
const flood = 100_000

// TestFloodIsCounted: of a jail that has more refused than may be reported, it is reported how many were left out; and another jail's refusals are reported all the
// same. What the calls cost is printed: in the jail and outside, with and without the programs.
func TestFloodIsCounted(t *testing.T) {
	p := newPlace(t)
	path := p.runtime(t)
	probe := filepath.Join(p.bin, "probe")
	env.Check(t, engine.Build("./tests/probe", probe))
	inBefore, outBefore := p.costs(t, path)(), outsideCosts(t, probe)
	c := p.collect(t, "--syscalls", "--no-pins")
	end := p.costs(t, path)
	var reported, dropped uint64
	c.await(t, "every call reported or counted", func() bool {
		reported, dropped = 0, 0
		for _, e := range c.events {
			switch {
			case e.Kind == journal.JournalLost:
				dropped += e.Dropped
			case e.Kind == journal.SyscallRefused:
				reported += max(1, e.Count)
			}
		}
		return reported+dropped >= flood
	})
	in, out := end(), outsideCosts(t, probe)
	for name := range in {
		t.Logf("%s in a jail: %d ns, and %d without the programs (%.2f)", name, in[name], inBefore[name], ratio(in[name], inBefore[name]))
	}
	for name := range out {
		t.Logf("%s outside: %d ns, and %d without the programs (%.2f)", name, out[name], outBefore[name], ratio(out[name], outBefore[name]))
	}
	t.Logf("%d calls: %d reported, %d counted as left out", flood, reported, dropped)
	if dropped == 0 || reported+dropped > flood+5000 {
		t.Errorf("%d calls: %d reported and %d left out", flood, reported, dropped)
	}
	p.jail(t, path, "", "attempts", "keyctl") // stays until the end of the test
	c.await(t, "another jail's refusal", func() bool {
		return c.find(func(e *journal.Event) bool { return e.Syscall == "keyctl" && e.Program == "probe" }) != nil
	})
}

func ratio(a, b int64) float64 { return float64(a) / float64(max(1, b)) }

// costs are a call's nanoseconds in a jail, to who lets it end.
func (p *place) costs(t *testing.T, path string) (end func() map[string]int64) {
	t.Helper()
	return probes[int64](t, p.bundle(t), p.caller(path, ""), "refused-calls", strconv.Itoa(flood))
}

// outsideCosts are a call's nanoseconds in a process that is in no jail.
func outsideCosts(t *testing.T, probe string) map[string]int64 {
	t.Helper()
	out, err := runProbe(probe, "refused-calls", strconv.Itoa(flood), "outside")
	env.Check(t, err)
	return found[int64](t, out)
}
