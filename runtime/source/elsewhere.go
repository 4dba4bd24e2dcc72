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

// elsewhere finds other places of the host's file tree that show what is
// mounted on a volume's folder. Docker's local driver makes a volume of any
// folder (`docker volume create -o type=none -o o=bind -o device=/etc`), and
// mounts it when the container starts.
func elsewhere(fd int, path string) ([]string, error) {
	var stx unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &stx); err != nil {
		return nil, fmt.Errorf("statx: %w", err)
	}
	data, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, err
	}
	return alsoAt(parseMounts(string(data)), fmt.Sprint(stx.Mnt_id), path), nil
}

func parseMounts(text string) []mounted {
	var out []mounted
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) >= 5 {
			out = append(out, mounted{id: f[0], dev: f[2], root: unoctal(f[3]), at: unoctal(f[4])})
		}
	}
	return out
}

// alsoAt computes where else path, on mount id, is found.
func alsoAt(all []mounted, id, path string) []string {
	var own *mounted
	for i := range all {
		if all[i].id == id {
			own = &all[i]
		}
	}
	// The volume's folder itself is a mount point only where a driver made it one.
	if own == nil || !strings.Contains(own.at+"/", "/_data/") || !within(path, own.at) {
		return nil
	}
	inside := filepath.Join(own.root, strings.TrimPrefix(path, own.at))
	var out []string
	for _, m := range all {
		if m.id == id || m.dev != own.dev || !within(inside, m.root) {
			continue
		}
		if p := filepath.Join(m.at, strings.TrimPrefix(inside, m.root)); p != path {
			out = append(out, p)
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
