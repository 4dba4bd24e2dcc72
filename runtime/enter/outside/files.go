// Package outside is the host's side of the last step into a jail: it makes the
// files that a delegate hands to the jail's process.
package outside

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/enter"
	"agentjail.dev/runtime/policy"
)

// Name is the step's file name. It lies in agentjail's own folder.
const Name = "agentjail-enter"

// Files are the two files for a delegate's process: the step and its orders, as
// descriptors enter.ProgramFD and enter.OrdersFD.
type Files [enter.PreserveFDs]*os.File

// Close closes both.
func (f *Files) Close() {
	for _, x := range f {
		if x != nil {
			x.Close()
		}
	}
}

// Prepare makes the files. Both are memory of this jail's alone, sealed against
// any change (memfd_create(2)): no jail ever holds a file of the host's that is
// a program (CVE-2019-5736). The step may be run and not read, so that the
// kernel keeps the process that runs it from being traced or looked into
// (would_dump in exec.c, since Linux 4.10). label is the SELinux label of the
// jail's files, or "": another a confined process could neither run nor read.
func Prepare(o *enter.Orders, label string) (_ *Files, err error) {
	var f Files
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	path, err := Path()
	if err != nil {
		return nil, err
	}
	src, err := open(path)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	if f[0], err = sealed(Name, label, unix.MFD_EXEC, 0o111, unix.O_PATH, src); err != nil {
		return nil, fmt.Errorf("copying %s: %w", Name, err)
	}
	if f[1], err = sealed(Name+" orders", label, unix.MFD_NOEXEC_SEAL, 0o400, unix.O_RDONLY, readerOf(o.Encode())); err != nil {
		return nil, fmt.Errorf("writing the orders of %s: %w", Name, err)
	}
	return &f, nil
}

// Path is where the step is expected: beside the running program.
func Path() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program's folder: %w", err)
	}
	return filepath.Join(filepath.Dir(self), Name), nil
}

// Check says what is wrong with the step in agentjail's folder dir, or nil.
func Check(dir string) error {
	f, err := open(filepath.Join(dir, Name))
	if err == nil {
		f.Close()
	}
	return err
}

// open opens the step's program, which nobody but root may have written.
func open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing: it belongs beside agentjail (remedy: install both from one build)", path)
	}
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(int(f.Fd()), &st); err == nil {
		if st.Mode&unix.S_IFMT != unix.S_IFREG {
			err = fmt.Errorf("%s is not a file", path)
		} else {
			err = policy.OwnedByRoot(path, &st)
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

type reader struct{ b []byte }

func readerOf(b []byte) *reader { return &reader{b} }

func (r *reader) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(r.b)
	return int64(n), err
}

func (r *reader) Read([]byte) (int, error) { return 0, io.EOF }

// sealed copies a file into memory that nothing can change any more, and opens
// it again in the way the jail may have it.
func sealed(name, label string, kind uint, mode uint32, how int, from io.Reader) (*os.File, error) {
	const base = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, int(base|kind))
	if err == unix.EINVAL { // before Linux 6.3
		fd, err = unix.MemfdCreate(name, base)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if _, err := io.Copy(f, from); err != nil {
		return nil, err
	}
	if err := unix.Fchmod(fd, mode); err != nil && kind != unix.MFD_NOEXEC_SEAL {
		return nil, fmt.Errorf("fchmod: %w", err)
	}
	if label != "" {
		if err := unix.Fsetxattr(fd, "security.selinux", append([]byte(label), 0), 0); err != nil {
			return nil, fmt.Errorf("SELinux label %s: %w", label, err)
		}
	}
	seals := unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, fmt.Errorf("sealing: %w", err)
	}
	again, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), how|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(again), name), nil
}
