package lifecycle

import (
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/delegate"
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/kernel/openat"
)

// A delegate may change the owners of its standard files from outside of the jail, and a jail may
// change a file's times by its descriptor. The caller's files are therefore passed on by stand-ins:
//   - a device, a terminal or a named pipe is opened once more, through a read-only mount of its
//     own: what is written passes, and the kernel refuses other changes with EROFS;
//   - where this process stays, another pipe stands for a pipe or a socket, and for a regular file
//     unless the delegate is known to keep owners. With a pipe of the caller's, the jail could open
//     the other end, and write what the next program reads;
//   - an anonymous pipe that is passed to a jail that this process leaves is the engine's, made for
//     this jail. It becomes the jail's user's, since opening /dev/stdout in the jail requires that.

// standIns are the stand-ins of a delegate's standard files.
type standIns struct {
	theirs  []*os.File // the delegate's: closed when it has ended
	ended   *os.File   // the end of a pipe that is closed when the jail reads no more; nil without feed
	feeding sync.WaitGroup
	outputs sync.WaitGroup
	owners  []func() // change owners back
}

// standFor returns the delegate with stand-ins for its standard files. The process is the one that
// it is to start, and ids are its jail's. stays reports that this process waits for its end.
func (r *Runtime) standFor(d *delegate.Runtime, p *specs.Process, ids idmap.Map, stays bool) (*delegate.Runtime, *standIns, error) {
	own, s := *d, &standIns{}
	uid, known := ids.HostUID(p.User.UID)
	gid, _ := ids.HostGID(p.User.GID)
	keeps, pipes := d.Traits().KeepsStdio, stays && !p.Terminal
	var files [3]standard
	for i, f := range r.stdio() {
		file, err := newStandard(f)
		if err != nil {
			continue // it is closed
		}
		files[i] = file
		if same := slices.IndexFunc(files[:i], file.isSame); same > 0 || same == 0 && files[0].reopened {
			own.Stdio[i] = own.Stdio[same] // one order of what is written
			continue
		}
		switch {
		case file.kind == unix.S_IFSOCK && pipes, file.kind == unix.S_IFIFO && pipes, file.kind == unix.S_IFREG && pipes && !keeps:
			own.Stdio[i], err = s.pipe(i, file)
		case file.kind == unix.S_IFCHR, file.kind == unix.S_IFBLK, file.kind == unix.S_IFIFO && !isAnonymous(f):
			var again *os.File
			err = onHostThread(func() (err error) { again, err = file.reopen(); return err })
			switch {
			case err == nil:
				own.Stdio[i], files[i].reopened = again, true
				s.theirs = append(s.theirs, again)
			case keeps:
				err = nil
			case pipes:
				own.Stdio[i], err = s.pipe(i, file)
			default:
				err = fmt.Errorf("%w (remedy: a pipe, or /dev/null)", err)
			}
		case file.kind == unix.S_IFIFO && known && !p.Terminal:
			_ = f.Chown(int(uid), int(gid)) // a failure only costs the reopening
		case !keeps:
			s.owners = append(s.owners, file.restoreOwner)
		}
		if err != nil {
			s.close()
			return nil, nil, fmt.Errorf("passing on standard file %d: %w", i, err)
		}
	}
	for _, f := range s.theirs {
		if known && isAnonymous(f) {
			_ = f.Chown(int(uid), int(gid))
		}
	}
	if d.Traits().WithoutChown {
		// Its own processes are in user namespaces, in which they have all capabilities.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_CHOWN, 0, 0, 0); err != nil {
			s.close()
			return nil, nil, fmt.Errorf("starting the delegate without CAP_CHOWN: %w", err)
		}
	}
	return &own, s, nil
}

// A standard is one of the caller's standard files.
type standard struct {
	*os.File
	stat     unix.Stat_t
	kind     uint32 // of stat.Mode
	flags    int    // open(2)'s
	reopened bool
}

func newStandard(f *os.File) (out standard, err error) {
	out.File = f
	if err := unix.Fstat(int(f.Fd()), &out.stat); err != nil {
		return out, err
	}
	out.kind = out.stat.Mode & unix.S_IFMT
	out.flags, err = unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	return out, err
}

// isSame reports that two descriptors have one file, in one way.
func (s standard) isSame(o standard) bool {
	return o.File != nil && s.stat.Dev == o.stat.Dev && s.stat.Ino == o.stat.Ino && s.flags&unix.O_ACCMODE == o.flags&unix.O_ACCMODE
}

// isAnonymous reports that a pipe has no name in a file system.
func isAnonymous(f *os.File) bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(int(f.Fd()), &fs) == nil && fs.Type == unix.PIPEFS_MAGIC
}

// reopen opens the file once more through a read-only mount that is attached nowhere. The file's
// name leads to it in this thread's mount namespace, or that is an error.
func (s standard) reopen() (*os.File, error) {
	fail := func(err error) (*os.File, error) { return nil, fmt.Errorf("opening it once more: %w", err) }
	name, err := openat.Name(int(s.Fd()))
	if err != nil {
		return fail(err)
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return fail(&os.PathError{Op: "open_tree", Path: name, Err: err})
	}
	defer unix.Close(tree)
	var now unix.Stat_t
	if err := unix.Fstat(tree, &now); err != nil {
		return fail(err)
	}
	if now.Dev != s.stat.Dev || now.Ino != s.stat.Ino {
		return fail(fmt.Errorf("%s is another file", name))
	}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &unix.MountAttr{
		Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC, Propagation: unix.MS_PRIVATE,
	}); err != nil {
		return fail(err)
	}
	if s.kind == unix.S_IFIFO { // with a reader and a writer, no open waits
		both, err := openat.Reopen(tree, unix.O_RDWR|unix.O_NONBLOCK)
		if err != nil {
			return fail(err)
		}
		defer both.Close()
	}
	again, err := openat.Reopen(tree, s.flags&(unix.O_ACCMODE|unix.O_APPEND|unix.O_NONBLOCK)|unix.O_NOCTTY)
	if err != nil {
		return fail(err)
	}
	return again, nil
}

