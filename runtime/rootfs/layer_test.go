package rootfs

import (
	"errors"
	"os"
	"strings"
	"testing"

	"agentjail.dev/runtime/kernel/hostfacts"
)

// TestLargePages: the layer takes pages as large as what is written, where the kernel has any.
func TestLargePages(t *testing.T) {
	onThread(t, func(t *testing.T) {
		if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage/shmem_enabled"); errors.Is(err, os.ErrNotExist) {
			t.Skip("this kernel has no huge pages for tmpfs")
		}
		if !largePages(hostfacts.KernelRelease()) {
			t.Skip("this kernel takes huge pages for little writes")
		}
		r := request(t, t.TempDir())
		s := newRootMaker(r)
		must(t, isolate())
		must(t, s.makeLayer())
		for line := range strings.Lines(threadMounts(t)) {
			if f := strings.Fields(line); f[4] == s.layer && strings.Contains(f[len(f)-1], ",huge=within_size") {
				return
			}
		}
		t.Errorf("the layer is not mounted so:\n%s", threadMounts(t))
	})
}

func TestLargePagesByRelease(t *testing.T) {
	for release, want := range map[string]bool{
		"6.14.0": true, "6.18.44-fc": true, "7.0": true, "6.13.12": false, "6.1.0-40-amd64": false, "5.19": false, "": false, "six": false,
	} {
		if largePages(release) != want {
			t.Errorf("%q: %v", release, !want)
		}
	}
}
