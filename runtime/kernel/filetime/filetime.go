// Package filetime compares times of change of files (ctime, inode(7)), which only the kernel sets.
package filetime

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// After reports whether a file's time of change is later than a moment. A file system that keeps
// whole seconds has rounded down: there the second counts.
func After(t unix.StatxTimestamp, moment time.Time) bool {
	if t.Nsec == 0 {
		return t.Sec >= moment.Unix()
	}
	return time.Unix(t.Sec, int64(t.Nsec)).After(moment)
}

// Moment is a time that no change before the call is later than, and each change after it is, but
// for those of the same tick of a coarse clock. Since Linux 6.13 a file whose time was looked at
// gets a time that is finer than that clock at its next change, and no later change of any file
// gets an earlier one (Documentation/filesystems/multigrain-ts.rst): so the kernel is requested
// one, by a file without a name in dir. Before, or without such a file, it is the clock itself
// (CLOCK_REALTIME_COARSE, clock_gettime(2)).
func Moment(dir string) time.Time {
	if t, err := momentOfFile(dir); err == nil {
		return t
	}
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &t); err != nil {
		return time.Now().Add(-time.Second)
	}
	return time.Unix(t.Unix())
}

func momentOfFile(dir string) (time.Time, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return time.Time{}, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	// Its time is looked at before the change.
	err = errors.Join(unix.Fstat(fd, &st), unix.Fchmod(fd, 0o400), unix.Fstat(fd, &st))
	return time.Unix(st.Ctim.Unix()), err
}

// Booted returns when the machine booted, by the clock as it is now, as two bounds (nanoseconds
// since 1970). Until the clock is set it is the same at each call: nothing else moves it against
// CLOCK_BOOTTIME (clock_gettime(2)).
func Booted() (earliest, latest int64, err error) {
	var before, now, after unix.Timespec
	err = errors.Join(unix.ClockGettime(unix.CLOCK_BOOTTIME, &before), unix.ClockGettime(unix.CLOCK_REALTIME, &now),
		unix.ClockGettime(unix.CLOCK_BOOTTIME, &after))
	return now.Nano() - after.Nano(), now.Nano() - before.Nano(), err
}
