package lifecycle

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/delegate"
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/spec/traits"
)

// A delegate may change the owners of its standard files from outside of the jail, and a jail may
// change a file's times by its descriptor. The caller's files are therefore passed on by stand-ins:
//   - a device, a terminal or a named pipe is opened once more, through a read-only mount of its
//     own: what is written passes, and the kernel refuses other changes with EROFS;
//   - where this process stays, another pipe stands for a pipe or a socket, and for a regular file
//     unless the delegate is known to keep owners. With a pipe of the caller's, the jail could open
//     the other end, and write what the next program reads;
//   - what is left is passed beside the standard files, where no delegate changes owners, to the
//     init step, which puts it in its place. The delegate itself has a file in memory;
//   - an anonymous pipe that is passed to a jail that this process leaves is the engine's, made for
//     this jail. It becomes the jail's user's, since opening /dev/stdout in the jail requires that.

// standIns are the stand-ins of a delegate's standard files.
type standIns struct {
	theirs  []*os.File // the delegate's: closed when it has ended
	outputs sync.WaitGroup
	input   [2]*os.File   // what feed waits for
	fed     chan struct{} // closed when feed has ended; nil without it
	memory  *os.File      // the delegate's in the place of what it does not get; nil without
	errs    *os.File      // to where its content goes
}

