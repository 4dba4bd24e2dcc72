package ebpf

import (
	"testing"

	"agentjail.dev/runtime/idmap"
)

func TestProbeNow(t *testing.T) {
	a, err := Probe()
	t.Log(a, err)
	s, err := Load(Options{Pools: []idmap.Pool{idmap.DefaultPool()}, Verdict: Default, Loud: 100, Rate: 100, Syscalls: true, Fallback: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, p := range s.Programs {
		t.Log(p)
	}
}
