package apparmor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Attached is a loaded profile that the kernel applies to a program by its path, when a process
// that no profile confines executes it.
type Attached struct {
	Name string
	Mode string // enforce, complain, kill, unconfined or prompt
	// Left reports that Leave has the program run without it.
	Left bool
}

// AttachedTo reports which profiles the kernel attaches to a program's path (apparmor.d(5),
// "Profile attachment"), by the kernel's own list of what is loaded, not by files. Without AppArmor
// there is none. It reads the whole list: it is for commands, not for a jail's start.
func AttachedTo(program string) ([]Attached, error) { return host.attachedTo(program) }

func (s system) attachedTo(program string) ([]Attached, error) {
	if !s.isEnabled() {
		return nil, nil
	}
	path, err := filepath.EvalSymlinks(program) // the kernel requests the file that is executed
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.securityfs, "policy/profiles")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoInterface
	}
	if err != nil {
		return nil, fmt.Errorf("read AppArmor profiles: %w", err)
	}
	var found []Attached
	var own []string // the modes by which Leave judges
	best := 0
	for _, e := range entries {
		name, err := line(filepath.Join(dir, e.Name(), "name"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		attach, err := line(filepath.Join(dir, e.Name(), "attach"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		mode, _, err := s.inspect(e.Name())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if slices.Contains(ownNames(program), name) {
			own = append(own, mode)
		}
		length, ok := attaches(name, attach, path)
		if !ok || length < best {
			continue
		}
		if length > best {
			best, found = length, nil
		}
		found = append(found, Attached{Name: name, Mode: mode})
	}
	for i := range found {
		// Leave goes by name: one that has another stays.
		found[i].Left = nominal("unconfined", own) && slices.Contains(ownNames(program), found[i].Name)
	}
	return found, nil
}

// attaches reports whether a profile attaches to a path, and with how much of its pattern spelled
// out: the one with most gets the program. A kernel that does not know the pattern prints
// "<unknown>"; one of the program's own name is then taken for its, as distributions name them.
func attaches(name, attach, path string) (int, bool) {
	if attach == "<unknown>" {
		return len(path), name == filepath.Base(path)
	}
	if attach == "" {
		attach = name
	}
	length := strings.IndexAny(attach, `*?[{\`)
	if length < 0 {
		length = len(attach)
	}
	return length, matches(attach, path) // one that is only ever chosen by name has no pattern of a path
}

// matches reports whether one of AppArmor's patterns for file names (apparmor.d(5), "Globbing") has
// the path. Text that is no pattern matches nothing.
func matches(pattern, path string) bool {
	var re strings.Builder
	depth := 0
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\' && i+1 < len(pattern):
			i++
			re.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		case c == '*' && strings.HasPrefix(pattern[i:], "**"):
			i++
			re.WriteString(".*")
		case c == '*' && strings.HasSuffix(pattern[:i], "/"):
			re.WriteString("[^/]+") // a name is not empty
		case c == '*':
			re.WriteString("[^/]*")
		case c == '?':
			re.WriteString("[^/]")
		case c == '{':
			depth++
			re.WriteString("(?:")
		case c == '}' && depth > 0:
			depth--
			re.WriteString(")")
		case c == ',' && depth > 0:
			re.WriteString("|")
		case c == '[' && strings.Contains(pattern[i:], "]"):
			end := i + strings.Index(pattern[i:], "]")
			re.WriteString(pattern[i : end+1])
			i = end
		default:
			re.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	compiled, err := regexp.Compile(`\A(?s:` + re.String() + `)\z`)
	return err == nil && compiled.MatchString(path)
}

// line reads a file of one line.
func line(path string) (string, error) {
	b, err := os.ReadFile(path)
	return strings.TrimSuffix(string(b), "\n"), err
}
