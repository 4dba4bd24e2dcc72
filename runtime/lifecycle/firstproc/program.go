package firstproc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/spec/lazyregexp"
)

// CheckProgram looks for a process's program in the running jail, and fails in the words of runc if
// there is none: from them engines derive whether a container's status is 127 or 126 (moby
// daemon/errors.go, translateContainerdStartErr). The delegate cannot do this, as it starts the
// init step. Only the message depends on the result: the step looks again, as the jail's own user.
// A server that cannot do its work is refused.
func CheckProgram(pid int, p *specs.Process) error {
	if p == nil || len(p.Args) == 0 {
		return nil
	}
	dir, err := unix.Open(fmt.Sprintf("/proc/%d/root", pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil //nolint:nilerr // not running: the delegate reports it in its own words
	}
	defer unix.Close(dir)
	path, err := findProgram(dir, p, p.Args[0])
	if err != nil {
		return err
	}
	args := p.Args
	if strings.Contains(filepath.Base(path), "entrypoint") && len(args) > 1 { // an image's, which executes its arguments
		if at, err := findProgram(dir, p, args[1]); err == nil {
			path, args = at, args[1:]
		}
	}
	return checkServer(path, args, p)
}

// findProgram returns the path of a program as a process of the jail finds it.
func findProgram(dir int, p *specs.Process, name string) (path string, err error) {
	if strings.ContainsRune(name, '/') {
		path := name
		if !filepath.IsAbs(path) {
			path = p.Cwd + "/" + path // not cleaned: ".." after a link
		}
		switch err := runnable(dir, path); {
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
			return "", fmt.Errorf("exec: %q: stat %s: %w", name, name, err)
		case err != nil:
			return "", fmt.Errorf("exec: %q: %w", name, err)
		}
		return path, nil
	}
	var denied error
	for d := range strings.SplitSeq(pathOf(p.Env), ":") {
		if !filepath.IsAbs(d) || name == "" { // which would be the directory itself
			continue
		}
		err := runnable(dir, d+"/"+name)
		if err == nil {
			return d + "/" + name, nil
		}
		if errors.Is(err, os.ErrPermission) {
			denied = err
		}
	}
	if denied != nil {
		return "", fmt.Errorf("exec: %q: %w", name, denied)
	}
	return "", fmt.Errorf("exec: %q: executable file not found in $PATH", name)
}

// servers are programs of the system's that do all of their work as other users, root's own work
// too. As root without CAP_SETGID they start, and then fail in silence or in a loop: the workers of
// php-fpm, each job of cron, each connection of sshd, which also needs chroot(2).
var servers = map[string]string{ // with remedies
	"php-fpm": "-u www-data, or --runtime=agentjail-service",
	"cron":    "--runtime=agentjail-service", "crond": "--runtime=agentjail-service",
	"sshd": "docker exec in its place",
}

// reports matches an option with which a server ends after a report.
var reports = lazyregexp.New(`^-([hvVitTmG?]|-(help|version|info|modules|test)$)`)

// checkServer refuses a process of root's that is one of servers, of any version.
func checkServer(path string, args []string, p *specs.Process) error {
	dir, name := filepath.Split(filepath.Clean(path))
	remedy := servers[strings.TrimRight(name, ".0123456789")]
	systems := filepath.Base(dir) == "sbin" || dir == "/usr/bin/" || dir == "/bin/"
	able := p.User.UID != 0 || p.Capabilities != nil && slices.Contains(p.Capabilities.Permitted, "CAP_SETGID")
	if remedy == "" || !systems || able || slices.ContainsFunc(args[1:], reports().MatchString) {
		return nil
	}
	return fmt.Errorf("exec: %q: %w: it works as other users, which root of a jail cannot become (remedy: %s)", args[0], unix.EPERM, remedy)
}

// pathOf returns the environment's PATH. The last one counts.
func pathOf(env []string) string {
	for _, entry := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(entry, "PATH="); ok {
			return v
		}
	}
	return ""
}

// runnable returns the reason why a file of the jail cannot be run, as far as that is visible from
// outside. A path through one of /proc's links is left to the step.
func runnable(root int, path string) error {
	fd, err := openat.Open(root, path, openat.InRoot, unix.O_PATH)
	if err != nil {
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
			return err
		}
		return nil //nolint:nilerr // the step finds out
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil //nolint:nilerr // the step finds out
	}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFDIR, st.Mode&0o111 == 0:
		return unix.EACCES // execve(2)
	}
	return nil
}
