package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/internal/crash"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/bindsource"
)

// sizeOfGroup is that of ext4's groups of blocks, each of which has the same number of inodes, and
// inodesOfBlock is how many of these are in one block (ext4(5)).
const sizeOfGroup, inodesOfBlock = 128 << 20, 16

// ThrowAway makes a file system of a size for a number of files, in an image without a name, and
// mounts it, detached. Its blocks and its loop device are free again when the last mount of it has
// ended, whatever has ended it: a crash leaves nothing.
func (s Store) ThrowAway(size, files int64, attr int) (*os.File, error) {
	if err := CheckHost(); err != nil {
		return nil, fmt.Errorf("%s: %w", aRoot.about, err)
	}
	if err := s.CheckDisk(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of layers: %w", err)
	}
	lock, err := s.admit(size, aRoot)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	// It is not read after a crash, and so has no journal.
	template, err := s.template("root-", size, roundFiles(size, files), []string{"-O", features}, nil)
	if err != nil {
		return nil, fmt.Errorf("making the template of a layer: %w", err)
	}
	defer template.Close()
	image, err := os.OpenFile(s.Dir, unix.O_TMPFILE|os.O_RDWR, 0o600)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) {
		return nil, refusal.New(refusal.Workspace, "the file system of %s has no files without a name (open(2), O_TMPFILE)", s.Dir).
			About("%s", aRoot.about).WithRemedy(`ext4, xfs or btrfs there, or policy: root.backing = "memory"`)
	}
	if err != nil {
		return nil, err
	}
	defer image.Close()
	if err := aRoot.allocate(image, template, size); err != nil {
		return nil, err
	}
	crash.Point("create.layer")
	// Without nobarrier its end would wait until the image is on the disk.
	tree, err := mountOwn(image, rootName, attr, "nobarrier")
	crash.Point("create.mounted")
	return tree, err
}

// ramfs is the type of a ramfs (statfs(2)).
const ramfs = 0x858458f6

// CheckDisk refuses a store in memory: a layer there would take as much of it, which no limit
// counts.
func (s Store) CheckDisk() error {
	_, fs, err := s.fileSystem()
	if err != nil {
		return err
	}
	if int64(fs.Type) != unix.TMPFS_MAGIC && int64(fs.Type) != ramfs {
		return nil
	}
	return refusal.New(refusal.Workspace, "%s is in memory", s.Dir).About("%s", aRoot.about).
		WithRemedy(`mount a disk there, or policy: root.backing = "memory"`)
}

// Free returns how many bytes are free where layers are made, and that directory, or the one above
// it as long as there are none.
func (s Store) Free() (dir string, free int64, err error) {
	dir, fs, err := s.fileSystem()
	return dir, int64(fs.Bavail) * fs.Bsize, err
}

// Disk returns the numbers of the disk that layers are on, as bindsource.DiskOf.
func (s Store) Disk() (major, minor uint32) {
	var st unix.Stat_t
	if dir, _, err := s.fileSystem(); err != nil || unix.Stat(dir, &st) != nil {
		return 0, 0
	}
	return bindsource.DiskOf(st.Dev)
}

func (s Store) fileSystem() (dir string, fs unix.Statfs_t, err error) {
	for dir = s.Dir; ; dir = filepath.Dir(dir) {
		if err = unix.Statfs(dir, &fs); !errors.Is(err, unix.ENOENT) || dir == "/" {
			break
		}
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", dir, err)
	}
	return dir, fs, err
}

// roundFiles rounds a number of files down to one that ext4 can have: mkfs.ext4 would round it up.
func roundFiles(size, files int64) int64 {
	groups := (size + sizeOfGroup - 1) / sizeOfGroup
	return max(files/groups/inodesOfBlock, 1) * inodesOfBlock * groups
}
