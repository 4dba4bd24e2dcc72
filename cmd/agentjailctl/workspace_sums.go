package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
)

// sumsOf returns the hash of what sha256sum prints of the regular files among these paths below a
// directory, sorted; "" where there is none. A file that has changed since is as it is now.
func sumsOf(dir string, paths []string) string {
	fd, err := openat.Open(unix.AT_FDCWD, dir, openat.Real, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	list, n := sha256.New(), 0
	for _, name := range slices.Sorted(slices.Values(paths)) {
		f, err := openat.Regular(fd, name, openat.Beneath)
		if err != nil {
			continue // removed, a directory or a link
		}
		sum := sha256.New()
		_, err = io.Copy(sum, f)
		f.Close()
		if err != nil {
			fmt.Fprintf(os.Stderr, "agentjail: hashing %q for the receipt: %v\n", name, err)
			continue
		}
		n++
		fmt.Fprintf(list, "%x  %s\n", sum.Sum(nil), name)
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("sha256:%x", list.Sum(nil))
}
