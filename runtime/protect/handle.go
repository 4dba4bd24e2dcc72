package protect

import (
	"encoding/hex"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/kernel/openat"
)

// handleOf is an open directory's handle as text, "" on a file system without
// handles (name_to_handle_at(2)).
func handleOf(dir int) string {
	h, _, err := unix.NameToHandleAt(dir, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return ""
	}
	return strconv.Itoa(int(h.Type())) + ":" + hex.EncodeToString(h.Bytes())
}

// openUp opens the directory that a placeholder was made in, wherever it is now;
// -1 where it is gone, or this process may not open handles (CAP_DAC_READ_SEARCH).
func (m *placeholder) openUp() int {
	kind, text, ok := strings.Cut(m.Up, ":")
	typ, err1 := strconv.ParseInt(kind, 10, 32)
	id, err2 := hex.DecodeString(text)
	if !ok || err1 != nil || err2 != nil {
		return -1
	}
	mount := mountOf(path.Dir(m.Path), m.Dev)
	if mount < 0 {
		return -1
	}
	defer unix.Close(mount)
	fd, err := unix.OpenByHandleAt(mount, unix.NewFileHandle(int32(typ), id), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return -1
	}
	return fd
}

// mountOf opens a directory of a file system: one above a path that once was on
// it, or else where it is mounted. It returns -1 where there is none.
func mountOf(at string, dev uint64) int {
	for at = path.Dir(at); ; at = path.Dir(at) {
		if fd := openOn(at, dev); fd >= 0 {
			return fd
		}
		if at == "/" || at == "." {
			break
		}
	}
	mounts, err := mountinfo.Read(mountinfo.OfThread)
	if err != nil {
		return -1
	}
	for i := range mounts {
		if mounts[i].Dev != strconv.Itoa(int(unix.Major(dev)))+":"+strconv.Itoa(int(unix.Minor(dev))) {
			continue
		}
		if fd := openOn(mounts[i].Point, dev); fd >= 0 {
			return fd
		}
	}
	return -1
}

// openOn opens a directory if it is on that file system.
func openOn(at string, dev uint64) int {
	fd, err := openat.Open(unix.AT_FDCWD, at, openat.NoLinks, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK)
	if err != nil {
		return -1
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Dev != dev {
		unix.Close(fd)
		return -1
	}
	return fd
}
