package rootfs

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
)

// addition is a file that a jail's ephemeral layer adds to the image, where the image has the
// directory for it. It configures a program to work without features that no jail has. The
// image's own file of that name stays.
type addition struct {
	path, text string
	// owned are directories of the image that then belong to container root.
	owned []string
}

// aptConf is apt's. apt fetches as the user _apt, and ends when it cannot drop its groups
// (setgroups(2), apt.conf(5), APT::Sandbox::User). Its download directories belong to that user,
// and root has no capability to write there. Its log of the terminal is to belong to the group adm,
// and apt warns each time that it cannot.
//
//go:embed images/apt.conf
var aptConf string

func additions() []addition {
	return []addition{
		{"etc/apt/apt.conf.d/99agentjail", aptConf, []string{"var/lib/apt/lists/partial", "var/cache/apt/archives/partial"}},
		{path: overrides, text: string(missingOverrides(nil))}, // a stock Debian has no such list
	}
}

// passwords are files of container root's with another group, "shadow". Tools that add users and
// groups rewrite them with the same owner and group, which needs CAP_CHOWN unless the group is
// container root's as well (groupadd(8); the postinst scripts of packages run it). No user gains
// access: the owner reads and writes the files as before.
var passwords = []string{"etc/shadow", "etc/gshadow"}

// switchers are programs that entry points change their user with. They fail in a jail, even for
// the current user.
var switchers = []string{"usr/local/bin/gosu", "usr/sbin/gosu", "usr/bin/gosu", "sbin/su-exec", "usr/local/bin/su-exec"}

// hidden are files of an image that are missing in a jail's root: programs outside the jail obey
// them. crun with libkrun reads the virtual machine's kernel, memory and command line there
// (crun, krun.1.md).
var hidden = []string{".krun_vm.json"}

// adjustPrograms adds and hides files in the jail's root: in the ephemeral
// layer, never in the engine's.
func (m *rootMaker) adjustPrograms() error {
	if m.Plan.KeepHostOwners {
		return nil // the host's own files
	}
	root, err := OpenDir(m.root)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range hidden {
		if err := hide(int(root.Fd()), name); err != nil {
			return fmt.Errorf("hiding /%s: %w", name, err)
		}
	}
	uid, ok1 := m.Plan.IDs.HostUID(0)
	gid, ok2 := m.Plan.IDs.HostGID(0)
	if !ok1 || !ok2 {
		return nil
	}
	for _, a := range additions() {
		if err := a.add(int(root.Fd()), int(uid), int(gid)); err != nil {
			return fmt.Errorf("adding /%s: %w", a.path, err)
		}
	}
	m.noteSwitchers(int(root.Fd()))
	for _, name := range passwords {
		if err := regroup(int(root.Fd()), name, int(uid), int(gid)); err != nil {
			return fmt.Errorf("changing the group of /%s to container root's: %w", name, err)
		}
	}
	if err := overrideSetID(int(root.Fd()), int(uid)); err != nil {
		return fmt.Errorf("adding to /%s: %w", overrides, err)
	}
	return nil
}

// noteSwitchers warns in the report that an entry point of root's is going to fail, with the
// remedy.
func (m *rootMaker) noteSwitchers(root int) {
	if m.Spec.Process == nil || m.Spec.Process.User.UID != 0 {
		return
	}
	if c := m.Spec.Process.Capabilities; c != nil && slices.Contains(c.Permitted, "CAP_SETUID") {
		return
	}
	for _, name := range switchers {
		fd, err := openat.Open(root, name, openat.InRoot, unix.O_PATH)
		if err != nil {
			continue
		}
		unix.Close(fd)
		m.notes = append(m.notes, fmt.Sprintf("the image has /%s: an entry point that changes its user with it ends with \"operation not permitted\" (remedy: start the container as that user, -u USER, or with --runtime=agentjail-service)", name))
		return
	}
}

// regroup changes the group of a file of container root's to gid, in the ephemeral layer.
func regroup(root int, name string, uid, gid int) error {
	f, err := openFile(root, name, uid, unix.O_PATH)
	if err != nil || f == nil {
		return err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || int(st.Gid) == gid {
		return err
	}
	if err := unix.Fchownat(int(f.Fd()), "", -1, gid, unix.AT_EMPTY_PATH); err != nil && !errors.Is(err, unix.ENOSPC) {
		return err
	}
	return nil
}

// openFile opens a regular file of the jail's root that belongs to uid and that no link or mount
// leads to. It returns nil if there is none.
func openFile(root int, name string, uid, flags int) (*os.File, error) {
	// The file is opened for writing only when it is known to be a regular file: opening another
	// may block, or call a driver.
	f, err := openat.File(root, name, openat.OneMount, unix.O_PATH)
	if err != nil {
		return nil, nil // an image without it
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != uid {
		f.Close()
		return nil, err
	}
	if flags&unix.O_PATH != 0 {
		return f, nil
	}
	defer f.Close()
	// The jail does not run yet, so that the name leads to the same file.
	opened, err := openat.File(root, name, openat.OneMount, flags|unix.O_NONBLOCK)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return nil, nil // the layer is full
	}
	return opened, err
}

// hide removes a file of the image's from the jail's root.
func hide(root int, name string) error {
	err := unix.Unlinkat(root, name, 0)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENOENT) {
		return nil // a directory has no effect
	}
	return err
}

// add writes the file if the image has its directory, reached without a link, and no file of that
// name. A file that does not fit into the layer is left out: the program then reports the missing
// file.
func (a addition) add(root, uid, gid int) error {
	dir := openBeneath(root, path.Dir(a.path))
	if dir == nil {
		return nil // not an image that needs it
	}
	defer dir.Close()
	err := write(dir, path.Base(a.path), a.text, 0o644)
	switch {
	case errors.Is(err, unix.EEXIST), errors.Is(err, unix.ENOSPC):
		return nil
	case err != nil:
		return err
	}
	if err := unix.Fchownat(int(dir.Fd()), path.Base(a.path), uid, gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	for _, name := range a.owned {
		d := openBeneath(root, name)
		if d == nil {
			continue
		}
		err := unix.Fchownat(int(d.Fd()), "", uid, gid, unix.AT_EMPTY_PATH)
		d.Close()
		if err != nil && !errors.Is(err, unix.ENOSPC) {
			return fmt.Errorf("changing the owner of /%s to container root: %w", name, err)
		}
	}
	return nil
}

// openBeneath opens a directory of the jail's root that no link or mount leads to,
// or returns nil.
func openBeneath(root int, name string) *os.File {
	f, _ := openat.File(root, name, openat.OneMount, unix.O_PATH|unix.O_DIRECTORY)
	return f
}
