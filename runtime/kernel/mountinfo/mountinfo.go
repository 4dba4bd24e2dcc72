// Package mountinfo reads the kernel's table of mounts (proc_pid_mountinfo(5)).
//
// It is on the path of every start, and in the program that runs inside a jail: the text stays in
// the kernel's form, in one piece of memory, until a caller requests a part.
// github.com/moby/sys/mountinfo splits and converts every field of every line.
package mountinfo

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A Mount is one line of the table.
type Mount struct {
	ID, Parent string
	Dev        string // MAJOR:MINOR of the file system
	Root       string // what of the file system is mounted
	Point      string // where, seen from the process's root
	Options    string // of this mount, separated by commas
	Tags       string // shared:N, master:N and the like, separated by blanks
	FS         string // type of the file system
	Source     string
	Super      string // options of the file system, separated by commas; names in them are escaped as overlay's are
}

// Own and OfThread are the tables of this process and of the calling thread, for Read.
const (
	Own      = "self"
	OfThread = "thread-self"
)

// Read reads the table of a process by its directory of /proc.
func Read(process string) ([]Mount, error) {
	text, err := os.ReadFile("/proc/" + process + "/mountinfo")
	if err != nil {
		return nil, err
	}
	return Parse(string(text))
}

// Of reads the table of a process by its id.
func Of(pid int) ([]Mount, error) { return Read(strconv.Itoa(pid)) }

// ErrNotMount is wrapped by Parse's errors, which quote the line.
var ErrNotMount = errors.New("not a line of mountinfo")

// Parse reads lines of the table, in their order: what is mounted at a place last
// comes last. A line that is not one is an error, so that nothing is overlooked.
func Parse(text string) ([]Mount, error) {
	out := make([]Mount, 0, strings.Count(text, "\n"))
	for text != "" {
		var line string
		if line, text, _ = strings.Cut(text, "\n"); line == "" {
			continue
		}
		m, ok := parseLine(line)
		if !ok {
			return nil, &lineError{line}
		}
		out = append(out, m)
	}
	return out, nil
}

// lineError is made without package fmt, which the program inside does without.
type lineError struct{ line string }

func (e *lineError) Error() string { return "mountinfo: \"" + e.line + "\" is " + ErrNotMount.Error() }
func (e *lineError) Unwrap() error { return ErrNotMount }

func parseLine(line string) (Mount, bool) {
	var m Mount
	head, tail, ok := strings.Cut(line, " - ")
	for _, field := range []*string{&m.ID, &m.Parent, &m.Dev, &m.Root, &m.Point, &m.Options} {
		*field, head, _ = strings.Cut(head, " ")
	}
	m.Tags = head
	m.FS, tail, _ = strings.Cut(tail, " ")
	m.Source, m.Super, _ = strings.Cut(tail, " ")
	m.Root, m.Point, m.Source = Unescape(m.Root), Unescape(m.Point), Unescape(m.Source)
	return m, ok && m.Options != "" && m.Super != ""
}

// Has reports whether the mount has an option.
func (m *Mount) Has(option string) bool { return listed(m.Options, option) }

// SuperHas reports whether the file system has an option.
func (m *Mount) SuperHas(option string) bool { return listed(m.Super, option) }

// Value is the value of an option of the file system, such as size; "" without it.
func (m *Mount) Value(key string) string {
	for o := range strings.SplitSeq(m.Super, ",") {
		if k, v, ok := strings.Cut(o, "="); ok && k == key {
			return v
		}
	}
	return ""
}

// ReadOnly reports that nothing can be written through this mount.
func (m *Mount) ReadOnly() bool { return m.Has("ro") || m.SuperHas("ro") }

// Lacks lists those of the options that the mount does not have.
func (m *Mount) Lacks(options ...string) []string {
	return slices.DeleteFunc(slices.Clone(options), m.Has)
}

// listed looks for a word in a list separated by commas.
func listed(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// Unescape resolves the kernel's escapes of blanks, line ends and backslashes in
// names: a backslash and three octal digits.
func Unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && isOctal(s[i+1], '3') && isOctal(s[i+2], '7') && isOctal(s[i+3], '7') {
			b = append(b, (s[i+1]-'0')<<6|(s[i+2]-'0')<<3|(s[i+3]-'0'))
			i += 3
			continue
		}
		b = append(b, s[i])
	}
	return string(b)
}

func isOctal(c, most byte) bool { return c >= '0' && c <= most }
