package bindsource

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/policy"
)

// maxFitting bounds the names that the patterns of workspace.review are compared with.
const maxFitting = 100_000

// FollowReview returns the patterns that symbolic links on the way of workspace.review's lead to,
// as the host has them now. Links below a `**` are not followed. Patterns that fit too many names
// are refused.
func FollowReview(patterns []string) ([]string, error) {
	f := follower{room: maxFitting}
	for _, p := range patterns {
		if err := f.follow("/", pathname.Components(p)); err != nil {
			return nil, fmt.Errorf("workspace.review = %q: %w", p, err)
		}
	}
	slices.Sort(f.led)
	return slices.Compact(f.led), nil
}

// Reviewed returns the pattern of workspace.review that a directory, mounted writable with all that
// is mounted below it, reaches; "" for none.
func Reviewed(dir string, w policy.Workspace) (pattern string, err error) {
	if len(w.Review) == 0 {
		return "", nil
	}
	led, err := FollowReview(w.Review)
	if err != nil {
		return "", err
	}
	s, err := Open(dir, Engine{})
	if err != nil {
		return "", err
	}
	defer s.File.Close()
	_, _, pattern = w.Wants("/", s.Reached(), s.Kind == Dir, led)
	return pattern, nil
}

type follower struct {
	room int
	led  []string
}

// follow looks for links below a directory, which has none on its way, along the rest of a pattern.
func (f *follower) follow(at string, rest []string) error {
	if len(rest) == 0 || rest[0] == "**" {
		return nil
	}
	names := rest[:1]
	if isPattern(rest[0]) {
		var err error
		if names, err = f.fitting(at, rest[0]); err != nil {
			return err
		}
	}
	for _, name := range names {
		if f.room--; f.room < 0 {
			return errFitting()
		}
		next := path.Join(at, name)
		var st unix.Stat_t
		if unix.Lstat(next, &st) != nil {
			continue
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			to, err := openat.Follow(next, targetOf)
			if err != nil {
				continue // a circle, which leads nowhere
			}
			next = to
			f.led = append(f.led, path.Join(append([]string{quoted.Replace(next)}, rest[1:]...)...))
		case unix.S_IFDIR:
		default:
			continue
		}
		if err := f.follow(next, rest[1:]); err != nil {
			return err
		}
	}
	return nil
}

// targetOf returns the target of a symbolic link; "" for all else.
func targetOf(at string) (string, error) {
	target, err := openat.Readlink(unix.AT_FDCWD, at)
	if err != nil {
		return "", nil //nolint:nilerr // no link, or nothing
	}
	return target, nil
}

// isPattern reports whether a part of a pattern is more than a name (path.Match).
func isPattern(name string) bool { return strings.ContainsAny(name, `*?[\`) }

// quoted makes a pattern of a path, for that path alone.
var quoted = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)

// fitting lists the names in a directory that fit a part of a pattern; none of a directory that
// this process may not read.
func (f *follower) fitting(dir, pattern string) (out []string, err error) {
	d, err := openat.File(unix.AT_FDCWD, dir, openat.NoLinks, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, nil //nolint:nilerr // nothing in it fits
	}
	defer d.Close()
	for {
		names, err := d.Readdirnames(1024)
		if f.room -= len(names); f.room < 0 {
			return nil, errFitting()
		}
		for _, name := range names {
			if ok, _ := path.Match(pattern, name); ok {
				out = append(out, name)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, &os.PathError{Op: "list", Path: dir, Err: err}
		}
	}
}

func errFitting() error {
	return refusal.New(refusal.Workspace, "the patterns of workspace.review are compared with more than %d names", maxFitting).
		WithRemedy("a pattern that ends in the directory's name and **")
}
