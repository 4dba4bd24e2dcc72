package protect

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tree is an opened directory whose content is somebody else's: every path is
// opened from it anew, beneath it and through no symbolic link.
type tree struct {
	root *os.File
	// mounts says that what is mounted below counts as a part of it.
	mounts bool
}

// resolve are the bounds of each lookup (openat2(2), Linux 5.6).
func (t tree) resolve() uint64 {
	r := uint64(unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS)
	if !t.mounts {
		r |= unix.RESOLVE_NO_XDEV
	}
	return r
}

// open opens a path of the tree. It fails with ELOOP where a symbolic link is on
// the way.
func (t tree) open(rel string, flags uint64) (int, error) {
	for {
		fd, err := unix.Openat2(int(t.root.Fd()), rel, &unix.OpenHow{
			Flags: flags | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: t.resolve(),
		})
		// EAGAIN: something was renamed meanwhile, and the kernel could not tell
		// whether the path stayed beneath.
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		if err != nil {
			return -1, &os.PathError{Op: "open", Path: rel, Err: err}
		}
		return fd, nil
	}
}

// stat looks at what is at a path, not following a link in its last part.
func (t tree) stat(rel string) (st unix.Stat_t, err error) {
	fd, err := t.open(rel, unix.O_PATH)
	if err != nil {
		return st, err
	}
	defer unix.Close(fd)
	return st, unix.Fstat(fd, &st)
}

// statx is stat with what tells a file from others: its birth.
func (t tree) statx(rel string) (st unix.Statx_t, err error) {
	fd, err := t.open(rel, unix.O_PATH)
	if err != nil {
		return st, err
	}
	defer unix.Close(fd)
	return st, unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st)
}

// read returns a regular file's text, up to max bytes of it; more is an error.
func (t tree) read(rel string, max int64) (string, unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := t.open(rel, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return "", st, err
	}
	f := os.NewFile(uintptr(fd), rel)
	defer f.Close()
	if err := unix.Fstat(fd, &st); err != nil {
		return "", st, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", st, fmt.Errorf("%s is not a regular file", rel)
	}
	text, err := io.ReadAll(io.LimitReader(f, max+1))
	if err == nil && int64(len(text)) > max {
		err = fmt.Errorf("%s is longer than %d bytes", rel, max)
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

// A listing is what was read of a directory.
type listing struct {
	names []dirent // those that are of interest
	read  int      // all names
	full  bool     // there was no room for more
	err   error
}

// list reads a directory until room is used up, which others may use too. buf is scratch space.
func (t tree) list(rel string, room *atomic.Int64, buf []byte, wanted func(name []byte, typ byte) bool) (out listing) {
	fd, err := t.open(rel, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return listing{err: err}
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Getdents(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			out.err = &os.PathError{Op: "getdents64", Path: rel, Err: err}
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
			if room.Add(-1) < 0 {
				out.full = true
				return out
			}
			out.read++
			if typ == unix.DT_UNKNOWN || wanted(name, typ) {
				text := string(name)
				out.names = append(out.names, dirent{text, known(fd, text, typ)})
			}
		}
	}
}

// known asks for the type of a name where the directory does not tell it.
func known(dir int, name string, typ byte) byte {
	if typ != unix.DT_UNKNOWN {
		return typ
	}
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return unix.DT_REG
	}
	return byte(st.Mode & unix.S_IFMT >> 12) // DT_DIR is S_IFDIR>>12, and so on
}

// target is the place within the tree to which a symbolic link leads; "" where
// it leads out of it or nowhere. source is the tree's own path on the host.
func (t tree) target(rel, source string) string {
	fd, err := t.open(rel, unix.O_PATH)
	if err != nil {
		return ""
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	unix.Close(fd)
	if err != nil {
		return ""
	}
	if to := string(buf[:n]); strings.HasPrefix(to, "/") {
		below, ok := strings.CutPrefix(to, source+"/")
		if !ok {
			return ""
		}
		rel = below
	}
	return t.real(rel)
}

// real is a path of the tree with its symbolic links followed; "" where that
// leads out of the tree or nowhere.
func (t tree) real(rel string) string {
	fd, err := unix.Openat2(int(t.root.Fd()), rel, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	at, err1 := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	top, err2 := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", t.root.Fd()))
	below, ok := strings.CutPrefix(at, strings.TrimSuffix(top, "/")+"/")
	if err1 != nil || err2 != nil || !ok {
		return ""
	}
	return below
}