// standFor returns the delegate with stand-ins for its standard files. The process is the one that
// it is to start, and ids are its jail's. stays reports that this process waits for its end.
func (r *Runtime) standFor(d *delegate.Runtime, p *specs.Process, ids idmap.Map, stays bool) (
	*delegate.Runtime, *standIns, error,
) {
	own, s := *d, &standIns{}
	uid, known := ids.HostUID(p.User.UID)
	gid, _ := ids.HostGID(p.User.GID)
	pipes := stays && !p.Terminal
	var files [3]standard
	for i, f := range r.stdio() {
		file, err := newStandard(f)
		if err != nil {
			continue // it is closed
		}
		files[i] = file
		keeps := file.isKept(d.Traits(), ids)
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
		case file.isBeside(d.Traits(), ids, stays, p.Terminal):
			own.Stdio[i], err = s.inMemory(r.stdio()[2])
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

// maxMessages bounds the messages of a delegate that are passed on from memory, in bytes.
const maxMessages = 1 << 20

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

// isKept reports that the delegate does not change the file's owner. Without root, the owner can be
// one of the jail's users: the owner may be changed then.
func (s standard) isKept(t traits.Traits, ids idmap.Map) bool {
	return t.KeepsStdio && !ids.HasHostUID(s.stat.Uid)
}

// isBeside reports that the delegate does not get the file, for which nothing else stands: neither
// the file opened once more, nor a pipe of this process, nor, of a pipe of the engine's, the change
// to the jail's user. With a terminal of the jail's own, the last two are not needed.
func (s standard) isBeside(t traits.Traits, ids idmap.Map, stays, terminal bool) bool {
	switch s.kind {
	case unix.S_IFCHR, unix.S_IFBLK:
		return false
	case unix.S_IFIFO:
		if !terminal {
			return false
		}
	case unix.S_IFREG, unix.S_IFSOCK:
		if stays && !terminal {
			return false
		}
	}
	return !s.isKept(t, ids) && !t.WithoutChown
}

// listBeside returns the numbers of the standard files that the init step gets in the delegate's
// place. A terminal of the jail's own stands for all.
func (r *Runtime) listBeside(t traits.Traits, p *specs.Process, ids idmap.Map, stays bool) (out []uint32) {
	if p.Terminal {
		return nil
	}
	for i, f := range r.stdio() {
		if s, err := newStandard(f); err == nil && s.isBeside(t, ids, stays, p.Terminal) {
			out = append(out, uint32(i))
		}
	}
	return out
}

// duplicate returns another descriptor of a file.
func duplicate(f *os.File) (*os.File, error) {
	// Under 0 to 2, a write to a pipe that no process reads would end this process.
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// inMemory returns a file for the delegate alone, whose content goes to errs when it has ended.
func (s *standIns) inMemory(errs *os.File) (*os.File, error) {
	if s.memory == nil {
		fd, err := unix.MemfdCreate("delegate", unix.MFD_CLOEXEC)
		if err != nil {
			return nil, fmt.Errorf("making a file in memory: %w", err)
		}
		s.memory, s.errs = os.NewFile(uintptr(fd), "delegate"), errs
		s.theirs = append(s.theirs, s.memory)
	}
	return s.memory, nil
}

// pipe returns the end of a pipe that stands for standard file i: what comes from the other end
// goes to f, or the other way around. A wait in this process is the Go runtime's poller's, since a
// thread that waits in a system call keeps a processor of Go's until the monitor looks.
func (s *standIns) pipe(i int, f standard) (*os.File, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	ours := 0
	if i == 0 {
		ours = 1 // it is written to
		if _, err := unix.FcntlInt(uintptr(ends[ours]), unix.F_SETPIPE_SZ, os.Getpagesize()); err != nil {
			return nil, fmt.Errorf("making a pipe of a page: %w", err)
		}
	}
	_ = unix.SetNonblock(ends[ours], true) // os.NewFile then adds it to the poller
	theirs, own := os.NewFile(uintptr(ends[1-ours]), "pipe"), os.NewFile(uintptr(ends[ours]), "pipe")
	s.theirs = append(s.theirs, theirs)
	if i == 0 {
		return theirs, s.feedTo(f, own)
	}
	to, err := duplicate(f.File)
	if err != nil {
		own.Close()
		return nil, err
	}
	s.outputs.Go(func() { _, _ = io.Copy(to, own); own.Close(); to.Close() })
	return theirs, nil
}

// feedTo begins to copy f to a pipe, and takes no more from f than is read from the pipe: the rest
// is for the program that reads f next. The pipe holds one page: it has room when all was read.
func (s *standIns) feedTo(f standard, to *os.File) error {
	ready, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	from := int(f.Fd())
	// A regular file is always ready: EPERM (epoll_ctl(2)).
	err = unix.EpollCtl(ready, unix.EPOLL_CTL_ADD, from, &unix.EpollEvent{Events: unix.EPOLLIN})
	_ = unix.SetNonblock(ready, true)
	s.input, s.fed = [2]*os.File{os.NewFile(uintptr(ready), "epoll"), to}, make(chan struct{})
	go func() {
		defer close(s.fed)
		f.feed(s.input[0], to, make([]byte, os.Getpagesize()), err != nil)
		s.input[0].Close()
		to.Close()
	}()
	return nil
}

// feed copies by so many bytes at a time, until the end of the file, of the pipe's readers, or of
// the time.
func (s standard) feed(ready, to *os.File, text []byte, always bool) {
	input, err := ready.SyscallConn()
	if err != nil {
		return
	}
	output, err := to.SyscallConn()
	if err != nil {
		return
	}
	for {
		if !always && input.Read(func(fd uintptr) bool {
			n, err := unix.EpollWait(int(fd), make([]unix.EpollEvent, 1), 0)
			return n > 0 || err != nil && err != unix.EINTR
		}) != nil {
			return
		}
		n, left, end := 0, 0, false
		_ = output.Control(func(fd uintptr) { n, err = s.peek(int(fd), text) })
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return
		}
		late := output.Write(func(fd uintptr) bool {
			fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
			_, _ = unix.Poll(fds, 0)
			end = fds[0].Revents&unix.POLLERR != 0
			return fds[0].Revents != 0
		})
		_ = output.Control(func(fd uintptr) { left, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
		if err == nil && left < n {
			s.take(text[:n-left])
		}
		if end || late != nil {
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

// started closes the ends that the delegate has passed on by now, and writes its messages.
func (s *standIns) started() {
	if s == nil {
		return
	}
	if s.memory != nil {
		_, _ = io.Copy(s.errs, io.NewSectionReader(s.memory, 0, maxMessages))
	}
	for _, f := range s.theirs {
		f.Close()
	}
	s.memory, s.theirs = nil, nil
}

// close waits for the last output, when all writers have ended. The rest of the input stays the
// caller's.
func (s *standIns) close() {
	if s == nil {
		return
	}
	s.started()
	s.outputs.Wait()
	if s.fed != nil {
		for _, f := range s.input {
			_ = f.SetDeadline(time.Unix(1, 0))
		}
		<-s.fed
	}
}
