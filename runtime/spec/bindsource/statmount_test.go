package bindsource

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/mountinfo"
)

// TestStatmount: the kernel's direct answer is that of mountinfo, for every mount that can be seen here.
func TestStatmount(t *testing.T) {
	all, err := OpenMounts()
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	compared := 0
	for m := range all.all {
		fd, err := unix.Open(m.Point, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		if id, err := mountOf(fd); err == nil && id == m.ID { // nothing is mounted over it
			source, options, err := statmount(fd)
			switch {
			case errors.Is(err, unix.ENOSYS), errors.Is(err, errStatmount): // an old kernel, or a file system without options
			case err != nil:
				t.Errorf("%s: %v", m.Point, err)
			default:
				if m.Source != source || !strings.HasSuffix(mountinfo.Unescape(m.Super), options) {
					t.Errorf("%s: source %q with %q, and mountinfo states %q with %q", m.Point, source, options, m.Source, m.Super)
				}
				compared++
			}
		}
		unix.Close(fd)
	}
	if all.err != nil {
		t.Error(all.err)
	}
	if compared == 0 {
		t.Skip("this kernel's statmount(2) reports no mount's source and options (Linux 6.13 is needed)")
	}
}

// TestMountsAsFarAsNeeded: the mounts are read in parts, and all in the end.
func TestMountsAsFarAsNeeded(t *testing.T) {
	some, err := OpenMounts()
	if err != nil {
		t.Fatal(err)
	}
	defer some.Close()
	for range some.all {
		break
	}
	if len(some.list) == 0 || some.fd < 0 {
		t.Error("nothing was read, or everything")
	}
	n := 0
	for range some.all {
		n++
	}
	if some.fd >= 0 || some.tail != "" || some.err != nil || n != len(some.list) {
		t.Errorf("%d of %d mounts at the end, %q left over, %v", n, len(some.list), some.tail, some.err)
	}
	some.Close()
	if (&Mounts{fd: -1}).more() {
		t.Error("there is more of nothing")
	}
}
