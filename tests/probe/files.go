package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// read tries to read each of the files; the answer has the start of what it got.
func read(paths []string) (any, error) {
	type got struct {
		outcome
		Text string `json:"text,omitempty"`
	}
	all := map[string]got{}
	for _, p := range paths {
		g := got{}
		f, err := os.Open(p)
		if err == nil {
			buf := make([]byte, 256)
			var n int
			n, err = f.Read(buf)
			g.Text = string(buf[:n])
			f.Close()
		}
		if err != nil && err.Error() != "EOF" {
			g.outcome = outcomeOf(err)
		}
		all[p] = g
	}
	return all, nil
}

// write tries to open each of the files for writing. Files that exist get their own first bytes or, when they cannot be
// read, one newline; files that do not exist are created.
func write(paths []string) (any, error) {
	all := map[string]outcome{}
	for _, p := range paths {
		all[p] = outcomeOf(writeOne(p))
	}
	return all, nil
}

func writeOne(path string) error {
	text, err := os.ReadFile(path)
	if err != nil || len(text) == 0 {
		text = []byte("\n")
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(text)
	return err
}

// open tries to open each path for appending, as /dev/stdout is by programs that log. The note reports where the null device is there.
func open(paths []string) (any, error) {
	all := map[string]outcome{}
	for _, p := range paths {
		fd, err := unix.Open(p, unix.O_WRONLY|unix.O_APPEND|unix.O_CLOEXEC, 0)
		o := outcomeOf(err)
		if err == nil {
			var st unix.Stat_t
			if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(1, 3) {
				o.Note = "null device"
			}
			unix.Close(fd)
		}
		all[p] = o
	}
	return all, nil
}

// chmod tries to set mode (octal) on path and reports the mode after it.
func chmod(args []string) (any, error) {
	if len(args) != 2 {
		return nil, errors.New("usage: chmod MODE PATH")
	}
	mode, err := strconv.ParseUint(args[0], 8, 32)
	if err != nil {
		return nil, err
	}
	tried := outcomeOf(unix.Fchmodat(unix.AT_FDCWD, args[1], uint32(mode), 0))
	var st unix.Stat_t
	if err := unix.Stat(args[1], &st); err != nil {
		return nil, err
	}
	return map[string]any{"errno": tried.Errno, "mode": fmt.Sprintf("%o", st.Mode&0o7777)}, nil
}

// listing walks a tree without leaving its file system and reports for each file what matters for rights.
func listing(args []string) (any, error) {
	if len(args) != 1 {
		return nil, errors.New("usage: listing DIR")
	}
	all := map[string]string{}
	err := filepath.WalkDir(args[0], func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			all[p] = err.Error()
			return nil
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			all[p] = err.Error()
			return nil
		}
		all[p] = fmt.Sprintf("%o %d:%d", st.Mode, st.Uid, st.Gid)
		return nil
	})
	return all, err
}

// fill writes zeros into a file in DIR until MEGABYTES are written or something refuses, and removes the file.
func fill(args []string) (any, error) {
	if len(args) != 2 {
		return nil, errors.New("usage: fill DIR MEGABYTES")
	}
	most, err := strconv.Atoi(args[1])
	if err != nil {
		return nil, err
	}
	path := filepath.Join(args[0], "fill")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return map[string]any{"bytes": 0, "errno": errnoName(err), "step": "create"}, nil
	}
	defer os.Remove(path)
	defer f.Close()
	chunk := make([]byte, 1<<20)
	var written int64
	for range most {
		n, err := f.Write(chunk)
		written += int64(n)
		if err != nil {
			return map[string]any{"bytes": written, "errno": errnoName(err), "step": "write"}, nil
		}
	}
	return map[string]any{"bytes": written, "errno": ""}, nil
}

// inodes creates empty files in DIR until COUNT exist or something refuses, and removes them.
func inodes(args []string) (any, error) {
	if len(args) != 2 {
		return nil, errors.New("usage: inodes DIR COUNT")
	}
	most, err := strconv.Atoi(args[1])
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(args[0], "inodes")
	if err != nil {
		return map[string]any{"files": 0, "errno": errnoName(err)}, nil
	}
	defer os.RemoveAll(dir)
	for i := range most {
		fd, err := unix.Open(dir+"/"+strconv.Itoa(i), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return map[string]any{"files": i, "errno": errnoName(err)}, nil
		}
		unix.Close(fd)
	}
	return map[string]any{"files": most, "errno": ""}, nil
}

// winsize reports the size of the terminal on standard input, in rows and columns.
func winsize([]string) (any, error) {
	ws, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ)
	if err != nil {
		return nil, err
	}
	return map[string]any{"rows": ws.Row, "cols": ws.Col, "tty": strings.HasPrefix(linkText("/proc/self/fd/0"), "/dev/")}, nil
}
