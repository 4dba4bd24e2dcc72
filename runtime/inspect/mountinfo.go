package inspect

import (
	"fmt"
	"slices"
	"strings"
)

// mount is a line of mountinfo (proc_pid_mountinfo(5)).
type mount struct {
	dev     string   // MAJOR:MINOR of the file system
	root    string   // what of the file system is mounted
	point   string   // where, seen from the jail's root
	options []string // of this mount
	tags    []string // shared:N, master:N
	fs      string
	source  string
	super   []string // of the file system

	// device is the node at the mount point ("c 1:3"), or "".
	device string
}

// parseMounts reads mountinfo. A line that is not one is an error: nothing may
// be overlooked.
func parseMounts(text string) ([]mount, error) {
	var out []mount
	for _, line := range strings.Split(text, "\n") {
		if line == "" {
			continue
		}
		f := strings.Split(line, " ")
		dash := slices.Index(f, "-")
		if dash < 6 || len(f) < dash+4 {
			return nil, fmt.Errorf("mountinfo: %q is not a mount", line)
		}
		out = append(out, mount{
			dev: f[2], root: unoctal(f[3]), point: unoctal(f[4]), options: strings.Split(f[5], ","), tags: f[6:dash],
			fs: f[dash+1], source: unoctal(f[dash+2]), super: strings.Split(f[dash+3], ","),
		})
	}
	return out, nil
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

func (m *mount) has(option string) bool { return slices.Contains(m.options, option) }

// writable says whether anything can be written through this mount.
func (m *mount) writable() bool { return !m.has("ro") && !slices.Contains(m.super, "ro") }

// lacks lists those of the options that the mount does not have.
func (m *mount) lacks(options ...string) []string {
	var out []string
	for _, o := range options {
		if !m.has(o) {
			out = append(out, o)
		}
	}
	return out
}

// value is an option of the file system, such as size.
func (m *mount) value(key string) string {
	for _, o := range m.super {
		if k, v, ok := strings.Cut(o, "="); ok && k == key {
			return v
		}
	}
	return ""
}
