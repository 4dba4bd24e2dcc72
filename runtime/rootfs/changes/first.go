package changes

import (
	"context"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// First lists at most most of what a jail's ephemeral layer holds, and reports whether there is more. Unlike List, it takes no longer in a
// layer with hundreds of thousands of files, or in one that is so deep that there is no end to it: who removes a jail must not be kept.
// Which of them are listed is the file system's order, directories nearer to the root first.
func First(ctx context.Context, layer *os.File, below Below, most int) (out []Change, more bool, err error) {
	dirs := []string{"."}
	for len(dirs) > 0 {
		if err := ctx.Err(); err != nil {
			return out, true, err
		}
		dir := dirs[0]
		dirs = dirs[1:]
		if len(out) >= most {
			return out, true, nil
		}
		found, rest := firstIn(int(layer.Fd()), dir, most-len(out))
		more = more || rest
		for _, e := range found {
			kind := Added
			switch {
			case isWhiteout(&e.st):
				kind = Deleted
			case below(e.path):
				kind = Changed
			}
			out = append(out, Change{kind, "/" + e.path})
			if e.st.Mode&unix.S_IFMT == unix.S_IFDIR {
				dirs = append(dirs, e.path)
			}
		}
	}
	slices.SortFunc(out, func(a, b Change) int {
		if a.Path < b.Path {
			return -1
		}
		return 1
	})
	return out, more, nil
}

// firstIn are the first entries of a directory, and whether there are others. One that is gone, or cannot be opened, has none.
func firstIn(root int, dir string, most int) (out []entry, more bool) {
	fd, err := beneath(root, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err != unix.ENOENT
	}
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close()
	names, _ := f.Readdirnames(most + 1)
	if more = len(names) > most; more {
		names = names[:most]
	}
	for _, name := range names {
		e := entry{path: path.Join(dir, name)}
		if unix.Fstatat(fd, name, &e.st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			out = append(out, e)
		}
	}
	return out, more
}
