package source

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A mounted is one line of mountinfo (proc_pid_mountinfo(5)). What few ask for
// stays in rest.
type mounted struct {
	id, dev, root, at, rest string
}

// Mounts are the mounts of a mount namespace, the oldest first. They are read as
// far as somebody asks: a host has a mount or two for each of its containers,
// and each takes the kernel some microseconds to describe.
type Mounts struct {
	fd   int    // of mountinfo, or -1 when all is read
	tail string // the beginning of a line whose end is still to be read
	list []mounted
	err  error
}

// OpenMounts opens those of this thread's mount namespace as it is now, whatever
// namespace the thread is in later. Close them after use.
func OpenMounts() (*Mounts, error) {
	const path = "/proc/thread-self/mountinfo"
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return &Mounts{fd: fd}, nil
}

// Close stops reading.
func (ms *Mounts) Close() {
	if ms != nil && ms.fd >= 0 {
		unix.Close(ms.fd)
		ms.fd = -1
	}
}

// all iterates over them. After it, err says whether something kept it from
// reading on.
func (ms *Mounts) all(yield func(mounted) bool) {
	for i := 0; ; i++ {
		for i == len(ms.list) {
			if !ms.more() {
				return
			}
		}
		if !yield(ms.list[i]) {
			return
		}
	}
}

// more reads the next part of mountinfo: the kernel gives whole lines, about a
// page of them at once.
func (ms *Mounts) more() bool {
	if ms.fd < 0 {
		return false
	}
	var buf [16 << 10]byte
	n, err := unix.Read(ms.fd, buf[:])
	if err == unix.EINTR {
		return true
	}
	if err != nil {
		ms.err = fmt.Errorf("reading the mounts: %w", err)
	}
	if n <= 0 {
		ms.Close()
		return false
	}
	text := ms.tail + string(buf[:n])
	end := strings.LastIndexByte(text, '\n') + 1
	ms.tail = text[end:]
	ms.list = append(ms.list, parseMounts(text[:end])...)
	return true
}

func parseMounts(text string) []mounted {
	out := make([]mounted, 0, strings.Count(text, "\n"))
	for line := range strings.Lines(text) {
		var m mounted
		var ok bool
		m.id, line, _ = strings.Cut(line, " ")
		_, line, _ = strings.Cut(line, " ") // the parent's id
		m.dev, line, _ = strings.Cut(line, " ")
		m.root, line, _ = strings.Cut(line, " ")
		if m.at, m.rest, ok = strings.Cut(line, " "); ok {
			m.root, m.at = unoctal(m.root), unoctal(m.at)
			out = append(out, m)
		}
	}
	return out
}

// Super returns the source and the file system options of the mount that an open
// file is on.
func (ms *Mounts) Super(fd int) (source, options string, err error) {
	if source, options, err = statmount(fd); err == nil {
		return source, options, nil
	}
	want, err := mountOf(fd)
	if err != nil {
		return "", "", err
	}
	for m := range ms.all {
		if m.id != want {
			continue
		}
		if _, tail, ok := strings.Cut(m.rest, " - "); ok {
			if f := strings.Split(strings.TrimSuffix(tail, "\n"), " "); len(f) == 3 { // type, source, options
				return unoctal(f[1]), unoctal(f[2]), nil
			}
		}
	}
	if ms.err != nil {
		return "", "", ms.err
	}
	return "", "", fmt.Errorf("mount %s is not in mountinfo", want)
}

// mountOf is the id of the mount that an open file is on.
func mountOf(fd int) (string, error) {
	var stx unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &stx); err != nil {
		return "", fmt.Errorf("statx: %w", err)
	}
	return fmt.Sprint(stx.Mnt_id), nil
}

// elsewhere is the place of the host's file tree that path, on the mount of
// that id, is really at; "" where that is path itself. A folder can be mounted
// at a second place: Docker's local driver makes a volume of any folder
// (`docker volume create -o type=none -o o=bind -o device=/etc`), and an
// administrator may have done so. The oldest mount of a file system that has
// the folder counts as its real place.
func (ms *Mounts) elsewhere(id, path string) (string, error) {
	for own := range ms.all {
		if own.id == id && within(path, own.at) {
			return ms.realPlace(own, filepath.Join(own.root, strings.TrimPrefix(path, own.at)), path), nil
		}
	}
	return "", ms.err
}

// realPlace is where a mount's folder inside is found through the oldest mount.
func (ms *Mounts) realPlace(own mounted, inside, path string) string {
	for m := range ms.all { // has been read as far as own
		if m.id == own.id {
			return ""
		}
		if m.dev == own.dev && within(inside, m.root) {
			if p := filepath.Join(m.at, strings.TrimPrefix(inside, m.root)); p != path {
				return p
			}
			return ""
		}
	}
	return ""
}

// below lists what is mounted below path of folders that no jail may have.
func (ms *Mounts) below(path string) ([]string, error) {
	var out []string
	for m := range ms.all {
		if m.at == path || !within(m.at, path) {
			continue
		}
		if real := ms.realPlace(m, m.root, m.at); real != "" && forbiddenElsewhere(real, false) != "" {
			out = append(out, real)
		}
	}
	return out, ms.err
}

// unoctal resolves the \ooo escapes of mountinfo.
func unoctal(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && isOctal(s[i+1]) && isOctal(s[i+2]) && isOctal(s[i+3]) {
			b.WriteByte((s[i+1]-'0')<<6 | (s[i+2]-'0')<<3 | (s[i+3] - '0'))
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func isOctal(c byte) bool { return c >= '0' && c <= '7' }
