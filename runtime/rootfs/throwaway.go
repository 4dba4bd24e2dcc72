package rootfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
)

// throwAwayUpper ends the names of the upper layers of directories whose changes end with the jail.
const throwAwayUpper = ".up"

// IsThrowAway reports whether an overlay's upper layer, as the mount table names it, is one in the
// jail's ephemeral layer.
func IsThrowAway(upper string) bool {
	return strings.HasSuffix(upper, throwAwayUpper) && !strings.Contains(upper, "/")
}

// cloneLower clones a directory or an image whose changes end with the jail
// (plan.StorageThrowAway), read-only.
func (s *stager) cloneLower(b plan.Bind, src *bindsource.Source) (*os.File, error) {
	b.ReadOnly = true
	if src.Role == bindsource.EngineImage {
		return s.cloneEngineImage(b, src)
	}
	return s.cloneDirect(b, src)
}

// mountThrowAway mounts such a directory's clone under a layer of its own in the ephemeral layer.
func (s *stager) mountThrowAway(b plan.Bind, at string) error {
	name, dir := filepath.Base(at), filepath.Dir(at)
	low, upper, work := name+".low", name+throwAwayUpper, name+".work"
	for _, d := range []string{low, upper, work} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o711); err != nil {
			return err
		}
	}
	clone := s.binds[b.Index]
	if err := unix.MoveMount(int(clone.Fd()), "", unix.AT_FDCWD, filepath.Join(dir, low), unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("attaching it: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(clone.Fd()), &st); err != nil {
		return err
	}
	if err := os.Lchown(filepath.Join(dir, upper), int(st.Uid), int(st.Gid)); err != nil {
		return err
	}
	mode := st.Mode & 0o1777
	if s.Sources[b.Index].Role == bindsource.EngineImage {
		mode |= 0o200 // as the top of the jail's own root: Podman's images have 555 there
	}
	if err := unix.Chmod(filepath.Join(dir, upper), mode); err != nil {
		return err
	}
	// Short names keep the places on the host out of the jail's mount table.
	if err := unix.Chdir(dir); err != nil {
		return err
	}
	defer func() { _ = unix.Chdir("/") }()
	opts := "index=off,metacopy=off,lowerdir=" + low + ",upperdir=" + upper + ",workdir=" + work
	if s.Rootless {
		opts += ",userxattr"
	}
	if err := s.mount("overlay", at, unix.MS_NOSUID|unix.MS_NODEV, opts); err != nil {
		return fmt.Errorf("a layer over it (remedy: mount it without :O, to read or to write): %w", err)
	}
	mounted, err := OpenDir(at)
	if err != nil {
		return err
	}
	clone.Close()
	s.binds[b.Index] = mounted
	return nil
}
