// Command escape tries one known way out of a file tree, from inside, and prints "through" or
// why it ended. It is run behind each boundary that hack/bench/boundaries compares, on files
// and a process that were made for it.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A try gets the marker's path on the host, the number of a block device and of a process
// there.
type target struct {
	marker string
	device uint64
	pid    int
}

var tries = map[string]func(target) error{
	"double chroot": func(t target) error {
		if err := unix.Chroot(mkdir()); err != nil {
			return err
		}
		return climb(t)
	},
	"fchdir": func(t target) error {
		fd, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		if err := unix.Chroot(mkdir()); err != nil {
			return err
		}
		if err := unix.Fchdir(fd); err != nil {
			return err
		}
		return climb(t)
	},
	"mknod": func(t target) error {
		node := filepath.Join(mkdir(), "disk")
		if err := unix.Mknod(node, unix.S_IFBLK|0o600, int(t.device)); err != nil {
			return err
		}
		f, err := os.Open(node)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.Read(make([]byte, 512))
		return err
	},
	"ptrace": func(t target) error {
		err := unix.PtraceSeize(t.pid)
		if err == nil {
			_ = unix.PtraceDetach(t.pid)
		}
		return err
	},
	"/proc/1/root": func(t target) error {
		if _, err := os.Stat("/proc/1"); err != nil {
			_ = os.Mkdir("/proc", 0o555)
			if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
				return err
			}
		}
		return read("/proc/1/root" + t.marker)
	},
}

// mkdir makes a directory where there is room.
func mkdir() string {
	for _, dir := range []string{"/", "/tmp"} {
		if made, err := os.MkdirTemp(dir, "escape"); err == nil {
			return made
		}
	}
	return "/tmp"
}

// climb goes up from a working directory outside the root, and reads.
func climb(t target) error {
	for range 64 {
		if err := unix.Chdir(".."); err != nil {
			return err
		}
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return read(t.marker)
}

// read is nil if the marker is the host's: it holds its own path.
func read(path string) error {
	text, err := os.ReadFile(path)
	if err == nil && !strings.HasSuffix(path, string(text)) {
		err = errors.New("another file")
	}
	return err
}

func main() {
	if len(os.Args) == 2 && looks[os.Args[1]] != nil {
		if err := looks[os.Args[1]](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) != 5 || tries[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: escape TRY MARKER DEVICE PID | files | shown")
		os.Exit(2)
	}
	device, _ := strconv.ParseUint(os.Args[3], 10, 64)
	pid, _ := strconv.Atoi(os.Args[4])
	if err := tries[os.Args[1]](target{os.Args[2], device, pid}); err != nil {
		fmt.Println("stopped:", err)
		return
	}
	fmt.Println("through")
}
