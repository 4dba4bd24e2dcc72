package apparmor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/fork"
	"agentjail.dev/runtime/kernel/trusted"
)

// host is the machine's own system.
var host = system{
	enabled:    "/sys/module/apparmor/parameters/enabled",
	securityfs: "/sys/kernel/security/apparmor",
	abiDirs:    []string{"/etc/apparmor.d/abi"},
	parsers:    []string{"/usr/sbin/apparmor_parser", "/sbin/apparmor_parser"},
	// Beside, not below, the directory that holds one entry per jail: a jail may have any name.
	state:     "/run/agentjail-apparmor",
	trustedFn: trusted.Executable,
}

// Ensure loads the profile if it is missing, was loaded from another text, or does not enforce.
// changed reports whether it did. An empty p.ABI is replaced by the host's.
//
// When nothing is to do it reads two small files. Otherwise it runs apparmor_parser, which takes
// some tenths of a second; several processes at once wait for each other and load once. It fails
// where AppArmor or its parser is missing, or with the parser's own words.
// Needs root in the host's initial user namespace (CAP_MAC_ADMIN).
func Ensure(ctx context.Context, p Params) (changed bool, err error) {
	return host.ensure(ctx, p)
}

func (s system) ensure(ctx context.Context, p Params) (bool, error) {
	if !s.isEnabled() {
		return false, errDisabled
	}
	if p.ABI == "" {
		p.ABI = s.abi()
	}
	text, err := Render(p)
	if err != nil {
		return false, err
	}
	sum := sha256.Sum256([]byte(text))
	source := hex.EncodeToString(sum[:])
	if s.current(p.Name, source) {
		return false, nil
	}
	loaded, err := s.load(ctx, p.Name, source, text)
	if err != nil {
		return false, fmt.Errorf("load AppArmor profile %s: %w", p.Name, err)
	}
	return loaded, nil
}

// The kernel does not keep the text of a profile, but a hash of what the parser made of it. So
// Ensure notes after loading: from which text, in which of the kernel's directories it is, and with
// which hash. If all are the same the profile was not touched since. (A kernel without hashes
// leaves that part empty; then the name and the mode have to do.)
type note struct {
	source    string
	directory string // below policy/profiles
	hash      string
}

func (n note) String() string { return n.source + " " + n.directory + " " + n.hash + "\n" }

func parseNote(b []byte) (note, bool) {
	f := strings.Split(strings.TrimSuffix(string(b), "\n"), " ")
	if len(f) != 3 {
		return note{}, false
	}
	return note{f[0], f[1], f[2]}, true
}

func (s system) notePath(name string) string { return filepath.Join(s.state, name) }

// current reports whether the kernel still has what was loaded from this source.
func (s system) current(name, source string) bool {
	b, err := os.ReadFile(s.notePath(name))
	if err != nil {
		return false
	}
	n, ok := parseNote(b)
	if !ok || n.source != source || n.directory != filepath.Base(n.directory) || !isDirOf(n.directory, name) {
		return false
	}
	mode, hash, err := s.inspect(n.directory)
	return err == nil && (mode == "enforce" || mode == "kill") && hash == n.hash
}

// inspect reads what the kernel reports of a loaded profile (security/apparmor/apparmorfs.c).
func (s system) inspect(directory string) (mode, hash string, err error) {
	dir := filepath.Join(s.securityfs, "policy/profiles", directory)
	b, err := os.ReadFile(filepath.Join(dir, "mode"))
	if err != nil {
		return "", "", err
	}
	mode = strings.TrimSpace(string(b))
	for _, name := range []string{"sha256", "sha1"} { // Linux 6.8 replaced the latter by the former
		if b, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
			return mode, strings.TrimSpace(string(b)), nil
		}
	}
	return mode, "", nil
}

// isDirOf reports whether the kernel could have made the directory for the profile: its name, a
// dot, a number.
func isDirOf(directory, name string) bool {
	number, ok := strings.CutPrefix(directory, name+".")
	return ok && number != "" && strings.Trim(number, "0123456789") == ""
}

// directories returns the directories of the loaded profiles with one of these names.
func (s system) directories(names ...string) ([]string, error) {
	all := filepath.Join(s.securityfs, "policy/profiles")
	entries, err := os.ReadDir(all)
	if err != nil {
		return nil, fmt.Errorf("read AppArmor profiles: %w", err)
	}
	var out []string
	for _, e := range entries {
		for _, name := range names {
			if !isDirOf(e.Name(), directoryName(name)) {
				continue
			}
			// Another name can have the same directory's, and a profile can be removed meanwhile.
			if own, err := line(filepath.Join(all, e.Name(), "name")); err == nil && own == name {
				out = append(out, e.Name())
			}
		}
	}
	return out, nil
}

// load has the parser compile and load the text, under a lock, and notes what it did. It returns
// false if another process loaded it meanwhile.
func (s system) load(ctx context.Context, name, source, text string) (bool, error) {
	if _, err := os.Stat(filepath.Join(s.securityfs, ".replace")); err != nil {
		return false, errNoInterface
	}
	parser, err := s.parser()
	if err != nil {
		return false, err
	}
	if err := os.MkdirAll(s.state, 0o700); err != nil {
		return false, err
	}
	unlock, err := lock(ctx, filepath.Join(s.state, ".lock")) // no profile name begins with a dot
	if err != nil {
		return false, err
	}
	defer unlock()
	if s.current(name, source) {
		return false, nil
	}
	// --skip-cache: the parser's cache is keyed by file times, and there is no file.
	cmd := exec.CommandContext(ctx, parser, "--replace", "--skip-cache")
	cmd.Stdin = strings.NewReader(text)
	cmd.Env = []string{"LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Dir = "/"
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := fork.RunCommand(cmd); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return false, fmt.Errorf("%s: %w: %s", parser, err, lastLines(out.Bytes()))
	}
	if ok, err := s.loaded(name); err != nil {
		return false, err
	} else if !ok {
		return false, fmt.Errorf("%s reported success, but the profile is not enforced: %s", parser, lastLines(out.Bytes()))
	}
	// Without the kernel's policy directory there is no note: the next Ensure loads it once more.
	dirs, err := s.directories(name)
	if err != nil || len(dirs) == 0 {
		return true, nil
	}
	_, hash, err := s.inspect(dirs[0])
	if err != nil {
		return true, nil
	}
	return true, atomicfile.Write(s.notePath(name), []byte(note{source, dirs[0], hash}.String()), 0o600)
}

// parser picks the first candidate that exists and that only root can change.
func (s system) parser() (string, error) {
	var refused error
	for _, candidate := range s.parsers {
		path, err := s.trustedFn(candidate)
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, os.ErrNotExist) && refused == nil {
			refused = err
		}
	}
	if refused != nil {
		return "", refused
	}
	return "", errNoParser
}

// lock takes an exclusive lock on path and stops when ctx ends.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	done := make(chan error, 1)
	go func() {
		for {
			err := unix.Flock(fd, unix.LOCK_EX)
			if err != unix.EINTR {
				done <- err
				return
			}
		}
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		// The waiting thread still uses the descriptor: it closes it when its turn comes.
		go func() { <-done; unix.Close(fd) }()
		return nil, fmt.Errorf("wait for %s: %w", path, ctx.Err())
	}
	if err != nil {
		unix.Close(fd)
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return func() { unix.Close(fd) }, nil
}

// lastLines keeps the parser's complaint short enough for one error line.
func lastLines(b []byte) string {
	const most = 500
	s := strings.Join(strings.Fields(string(b)), " ")
	if len(s) > most {
		s = "… " + s[len(s)-most:]
	}
	return s
}