// restoreOwner gives the file the owner that it had before. No program of the jail runs yet.
func (s standard) restoreOwner() {
	var now unix.Stat_t
	if unix.Fstat(int(s.Fd()), &now) == nil && (now.Uid != s.stat.Uid || now.Gid != s.stat.Gid) {
		_ = s.Chown(int(s.stat.Uid), int(s.stat.Gid))
	}
}

// pipe returns the end of a pipe that stands for standard file i: what comes from the other end goes
// to f, or the other way around.
func (s *standIns) pipe(i int, f standard) (*os.File, error) {
	read, write, err := newPipe()
	if err != nil {
		return nil, err
	}
	if i == 0 {
		s.theirs = append(s.theirs, read)
		var stop *os.File
		if stop, s.ended, err = newPipe(); err != nil {
			write.Close()
			return nil, err
		}
		s.feeding.Go(func() { feed(f, write, stop); write.Close(); stop.Close() })
		return read, nil
	}
	s.theirs = append(s.theirs, write)
	// Under another number, a write that no process reads is an error and not the end of this process.
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		read.Close()
		return nil, err
	}
	to := os.NewFile(uintptr(fd), f.Name())
	s.outputs.Go(func() { _, _ = io.Copy(to, read); read.Close(); to.Close() })
	return write, nil
}

// newPipe makes a pipe whose ends wait, as a program expects of its standard files.
func newPipe() (read, write *os.File, err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("making a pipe: %w", err)
	}
	return os.NewFile(uintptr(ends[0]), "pipe"), os.NewFile(uintptr(ends[1]), "pipe"), nil
}

// feed copies f to the pipe `to`, and takes no more from f than is read from the pipe: the rest is
// for the program that reads f next. The pipe holds one page: it has room when all of it was read.
// feed returns at the end of f, when the pipe has no reader, or at the end of `stop`.
func feed(f standard, to, stop *os.File) {
	from, out := int(f.Fd()), int(to.Fd())
	page, err := unix.FcntlInt(uintptr(out), unix.F_SETPIPE_SZ, 1)
	if err != nil {
		return
	}
	await := func(fd int, events int16) (end bool) {
		fds := []unix.PollFd{{Fd: int32(stop.Fd()), Events: unix.POLLIN}, {Fd: int32(fd), Events: events}}
		for {
			if _, err := unix.Poll(fds, -1); err != unix.EINTR {
				return err != nil || fds[0].Revents != 0 || fds[1].Revents&unix.POLLERR != 0
			}
		}
	}
	text := make([]byte, page)
	for !await(from, unix.POLLIN) {
		n, err := f.peek(out, text)
		if err == unix.EAGAIN || err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return
		}
		end := await(out, unix.POLLOUT)
		if left, err := unix.IoctlGetInt(out, unix.TIOCINQ); err == nil && left < n {
			f.take(text[:n-left])
		}
		if end {
			return
		}
	}
}

// peek writes the next bytes of the file to a pipe, and leaves them in the file. It returns their
// number, 0 at the end.
func (s standard) peek(to int, text []byte) (n int, err error) {
	from := int(s.Fd())
	switch s.kind {
	case unix.S_IFIFO:
		m, err := unix.Tee(from, to, len(text), unix.SPLICE_F_NONBLOCK)
		return int(m), err
	case unix.S_IFSOCK:
		n, _, err = unix.Recvfrom(from, text, unix.MSG_PEEK|unix.MSG_DONTWAIT)
	case unix.S_IFREG:
		var at int64
		if at, err = unix.Seek(from, 0, io.SeekCurrent); err == nil {
			n, err = unix.Pread(from, text, at)
		}
	default: // a device that cannot be opened once more
		n, err = unix.Read(from, text)
	}
	if n <= 0 || err != nil {
		return 0, err
	}
	return unix.Write(to, text[:n])
}

// take removes as many bytes from the file as text has room for.
func (s standard) take(text []byte) {
	switch s.kind {
	case unix.S_IFREG:
		_, _ = unix.Seek(int(s.Fd()), int64(len(text)), io.SeekCurrent)
	case unix.S_IFIFO, unix.S_IFSOCK:
		_, _ = io.ReadFull(s, text)
	}
}

// started closes the ends that the delegate has passed on by now, and gives owners back.
func (s *standIns) started() {
	if s == nil {
		return
	}
	for _, undo := range s.owners {
		undo()
	}
	for _, f := range s.theirs {
		f.Close()
	}
	s.owners, s.theirs = nil, nil
}

// close waits for the last output, when all writers have ended. What was not read of the input stays
// the caller's.
func (s *standIns) close() {
	if s == nil {
		return
	}
	s.started()
	s.outputs.Wait()
	if s.ended != nil {
		s.ended.Close()
		s.feeding.Wait()
		s.ended = nil
	}
}
