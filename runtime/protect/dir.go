package protect

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/refusal"
)

// tree is an opened directory with untrusted content: every path is opened from it anew, beneath
// it and through no symbolic link.
type tree struct {
	root *os.File
	// mounts reports that mounts below count as a part of the tree.
	mounts bool
	layer  *Layer // over it, or nil
}

// how are the bounds of each lookup.
func (t tree) how() openat.How {
	if t.mounts {
		return openat.Beneath
	}
	return openat.OneMount
}

// open opens a path of the tree. It fails with ELOOP where a symbolic link is on
// the way.
func (t tree) open(rel string, flags int) (int, error) {
	return t.openAt(int(t.root.Fd()), rel, flags)
}

// If another process holds a write lease on a file (fcntl(2), F_SETLEASE), opening the file has
// to wait. File servers release their leases at once. A lease that is not released stops the
// start.
const (
	leaseTries = 50
	leaseWait  = 20 * time.Millisecond
)

// openAt opens a path below a directory of the tree.
func (t tree) openAt(dir int, rel string, flags int) (int, error) {
	for tries := 0; ; {
		fd, err := openat.Open(dir, rel, t.how(), flags|unix.O_NOFOLLOW)
		// EAGAIN: a concurrent rename kept the kernel from deciding whether the path stayed
		// beneath; or there is a lease.
		if tries++; errors.Is(err, unix.EAGAIN) && tries < leaseTries {
			if flags&unix.O_NONBLOCK != 0 {
				time.Sleep(leaseWait)
			}
			continue
		}
		if errors.Is(err, unix.EAGAIN) {
			return -1, refusal.New(refusal.MountMoved, "%s is held by another process (fcntl(2), F_SETLEASE), or changes too fast",
				rel).WithRemedy("try again without it")
		}
		if err != nil {
			return -1, &os.PathError{Op: "open", Path: rel, Err: err}
		}
		return fd, nil
	}
}

// stat returns the attributes of the file at a path, without following a link in its last part. Of
// a layer's file, it returns the mode alone.
func (t tree) stat(rel string) (st unix.Stat_t, err error) {
	f, ok := t.over(rel)
	switch {
	case !ok:
		return t.statOwn(rel)
	case f.Mode == 0:
		return st, &os.PathError{Op: "stat", Path: rel, Err: unix.ENOENT}
	}
	return unix.Stat_t{Mode: f.Mode, Nlink: 1}, nil
}

// statOwn is stat without the layer.
func (t tree) statOwn(rel string) (st unix.Stat_t, err error) {
	fd, err := t.open(rel, unix.O_PATH)
	if err != nil {
		return st, err
	}
	defer unix.Close(fd)
	return st, unix.Fstat(fd, &st)
}

// statx is stat with the file's birth, which distinguishes files with the same inode number.
func (t tree) statx(rel string) (st unix.Statx_t, err error) {
	fd, err := t.open(rel, unix.O_PATH)
	if err != nil {
		return st, err
	}
	defer unix.Close(fd)
	return statx(fd, "", unix.AT_EMPTY_PATH)
}

// regular opens a regular file for reading.
func (t tree) regular(rel string) (*os.File, unix.Stat_t, error) {
	if f, ok := t.over(rel); ok {
		st, err := t.stat(rel)
		switch {
		case err != nil:
			return nil, st, err
		case kind(f.Mode) != unix.DT_REG:
			return nil, st, fmt.Errorf("%s: %w", rel, openat.ErrIrregular)
		}
		file, err := f.Open()
		return file, st, err
	}
	var st unix.Stat_t
	fd, err := t.open(rel, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, st, err
	}
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = fmt.Errorf("%s: %w", rel, openat.ErrIrregular)
	}
	if err != nil {
		unix.Close(fd)
		return nil, st, err
	}
	return os.NewFile(uintptr(fd), rel), st, nil
}

