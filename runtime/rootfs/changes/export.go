package changes

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/overlayfs"
)

// maxSparse bounds a file's size beyond its size on the disk: a jail can make a sparse file of 8
// EiB, and an archive would hold all of its zeros.
const maxSparse = 1 << 30

// exporter writes an archive.
type exporter struct {
	ids   idmap.Map
	out   *tar.Writer
	links map[uint64]string // by inode number, files of several names
	warn  func(path, why string)
}

// export writes a jail's whole root as a tar archive, with owners as the jail has them: the
// output of `docker export` for a container without a user namespace. root is the overlay without
// the mounts in the jail. Export calls warn for each file that it left out.
func export(ctx context.Context, out io.Writer, root *os.File, ids idmap.Map, warn func(path, why string)) error {
	x := &exporter{ids: ids, out: tar.NewWriter(out), links: map[uint64]string{}, warn: warn}
	if err := walk(ctx, int(root.Fd()), x.add); err != nil {
		return err
	}
	return x.out.Close()
}

// types are the archive's types of files, by the kernel's.
var types = map[uint32]byte{
	unix.S_IFREG: tar.TypeReg, unix.S_IFDIR: tar.TypeDir, unix.S_IFLNK: tar.TypeSymlink,
	unix.S_IFIFO: tar.TypeFifo, unix.S_IFCHR: tar.TypeChar, unix.S_IFBLK: tar.TypeBlock,
}

func (x *exporter) add(e entry) error {
	typ, known := types[e.Stat.Mode&unix.S_IFMT]
	if !known {
		x.warn(e.Path, "an archive has no sockets")
		return nil
	}
	h := &tar.Header{
		Typeflag: typ, Name: e.Path, Mode: int64(e.Stat.Mode & 0o7777), Format: tar.FormatPAX,
		Uid: inside(x.ids.UIDInside, e.Stat.Uid), Gid: inside(x.ids.GIDInside, e.Stat.Gid),
		ModTime: time.Unix(e.Stat.Mtim.Unix()).Truncate(time.Second),
	}
	switch typ {
	case tar.TypeDir:
		h.Name += "/"
	case tar.TypeSymlink:
		target, err := openat.Readlink(e.Dir, path.Base(e.Path))
		if err != nil {
			return nil // gone
		}
		h.Linkname = target
	case tar.TypeChar, tar.TypeBlock:
		h.Devmajor, h.Devminor = int64(unix.Major(e.Stat.Rdev)), int64(unix.Minor(e.Stat.Rdev))
	case tar.TypeReg:
		return x.addFile(e, h)
	}
	return x.out.WriteHeader(h)
}

// inside is the jail's id for a host's.
func inside(lookup func(uint32) (uint32, bool), id uint32) int {
	if n, ok := lookup(id); ok {
		return int(n)
	}
	return idmap.Overflow
}

// addFile adds a regular file: the opened one, even if its name has changed.
func (x *exporter) addFile(e entry, h *tar.Header) error {
	if e.Stat.Nlink > 1 {
		if first, ok := x.links[e.Stat.Ino]; ok {
			h.Typeflag, h.Linkname = tar.TypeLink, first
			return x.out.WriteHeader(h)
		}
	}
	fd, err := overlayfs.Beneath(e.Dir, path.Base(e.Path), unix.O_RDONLY)
	if err != nil {
		return nil // gone
	}
	f := os.NewFile(uintptr(fd), e.Path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil // another by now
	}
	if st.Size-st.Blocks*512 > maxSparse {
		x.warn(e.Path, fmt.Sprintf("it has %d bytes, and %d on the disk", st.Size, st.Blocks*512))
		return nil
	}
	h.Size = st.Size
	value := make([]byte, 64) // capabilities(7), vfs_ns_cap_data: 24 bytes
	if n, err := unix.Fgetxattr(fd, "security.capability", value); err == nil && n > 0 {
		h.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": string(value[:n])}
	}
	if err := x.out.WriteHeader(h); err != nil {
		return err
	}
	if st.Nlink > 1 {
		x.links[st.Ino] = e.Path
	}
	n, err := io.Copy(x.out, io.LimitReader(f, st.Size))
	if err != nil {
		return fmt.Errorf("%s: %w", e.Path, err)
	}
	// The part that was cut off meanwhile.
	_, err = io.CopyN(x.out, zeros{}, st.Size-n)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

// zeros reads as zeros without end.
type zeros struct{}

// Read fills b.
func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
