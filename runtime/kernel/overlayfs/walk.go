package overlayfs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// An Entry is a file that Walk has found.
type Entry struct {
	Path string // below the root
	Dir  int    // its directory, open
	Stat unix.Stat_t
}

// IsDir reports whether the entry is a directory.
func (e *Entry) IsDir() bool { return e.Stat.Mode&unix.S_IFMT == unix.S_IFDIR }

// Walk calls do for each file below the directory at a path of root: first for all names of a
// directory, in order, then for those in its directories. fs.SkipDir leaves out what is in a
// directory. One directory is open at a time, however deep they are.
//
// Where a directory cannot be opened or listed, or an entry is gone, do is called with the error,
// which has the path. Other errors of do, and of the context, end the walk.
func Walk(ctx context.Context, root int, at string, do func(Entry, error) error) error {
	dirs, err := walkDir(ctx, root, at, do)
	for i := 0; i < len(dirs) && err == nil; i++ {
		err = Walk(ctx, root, dirs[i], do)
	}
	return err
}

// walkDir is Walk in one directory, and returns those below it.
func walkDir(ctx context.Context, root int, at string, do func(Entry, error) error) (dirs []string, err error) {
	fd, err := Beneath(root, at, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, errors.Join(ctx.Err(), do(Entry{Path: at}, &os.PathError{Op: "open", Path: at, Err: err}))
	}
	f := os.NewFile(uintptr(fd), at)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		if err := do(Entry{Path: at}, err); err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e := Entry{Path: path.Join(at, name), Dir: fd}
		err := unix.Fstatat(fd, name, &e.Stat, unix.AT_SYMLINK_NOFOLLOW)
		if err != nil {
			err = &os.PathError{Op: "stat", Path: e.Path, Err: err}
		}
		switch err := do(e, err); {
		case errors.Is(err, fs.SkipDir):
		case err != nil:
			return nil, err
		case e.IsDir():
			dirs = append(dirs, e.Path)
		}
	}
	return dirs, nil
}