// read returns a regular file's text, up to max bytes of it; more is an error.
func (t tree) read(rel string, max int64) (string, unix.Stat_t, error) {
	f, st, err := t.regular(rel)
	if err != nil {
		return "", st, err
	}
	defer f.Close()
	text, err := atomicfile.ReadAll(f, max)
	if err != nil {
		err = fmt.Errorf("%s: %w", rel, err)
	}
	return string(text), st, err
}

// A dirent is a name in a directory.
type dirent struct {
	name string
	typ  byte // DT_DIR and so on; never DT_UNKNOWN
}

// direntName is where the name begins in a record of getdents64(2).
const direntName = int(unsafe.Offsetof(unix.Dirent{}.Name))

// A listing is the result of reading a directory.
type listing struct {
	names []dirent // those that are of interest
	read  int      // all names
	err   error
}

// list reads a directory of the tree. buf is scratch space.
func (t tree) list(rel string, buf []byte, most int, wanted func(name []byte, typ byte) bool) listing {
	fd, err := t.openDir(int(t.root.Fd()), rel, rel)
	if err != nil {
		return listing{err: err}
	}
	defer unix.Close(fd)
	return t.listOpen(fd, rel, buf, most, wanted)
}

// openDir opens a directory of the tree, by its name below an open one; -1 is one of the layer.
func (t tree) openDir(parent int, name, rel string) (int, error) {
	f, ok := t.over(rel)
	switch {
	case !ok:
		return t.openAt(parent, name, unix.O_RDONLY|unix.O_DIRECTORY)
	case kind(f.Mode) != unix.DT_DIR:
		return -1, &os.PathError{Op: "open", Path: rel, Err: unix.ENOTDIR}
	}
	return -1, nil
}

// listOpen reads a directory that openDir has opened.
func (t tree) listOpen(fd int, rel string, buf []byte, most int, wanted func(name []byte, typ byte) bool) (l listing) {
	if fd >= 0 {
		l = list(fd, buf, most, wanted)
	}
	t.merge(rel, &l, wanted)
	return l
}

// list reads an open directory, but no more than most names.
func list(fd int, buf []byte, most int, wanted func(name []byte, typ byte) bool) (out listing) {
	for out.read < most {
		n, err := unix.Getdents(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			out.err = os.NewSyscallError("getdents64", err)
			return out
		}
		if n <= 0 {
			return out
		}
		for rest := buf[:n]; len(rest) > direntName; {
			size := int(binary.NativeEndian.Uint16(rest[unsafe.Offsetof(unix.Dirent{}.Reclen):]))
			typ := rest[unsafe.Offsetof(unix.Dirent{}.Type)]
			name := rest[direntName:size]
			if end := bytes.IndexByte(name, 0); end >= 0 {
				name = name[:end]
			}
			rest = rest[size:]
			if len(name) == 1 && name[0] == '.' || len(name) == 2 && name[0] == '.' && name[1] == '.' {
				continue
			}
			out.read++
			if wanted(name, typ) || typ == unix.DT_UNKNOWN {
				text := string(name)
				out.names = append(out.names, dirent{text, known(fd, text, typ)})
			}
		}
	}
	return out
}

// known looks up the type of a name if the directory entry does not have it.
func known(dir int, name string, typ byte) byte {
	if typ != unix.DT_UNKNOWN {
		return typ
	}
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return unix.DT_REG
	}
	return kind(st.Mode)
}

// readlink is a symbolic link's text.
func (t tree) readlink(rel string) (string, error) {
	if f, ok := t.over(rel); ok {
		if kind(f.Mode) != unix.DT_LNK {
			return "", &os.PathError{Op: "readlink", Path: rel, Err: unix.EINVAL}
		}
		return f.Target, nil
	}
	fd, err := t.open(rel, unix.O_PATH)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	target, err := openat.Readlink(fd, "")
	if err != nil {
		return "", &os.PathError{Op: "readlink", Path: rel, Err: err}
	}
	return target, nil
}
