package hasher

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/linux/atomicfile"
	"agentjail.dev/runtime/linux/mountinfo"
)

// maxMounts bounds what is read of a table of mounts.
const maxMounts = 4 << 20

// find finds the file, without opening it: a descriptor of its place (O_PATH), or -1. A device, a FIFO or a file under a lease is not touched.
func (r *Request) find() int {
	for _, at := range r.places() {
		if fd := at.open(); fd >= 0 {
			if r.File.is(fd, at.pid) {
				return fd
			}
			unix.Close(fd)
		}
	}
	return -1
}

// A place is where the file may be: at a path beneath a process's root, or "" for what it runs.
type place struct {
	pid  uint32
	path string
}

// places are where to look, the surest to be found first.
func (r *Request) places() []place {
	var out []place
	name := r.path()
	if name != "" && !path.IsAbs(name) {
		// Only the process itself knows where it was. A wrong path leads to another file, which is none.
		cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", r.Pid))
		if name = path.Join(cwd, name); err != nil {
			name = ""
		}
	}
	if name != "" {
		out = append(out, place{r.Pid, name})
	}
	out = append(out, place{r.Pid, ""})
	for _, pid := range r.Roots {
		if pid != 0 && path.IsAbs(name) {
			out = append(out, place{pid, name})
		}
	}
	return out
}

func (p place) open() int {
	if p.path == "" {
		fd, err := unix.Open(fmt.Sprintf("/proc/%d/exe", p.pid), unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1
		}
		return fd
	}
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", p.pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	defer unix.Close(root)
	fd, err := unix.Openat2(root, p.path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return -1
	}
	return fd
}

// same says whether the descriptor's file has the inode, ctime and size.
func (f *File) same(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Ino == f.Inode && uint64(st.Size) == f.Size && st.Ctim.Nano() == f.Changed
}

// is says whether the descriptor's file, seen by a process, is this one.
func (f *File) is(fd int, pid uint32) bool { return f.same(fd) && f.sameDevice(fd, pid) }

// sameDevice says whether the descriptor's file is on the file system. What stat(2) says is its number, or that of a layer of an overlay or a
// part of btrfs, which are no file systems' numbers; then the table of mounts has it.
func (f *File) sameDevice(fd int, pid uint32) bool {
	var stx unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &stx); err != nil {
		return false
	}
	const minorBits = 20 // of the kernel's own device numbers
	major, minor := f.Device>>minorBits, f.Device&(1<<minorBits-1)
	if stx.Dev_major == major && stx.Dev_minor == minor {
		return true
	}
	if stx.Mask&unix.STATX_MNT_ID == 0 {
		return false
	}
	text, err := atomicfile.Read(fmt.Sprintf("/proc/%d/mountinfo", pid), maxMounts)
	if err != nil {
		return false
	}
	mounts, err := mountinfo.Parse(string(text))
	if err != nil {
		return false
	}
	id := strconv.FormatUint(stx.Mnt_id, 10)
	for i := range mounts {
		if mounts[i].ID == id {
			return mounts[i].Dev == fmt.Sprintf("%d:%d", major, minor)
		}
	}
	return false
}

// sum is the hash of a file that was found.
func (f *File) sum(found int, deadline time.Time) (sum [32]byte, why Why) {
	// The descriptor's own name leads to that file and no other.
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(found), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return sum, Unreadable
	}
	in := os.NewFile(uintptr(fd), "program")
	defer in.Close()
	h := sha256.New()
	buf := make([]byte, 256<<10)
	for read := uint64(0); ; {
		n, err := in.Read(buf)
		h.Write(buf[:n])
		read += uint64(n)
		switch {
		case read > f.Size:
			return sum, Changed
		case err == io.EOF && read == f.Size && f.same(fd):
			return [32]byte(h.Sum(nil)), None
		case err == io.EOF:
			return sum, Changed
		case err != nil:
			return sum, Unreadable
		case time.Now().After(deadline):
			return sum, Late
		}
	}
}
