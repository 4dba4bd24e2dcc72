package facts

import (
	"os"
	"path/filepath"
	"testing"

	"agentjail.dev/runtime/harden"
)

// TestQuotaAbove: the nearest group above that has a quota bounds it, and only in version 1, whose
// files these are.
func TestQuotaAbove(t *testing.T) {
	root := t.TempDir()
	for dir, quota := range map[string]string{"": "5000", "kubepods": "400000", "kubepods/pod1": "20000", "kubepods/pod2": "-1", "kubepods/pod1/c": "1000"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{"cpu.cfs_quota_us": quota + "\n", "cpu.cfs_period_us": "100000\n"} {
			if err := os.WriteFile(filepath.Join(root, dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for path, want := range map[string]int64{
		"/kubepods/pod1/c": 20000, "/kubepods/pod2/c": 400000, "/kubepods/gone/c": 400000,
		"/docker/c": 0, "kubepods/pod1/c": 0, "system.slice:a:b": 0, "": 0,
	} {
		w := harden.CPUQuota{}
		if want > 0 {
			w = harden.CPUQuota{Quota: want, Period: 100000}
		}
		if got := quotaAbove(root, path); got != w {
			t.Errorf("%q: %+v, not %+v", path, got, w)
		}
	}
}
