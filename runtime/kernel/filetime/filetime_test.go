package filetime

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMoment: no change before a moment is later than it, also one of a file whose time was looked
// at before: its time is finer than the clock's (multigrain timestamps, Linux 6.13).
func TestMoment(t *testing.T) {
	dir := t.TempDir()
	f := filepath.Join(dir, "f")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(f, nil, 0o600))
	for mode := range 100 {
		var st unix.Stat_t
		must(unix.Stat(f, &st))
		must(os.Chmod(f, os.FileMode(0o600+mode%8)))
		must(unix.Stat(f, &st))
		if moment := Moment(dir); time.Unix(st.Ctim.Unix()).After(moment) {
			t.Fatalf("what was changed before %v has the time %v", moment, time.Unix(st.Ctim.Unix()))
		}
	}
}

// TestAfter: a file system of whole seconds has rounded down.
func TestAfter(t *testing.T) {
	moment := time.Unix(100, 500)
	for _, c := range []struct {
		sec  int64
		nsec uint32
		want bool
	}{{100, 499, false}, {100, 500, false}, {100, 501, true}, {99, 0, false}, {100, 0, true}, {101, 0, true}} {
		if got := After(unix.StatxTimestamp{Sec: c.sec, Nsec: c.nsec}, moment); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
