package runccli

import (
	"reflect"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// TestUpdateFlags: sizes are read as runc reads them, and a number that its field cannot hold is refused.
func TestUpdateFlags(t *testing.T) {
	size := func(v int64) specs.LinuxResources {
		return specs.LinuxResources{Memory: &specs.LinuxMemory{Limit: &v}}
	}
	period, weight, quota := uint64(100000), uint16(1000), int64(-1)
	for _, row := range []struct {
		flag, value string
		want        specs.LinuxResources // nothing where the value is refused
	}{
		{"memory", "67108864", size(64 << 20)},
		{"memory", "64m", size(64 << 20)},
		{"memory", "64M", size(64 << 20)},
		{"memory", "64MB", size(64 << 20)},
		{"memory", "64MiB", size(64 << 20)},
		{"memory", "1.5g", size(3 << 29)},
		{"memory", "-1", size(-1)},
		{"cpu-period", "100000", specs.LinuxResources{CPU: &specs.LinuxCPU{Period: &period}}},
		{"cpu-quota", "-1", specs.LinuxResources{CPU: &specs.LinuxCPU{Quota: &quota}}},
		{"blkio-weight", "1000", specs.LinuxResources{BlockIO: &specs.LinuxBlockIO{Weight: &weight}}},
		{flag: "memory", value: "-2"},
		{flag: "memory", value: "64x"},
		{flag: "memory", value: "m"},
		{flag: "cpu-period", value: "-1"},
		{flag: "cpu-period", value: "1m"},
		{flag: "cpu-quota", value: "5M"},
		{flag: "cpu-share", value: "18446744073709551616"},
		{flag: "pids-limit", value: "1K"},
		{flag: "blkio-weight", value: "66536"},
	} {
		var got specs.LinuxResources
		var err error
		for _, f := range updateFlags {
			if f.name == row.flag {
				err = f.set(&got, row.value)
			}
		}
		refused := reflect.DeepEqual(row.want, specs.LinuxResources{})
		if !reflect.DeepEqual(got, row.want) || refused != (err != nil) {
			t.Errorf("--%s %s: %v, %v", row.flag, row.value, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), row.value) {
			t.Errorf("--%s %s: the error does not name the value: %v", row.flag, row.value, err)
		}
	}
}
