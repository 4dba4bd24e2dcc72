package guest

import (
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/jailinit"
)

// lookup finds the program as runc does. Engines look for these messages: Docker exits with 127 for
// a program that is missing, and with 126 for a program that cannot be run.
func lookup(name string, env []string) (path string, status int, why string) {
	if strings.ContainsRune(name, '/') {
		switch err := executable(name); {
		case err == nil:
			return name, 0, ""
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
			return "", jailinit.ExitNotFound, "exec: " + strconv.Quote(name) + ": stat " + name + ": " + err.Error()
		default:
			return "", jailinit.ExitNotExecutable, "exec: " + strconv.Quote(name) + ": " + err.Error()
		}
	}
	if name == "" {
		return "", jailinit.ExitNotFound, notInPath(name)
	}
	denied := false
	for dir := range strings.SplitSeq(pathOf(env), ":") {
		if !strings.HasPrefix(dir, "/") {
			continue // a program of the working directory is not meant
		}
		p := dir + "/" + name
		switch err := executable(p); {
		case err == nil:
			return p, 0, ""
		case errors.Is(err, unix.EACCES):
			denied = true
		}
	}
	if denied {
		return "", jailinit.ExitNotExecutable, "exec: " + strconv.Quote(name) + ": permission denied"
	}
	return "", jailinit.ExitNotFound, notInPath(name)
}

// pathOf returns the program's PATH. The first of a name counts (getenv(3)).
func pathOf(env []string) string {
	for _, e := range env {
		if path, ok := strings.CutPrefix(e, "PATH="); ok {
			return path
		}
	}
	return ""
}

func notInPath(name string) string {
	return "exec: " + strconv.Quote(name) + ": executable file not found in $PATH"
}

// executable is nil for a file that this process may run.
func executable(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return unix.EACCES // as execve(2) returns
	}
	return unix.Access(path, unix.X_OK)
}
