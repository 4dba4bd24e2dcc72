package rootfs

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestKeepLocked(t *testing.T) {
	for _, c := range []struct {
		options []string
		flags   int64
		want    []string
	}{
		{[]string{"rbind", "rw"}, 0, []string{"rbind", "rw"}},
		{[]string{"rbind"}, unix.ST_NOEXEC | unix.ST_NOSUID | unix.ST_RELATIME, []string{"rbind", "noexec"}},
		{[]string{"rbind", "rw"}, unix.ST_RDONLY, []string{"rbind", "rw", "ro"}}, // the last one counts
		{[]string{"rbind", "noexec", "ro"}, unix.ST_RDONLY | unix.ST_NOEXEC, []string{"rbind", "noexec", "ro"}},
	} {
		if got := keepLocked(c.options, c.flags); !slices.Equal(got, c.want) {
			t.Errorf("%v with %x: %v, want %v", c.options, c.flags, got, c.want)
		}
	}
}
