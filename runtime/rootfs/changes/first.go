package changes

import (
	"context"
	"errors"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/overlayfs"
)

// First lists at most most entries of a jail's ephemeral layer, and reports whether there are
// more. Unlike List, it takes no longer in a layer with hundreds of thousands of files, or in an
// endlessly deep one: a jail must not delay its removal. The file system's order decides which
// entries are listed, directories nearer to the root first.
func First(ctx context.Context, layer *os.File, below Below, since time.Time, most int) (out []Change, more bool, err error) {
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
			if later(&e, since) {
				out = append(out, changeOf(&e, below))
			}
			if e.IsDir() {
				dirs = append(dirs, e.Path)
			}
		}
	}
	slices.SortFunc(out, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return out, more, nil
}

// firstIn returns the first entries of a directory, and whether there are others. A removed or
// unreadable directory has none.
func firstIn(root int, dir string, most int) (out []entry, more bool) {
	fd, err := overlayfs.Beneath(root, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, !errors.Is(err, unix.ENOENT)
	}
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close()
	names, _ := f.Readdirnames(most + 1)
	if more = len(names) > most; more {
		names = names[:most]
	}
	for _, name := range names {
		e := entry{Path: path.Join(dir, name)}
		if unix.Fstatat(fd, name, &e.Stat, unix.AT_SYMLINK_NOFOLLOW) == nil {
			out = append(out, e)
		}
	}
	return out, more
}
