// Package invoker is about the user on whose behalf root runs a command: by sudo(8), doas(1) or
// pkexec(1). A rule of theirs may permit that user this command alone. Files that the user names
// are opened with the user's rights.
package invoker

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/kernel/thread"
)

// A User is the invoker.
type User struct {
	UID, GID uint32
	groups   []uint32
}

// Of returns the user on whose behalf root runs this process, by the variables that these programs
// set; nil where that is root itself, and for a process of another user. SUDO_UID=0, which a caller
// may have kept for doas, counts for nothing beside another.
func Of(getenv func(string) string) (out *User, err error) {
	if os.Getuid() != 0 || rootless.Inside() {
		return nil, nil
	}
	for _, variable := range []string{"SUDO_UID", "PKEXEC_UID", "DOAS_USER"} {
		text := getenv(variable)
		if text == "" {
			continue
		}
		uid, known := text, (*user.User)(nil)
		if variable == "DOAS_USER" {
			if known, err = user.Lookup(text); err != nil {
				return nil, fmt.Errorf("DOAS_USER is %q, which is no user's name (remedy: unset DOAS_USER, or call by doas)", text)
			}
			uid = known.Uid
		}
		u := new(User)
		if u.UID, err = id(uid); err != nil {
			return nil, fmt.Errorf("%s is %q, which is no user's id (remedy: unset %s, or call by sudo)", variable, text, variable)
		}
		if known == nil {
			known, _ = user.LookupId(uid)
		}
		switch gid := getenv("SUDO_GID"); {
		case variable == "SUDO_UID":
			if u.GID, err = id(gid); err != nil {
				return nil, fmt.Errorf("SUDO_UID is set, and SUDO_GID is %q, which is no group's id (remedy: unset both, or call by sudo)", gid)
			}
		case known == nil:
			return nil, fmt.Errorf("%s is %s, whose group is not known (remedy: unset %s, or call by sudo)", variable, text, variable)
		default:
			if u.GID, err = id(known.Gid); err != nil {
				return nil, fmt.Errorf("the group of %s: %w", text, err)
			}
		}
		switch {
		case u.UID == 0:
		case out != nil && out.UID != u.UID:
			return nil, fmt.Errorf("the variables name two users: uid %d, and %s uid %d (remedy: unset the variable that is not true)",
				out.UID, variable, u.UID)
		default:
			out = u
			out.groups = groupsOf(known, u.GID)
		}
	}
	return out, nil
}

func id(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err
}

// groupsOf returns the groups of a user; nil is a user without a name.
func groupsOf(u *user.User, first uint32) []uint32 {
	out := []uint32{first}
	if u == nil {
		return out
	}
	all, _ := u.GroupIds() // without them the user has fewer rights
	for _, text := range all {
		if n, err := id(text); err == nil && n != first {
			out = append(out, n)
		}
	}
	return out
}

// Here is Of for this process's environment.
func Here() (*User, error) { return Of(os.Getenv) }

// UID returns the invoker's id; 0 is root itself.
func UID() (uint32, error) {
	u, err := Here()
	if u == nil {
		return 0, err
	}
	return u.UID, err
}

// Do runs f with the invoker's rights, on a thread of its own, which f must not leave. Without an
// invoker it only runs f.
func Do(f func() error) error {
	u, err := Here()
	if err != nil {
		return err
	}
	if u == nil {
		return f()
	}
	return thread.Own(func() error {
		// A thread without root's effective id has no effective capability (capabilities(7)), and a
		// program that it executes has no id of root's (execve(2)). These calls are of this thread
		// alone.
		for _, call := range [][4]uintptr{
			{unix.SYS_SETGROUPS, uintptr(len(u.groups)), uintptr(unsafe.Pointer(&u.groups[0]))},
			{unix.SYS_SETRESGID, uintptr(u.GID), uintptr(u.GID), uintptr(u.GID)},
			{unix.SYS_SETRESUID, uintptr(u.UID), uintptr(u.UID), 0},
		} {
			if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
				return fmt.Errorf("taking the rights of uid %d: %w", u.UID, errno)
			}
		}
		return f()
	})
}

// Open opens a file that an argument names, with the invoker's rights and close-on-exec.
func Open(path string, flags int, mode os.FileMode) (f *os.File, err error) {
	err = Do(func() (err error) {
		f, err = os.OpenFile(path, flags|unix.O_NOCTTY, mode)
		return err
	})
	return f, err
}

// Read reads a regular file of at most max bytes that an argument names, with the invoker's rights.
// Another file, or one of the kernel's, may never end.
func Read(path string, max int64) (data []byte, err error) {
	err = Do(func() error {
		f, err := openat.Regular(unix.AT_FDCWD, path, openat.Real)
		if errors.Is(err, openat.ErrIrregular) || errors.Is(err, unix.ELOOP) {
			return fmt.Errorf("%s is not a regular file (remedy: write to a file what is to be read)", path)
		}
		if err != nil {
			return &os.PathError{Op: "open", Path: path, Err: err}
		}
		defer f.Close()
		if data, err = openat.Whole(f, max); err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		return nil
	})
	return data, err
}

// MayRead refuses a path that the invoker cannot read.
func MayRead(path string) error {
	if u, err := Here(); err != nil || u == nil {
		return err
	}
	return Do(func() error {
		if err := unix.Access(path, unix.R_OK); err != nil {
			return &os.PathError{Op: "open", Path: path, Err: err}
		}
		return nil
	})
}

// RootsOwn refuses what only root itself may do, which what names.
func RootsOwn(what string) error {
	u, err := Here()
	if err != nil || u == nil {
		return err
	}
	return fmt.Errorf("%s is root's, and the call is on behalf of uid %d (remedy: %s)", what, u.UID, Remedy)
}

// Owns refuses what belongs to another user than the invoker, by its owner. what names it.
func Owns(uid uint32, what string) error {
	u, err := Here()
	if err != nil || u == nil || u.UID == uid {
		return err
	}
	return fmt.Errorf("%s belongs to uid %d, and the call is on behalf of uid %d (remedy: %s)", what, uid, u.UID, Remedy)
}

// Remedy is the remedy for what only root itself may do.
const Remedy = "call as root itself: `sudo -i`, and there `unset SUDO_UID`"
