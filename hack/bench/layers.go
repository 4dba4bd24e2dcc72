package main

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// imageLayers are the numbers of layers that images are measured with.
var imageLayers = []int{1, 10, 60}

// layers measures the same life as cycles with images of several layers, and the first life after
// everything that the kernel had cached of files was thrown away: programs, images, and what
// agentjail keeps.
func (b *bench) layers(ctx context.Context) error {
	cold := dropCaches()
	if cold != nil {
		b.res.leftOut("cold starts", cold)
	}
	return reaping(func() error {
		var warm, all []*subject
		for _, n := range imageLayers {
			root, err := newRootfs(b.dir, n)
			if err != nil {
				return err
			}
			for _, d := range b.newest() {
				for _, k := range []kind{bareDocker, jailedDocker} {
					s, err := b.subjectOf(root, d, k, b.captured.id, nil)
					if err != nil {
						return err
					}
					s.variant = plural(n, "layer")
					warm = append(warm, s)
					chilled := *s
					chilled.variant += ", cold"
					chilled.trace = "" // the warm one's
					all = append(all, &chilled)
				}
			}
		}
		if err := b.interleave(ctx, "layers", b.rounds/2, warm, (*subject).lifecycle); err != nil || cold != nil {
			return err
		}
		return b.interleave(ctx, "layers", b.rounds/4, all, func(s *subject) (sample, error) {
			if err := dropCaches(); err != nil {
				return sample{}, err
			}
			return s.lifecycle()
		})
	})
}

// dropCaches has the kernel forget what it cached of files, directories and inodes
// (proc_sys_vm(5)). What was not yet written to disk stays: it is written first.
func dropCaches() error {
	unix.Sync()
	return os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0)
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}
