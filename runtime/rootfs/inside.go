package rootfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"agentjail.dev/runtime/spec/plan"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
)

// insideDir is the directory of the synthetic files in which the jail reads its own refusals.
const insideDir = "inside"

// addInside adds a mount for that directory to the spec. copyInside fills the directory.
func (s *stager) addInside() error {
	if s.Plan.Inside == "" {
		return nil
	}
	if slices.ContainsFunc(s.Spec.Mounts, func(m specs.Mount) bool {
		at := filepath.Clean(m.Destination)
		return at == plan.DenialsDir || at == filepath.Dir(plan.DenialsDir) && m.Type != "tmpfs"
	}) {
		s.notes = append(s.notes, plan.DenialsDir+" is not there: something of the bundle's is mounted at or above it")
		return nil
	}
	s.addSynthetic(plan.DenialsDir)
	s.inside = true
	return nil
}

// copyInside writes the directory that addInside has mounted.
func (v *syntheticMaker) copyInside() error {
	if !v.inside {
		return nil
	}
	i := slices.IndexFunc(v.Spec.Mounts, func(m specs.Mount) bool {
		return m.Destination == plan.DenialsDir && m.Source == plan.DenialsDir
	})
	if i < 0 {
		return fmt.Errorf("the mount at %s is gone", plan.DenialsDir)
	}
	if err := mkdir(v.dir, insideDir, 0o755); err != nil {
		return err
	}
	at := filepath.Join(v.at, insideDir)
	v.Spec.Mounts[i].Source = at
	if err := write(v.dir, insideDir+"/"+plan.DenialsFile, v.Plan.Inside, 0o444); err != nil {
		return err
	}
	// A separate mount, which does not become read-only with the synthetic files. A mount that is
	// read-only when it enters the jail's mount namespace stays so for the host, too
	// (mount_namespaces(7), locked flags). The delegate makes the jail's mount read-only, and
	// the files belong to a user that the jail does not have.
	if err := unix.Mount(at, at, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("binding %s: %w", at, err)
	}
	return nil
}

// RewriteInside replaces the file of the jail's refusals in one step: a reader sees the old or
// the new one. inJail and dev are as of RewriteSynthetic. Without the directory it does nothing.
//
// The jail can move the directory's parent mount, and put something else at its path. Only a
// directory of the jail's synthetic files is written to, and only where such a file exists.
func RewriteInside(dev uint64, text []byte, inJail func(func() error) error) error {
	var dir *os.File
	err := inJail(func() (err error) {
		dir, err = cloneTree(unix.AT_FDCWD, plan.DenialsDir, false, nil)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", plan.DenialsDir, err)
		}
		return nil
	})
	if err != nil || dir == nil {
		return err
	}
	defer dir.Close()
	fd := int(dir.Fd())
	var st, file unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Dev != dev || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return err
	}
	if unix.Fstatat(fd, plan.DenialsFile, &file, unix.AT_SYMLINK_NOFOLLOW) != nil || file.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("a writable clone of %s: %w", plan.DenialsDir, err)
	}
	name := atomicfile.Unique(".new-")
	if err := write(dir, name, string(text), 0o444); err != nil {
		_ = unix.Unlinkat(fd, name, 0)
		return err
	}
	if err := unix.Renameat(fd, name, fd, plan.DenialsFile); err != nil {
		_ = unix.Unlinkat(fd, name, 0)
		return &os.PathError{Op: "rename", Path: plan.DenialsFile, Err: err}
	}
	return nil
}
