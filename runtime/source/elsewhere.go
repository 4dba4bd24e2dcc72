package source

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A mounted is one line of mountinfo (proc_pid_mountinfo(5)).
type mounted struct {
	id, dev, root, at string
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
	var out Mounts
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) >= 5 {
			out = append(out, mounted{id: f[0], dev: f[2], root: unoctal(f[3]), at: unoctal(f[4])})
		}
	}
	return out
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
		if s[i] == '\\' && i+3 < len(s) {
			b.WriteByte((s[i+1]-'0')<<6 | (s[i+2]-'0')<<3 | (s[i+3] - '0'))
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
