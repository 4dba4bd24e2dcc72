package harden

import (
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// TestUpdated: what an update names is new, all else stays, and neither argument
// is changed.
func TestUpdated(t *testing.T) {
	was := &specs.LinuxResources{
		Memory:  &specs.LinuxMemory{Limit: new(int64(100)), Swap: new(int64(200))},
		CPU:     &specs.LinuxCPU{Quota: new(int64(5)), Period: new(uint64(10)), Cpus: "0-3"},
		Devices: []specs.LinuxDeviceCgroup{{Type: "c"}},
	}
	before := jsonOf(t, was)
	for _, c := range []struct {
		update *specs.LinuxResources
		want   string
	}{
		{nil, before},
		{&specs.LinuxResources{}, before},
		{&specs.LinuxResources{Memory: &specs.LinuxMemory{Limit: new(int64(50))}}, `{"devices":[{"allow":false,"type":"c"}],"memory":{"limit":50,"swap":200},"cpu":{"quota":5,"period":10,"cpus":"0-3"}}`},
		{&specs.LinuxResources{CPU: &specs.LinuxCPU{Quota: new(int64(7)), Period: new(uint64(8))}}, `{"devices":[{"allow":false,"type":"c"}],"memory":{"limit":100,"swap":200},"cpu":{"quota":7,"period":8,"cpus":"0-3"}}`},
		{&specs.LinuxResources{CPU: &specs.LinuxCPU{Cpus: "1"}, Unified: map[string]string{"memory.max": "1"}}, `{"devices":[{"allow":false,"type":"c"}],"memory":{"limit":100,"swap":200},"cpu":{"quota":5,"period":10,"cpus":"1"},"unified":{"memory.max":"1"}}`},
	} {
		if got := jsonOf(t, Updated(was, c.update)); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	if got := jsonOf(t, was); got != before {
		t.Errorf("the argument became %s", got)
	}
	if got := jsonOf(t, Updated(nil, &specs.LinuxResources{Memory: &specs.LinuxMemory{Limit: new(int64(1))}})); got != `{"memory":{"limit":1}}` {
		t.Errorf("of nothing: %s", got)
	}
}
