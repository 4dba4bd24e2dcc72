package lifecycle

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/delegate"
)

// privateStdio returns the delegate with standard files whose owner it may change, and a function
// to call when the delegate has made the jail. Before release 1.24 crun makes the jail's root the
// owner of each of its standard files that is no terminal, and from outside, where the host lets
// it. /dev/null, which every program shares, would then be the jail's to take from all others. A
// null device of this process alone stands in for it; inside, runc and crun open the jail's own in
// its place. Other devices and files get their owners back before the jail's program runs.
func (r *Runtime) privateStdio(d *delegate.Runtime, rootless bool) (*delegate.Runtime, func(), error) {
	if d.Traits().KeepsStdio || rootless { // without privilege no owner can be changed
		return d, func() {}, nil
	}
	own := *d
	var null *os.File
	var undo []func()
	done := func() {
		for _, f := range undo {
			f()
		}
	}
	for i, f := range r.stdio() {
		var st unix.Stat_t
		fd := int(f.Fd())
		if unix.Fstat(fd, &st) != nil {
			continue
		}
		switch t := st.Mode & unix.S_IFMT; {
		case t == unix.S_IFIFO || t == unix.S_IFSOCK:
		case t == unix.S_IFCHR && st.Rdev == unix.Mkdev(1, 3):
			if null == nil {
				var err error
				if null, err = newNull(); err != nil {
					done()
					return nil, nil, err
				}
				undo = append(undo, func() { null.Close() })
			}
			own.Stdio[i] = null
		default:
			undo = append(undo, func() {
				var now unix.Stat_t
				if unix.Fstat(fd, &now) == nil && (now.Uid != st.Uid || now.Gid != st.Gid) {
					_ = unix.Fchown(fd, int(st.Uid), int(st.Gid))
				}
			})
		}
	}
	return &own, done, nil
}

// newNull makes a null device on a file system that is mounted nowhere and ends
// with it.
func newNull() (*os.File, error) {
	fail := func(err error) (*os.File, error) { return nil, fmt.Errorf("making a null device: %w", err) }
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fail(err)
	}
	defer unix.Close(fs)
	// A label counts as an inode or two (Linux 6.6, mm/shmem.c).
	if err := errors.Join(unix.FsconfigSetString(fs, "size", "4096"), unix.FsconfigSetString(fs, "nr_inodes", "16"),
		unix.FsconfigSetString(fs, "mode", "0700"), unix.FsconfigCreate(fs)); err != nil {
		return fail(err)
	}
	dir, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return fail(err)
	}
	defer unix.Close(dir)
	const name = "null"
	if err := unix.Mknodat(dir, name, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		return fail(err)
	}
	fd, err := unix.Openat(dir, name, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	f := os.NewFile(uintptr(fd), os.DevNull)
	if err := unix.Fchmod(fd, 0o666); err != nil { // whatever the umask
		f.Close()
		return fail(err)
	}
	return f, nil
}
