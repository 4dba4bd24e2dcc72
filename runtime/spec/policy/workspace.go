package policy

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"agentjail.dev/runtime/kernel/pathname"
)

// Workspace decides which mounted directories are views: the jail writes into a layer of its own,
// which the directory's owner reviews and applies.
type Workspace struct {
	// Review are patterns of directories of the host's. A writable mount that reaches one of them,
	// or anything in one, is a view. A pattern is a path in which `*` stands for a part of a name,
	// and `**` for any number of names.
	Review []string `toml:"review" json:"review,omitempty"`
	// Size and Files bound each view's layer, in bytes and inodes (Inodes).
	Size  Size  `toml:"size" json:"size"`
	Files int64 `toml:"files" json:"files"`
	// KeepFor and KeepSize bound how long views stay after their last jail, and what all views take
	// up on the disk; 0 sets no bound. Views beyond them are reported, and removed by a command.
	KeepFor  Span `toml:"keep_for" json:"keepFor,omitempty"`
	KeepSize Size `toml:"keep_size" json:"keepSize,omitempty"`
	// Wanted are the destinations for which an annotation or the command line requests a view; All
	// is every writable directory.
	Wanted []string `toml:"-" json:"wanted,omitempty"`
	All    bool     `toml:"-" json:"all,omitempty"`
}

// WorkspaceAnnotation is the annotation for views, without AnnotationPrefix. WorkspaceReview is its
// value for all writable directories.
const (
	WorkspaceAnnotation = "workspace"
	WorkspaceReview     = "review"
)

// minWorkspace is the smallest layer, a file system with a journal, and maxWorkspace the largest:
// ext4 of 2^32 blocks (ext4(5), 64bit).
const minWorkspace, maxWorkspace = 16 << 20, 15 << 40

// blockOfInode is the part of ext4 for which it can have one file (ext4(5)).
const blockOfInode = 4 << 10

// Inodes returns the number of files in a layer: Files, unless it is too small for them.
func (w Workspace) Inodes() int64 { return min(w.Files, int64(w.Size)/blockOfInode) }

// want applies the annotation: `review`, or destinations separated by commas.
func (w *Workspace) want(text string) (bool, error) {
	if text == WorkspaceReview {
		w.All = true
		return true, nil
	}
	var at []string
	for d := range strings.SplitSeq(text, ",") {
		if d = strings.TrimSpace(d); !path.IsAbs(d) {
			return false, fmt.Errorf("%q is neither %q nor a list of absolute paths in the container", text, WorkspaceReview)
		}
		at = append(at, path.Clean(d))
	}
	w.Wanted = slices.Concat(w.Wanted, at)
	slices.Sort(w.Wanted)
	w.Wanted = slices.Compact(w.Wanted)
	return true, nil
}

// Wants reports whether the mount at a destination is to be a view, if its source is a directory
// that can have one. reached are the places of the host's that the mount opens to its writer, the
// source's names among them (bindsource.Fact.Reached), and dir reports a directory. led are
// patterns beside Review's (bindsource.FollowReview). named reports that the caller of the engine
// named the destination, and pattern is the one that counts.
func (w Workspace) Wants(destination string, reached []string, dir bool, led []string) (wants, named bool, pattern string) {
	named = slices.Contains(w.Wanted, path.Clean(destination))
	for _, p := range slices.Concat(w.Review, led) {
		if slices.ContainsFunc(reached, func(at string) bool { return reaches(p, at, dir) }) {
			return true, named, p
		}
	}
	return named || w.All, named, ""
}

func (w Workspace) checkReview() error {
	return patterns("workspace.review", w.Review)
}

// patterns verifies a key's patterns of paths.
func patterns(key string, list []string) error {
	for _, p := range list {
		if err := checkPattern(p); err != nil {
			return fmt.Errorf("%s: %q: %w", key, clipped(p), err)
		}
	}
	return nil
}

// checkLayer refuses a size that no layer on disk can have.
func checkLayer(key string, size Size) error {
	if size < minWorkspace {
		return fmt.Errorf("%s = %q: must be at least %q", key, size, Size(minWorkspace))
	}
	if size > maxWorkspace {
		return fmt.Errorf("%s = %q: must be at most %q", key, size, Size(maxWorkspace))
	}
	return nil
}

func (w Workspace) checkFiles() error {
	if w.Files < 256 || w.Files > 1<<30 {
		return fmt.Errorf("workspace.files = %d: must be between 256 and %d", w.Files, 1<<30)
	}
	return nil
}

func (w Workspace) checkKeepSize() error {
	return notNegative("workspace.keep_size", int64(w.KeepSize))
}

func checkPattern(p string) error {
	if !filepath.IsAbs(p) || path.Clean(p) != p {
		return errors.New("must be an absolute path without . or .. in it")
	}
	_, err := path.Match(p, "/")
	return err
}

// reaches reports whether a path is or lies in a directory that a pattern stands for, or is a
// directory that can hold one, today or later.
func reaches(pattern, at string, dir bool) bool {
	names := pathname.Components(path.Clean(at))
	for i, p := range pathname.Components(pattern) {
		if p == "**" {
			return true
		}
		if i == len(names) {
			return dir
		}
		if ok, err := path.Match(p, names[i]); !ok || err != nil {
			return false
		}
	}
	return true
}
