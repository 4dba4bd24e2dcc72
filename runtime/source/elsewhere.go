package source

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A mounted is one line of mountinfo (proc_pid_mountinfo(5)). What few ask for
// stays in rest: a host has a mount or two for each of its containers.
type mounted struct {
	id, dev, root, at, rest string
}

// Mounts are the mounts of this mount namespace, the oldest first.
type Mounts []mounted

// ReadMounts reads them.
func ReadMounts() (Mounts, error) {
	data, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("reading the mounts: %w", err)
	}
	return parseMounts(string(data)), nil
}

func parseMounts(text string) Mounts {
	out := make(Mounts, 0, strings.Count(text, "\n"))
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

// Super returns the source and the file system options of the mount of an id, as
// statx(2) tells it.
func (ms Mounts) Super(id uint64) (source, options string, err error) {
	want := strconv.FormatUint(id, 10)
	for _, m := range ms {
		if m.id != want {
			continue
		}
		if _, tail, ok := strings.Cut(m.rest, " - "); ok {
			if f := strings.Split(strings.TrimSuffix(tail, "\n"), " "); len(f) == 3 { // type, source, options
				return unoctal(f[1]), unoctal(f[2]), nil
			}
		}
	}
	return "", "", fmt.Errorf("mount %d is not in mountinfo", id)
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
func (ms Mounts) elsewhere(id, path string) string {
	for _, own := range ms {
		if own.id == id && within(path, own.at) {
			return ms.realPlace(own, filepath.Join(own.root, strings.TrimPrefix(path, own.at)), path)
		}
	}
	return ""
}

// realPlace is where a mount's folder inside is found through the oldest mount.
func (ms Mounts) realPlace(own mounted, inside, path string) string {
	for _, m := range ms {
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
func (ms Mounts) below(path string) []string {
	var out []string
	for _, m := range ms {
		if m.at == path || !within(m.at, path) {
			continue
		}
		if real := ms.realPlace(m, m.root, m.at); real != "" && forbiddenElsewhere(real, false) != "" {
			out = append(out, real)
		}
	}
	return out
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
