package shim

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/trusted"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/policy"
)

// enginePipes are the directories in which engines make the pipes of their
// containers, apart from the daemon's own state: containerd's default for
// clients (defaults.DefaultFIFODir), dockerd's, and those of the daemons that
// Kubernetes distributions bring with them.
var enginePipes = []string{"/run/containerd", "/run/docker", "/run/k3s/containerd", "/run/k0s/containerd"}

// An ioPolicy decides where a container's input and output may be, by the container's policy.
type ioPolicy struct {
	name   name
	bundle string
}

// checkStdio refuses a container's standard files that a shim would open or run as root on the
// host, unless a file is an engine's pipe or policy names it. containerd takes the URI of a
// container's log from a label that an image can bring (containerd.io/restart.loguri), and the shim
// runs the program of a binary URI (CVE-2026-53488), or appends the container's output to any file.
func (p ioPolicy) checkStdio(stdin, stdout, stderr string) error {
	for _, f := range []struct{ what, uri string }{{"input", stdin}, {"output", stdout}, {"error output", stderr}} {
		if err := p.check(f.uri); err != nil {
			return fmt.Errorf("standard %s: %w", f.what, err)
		}
	}
	return nil
}

// check judges one URI as containerd's task service would read it
// (containerd-shim-runc-v2/process, createIO).
func (p ioPolicy) check(uri string) error {
	if uri == "" {
		return nil
	}
	u, err := url.Parse(uri)
	if err != nil {
		return refusal.New(refusal.Log, "not a URI: %v", err)
	}
	if p.enginePipe(uri) || p.ownPipe(uri) {
		return nil
	}
	pol, err := policy.LoadLasting(cmp.Or(p.name.config, policy.DefaultPath), p.name.policy)
	if err != nil {
		return err
	}
	switch {
	case pol.Passthrough:
		return nil
	case u.Scheme == "":
		return checkPlain(uri, pol.Shim)
	case u.Host != "" || u.User != nil || u.Opaque != "" || !cleanAbsolute(u.Path):
		return refusal.New(refusal.Log, "%q does not name a clean absolute path", uri)
	case u.Scheme == "binary" || u.Scheme == "binary-v2":
		return checkLogger(u, pol.Shim)
	case u.Scheme == "file":
		return checkFile(u.Path, pol.Shim)
	}
	return refusal.New(refusal.Log, "%q: logs of the scheme %q are not known", uri, u.Scheme)
}

// enginePipe reports whether a path is that of a pipe in a directory of engines'.
func (p ioPolicy) enginePipe(path string) bool {
	return cleanAbsolute(path) && isPipe(path) && belowAny(path, append(p.daemonDirs(), enginePipes...))
}

// ownPipe reports whether a path is that of a pipe in a directory that has the
// container's id for its name, and belongs to root as the pipe does: so dockerd
// keeps the pipes of a container below its --exec-root (EXEC-ROOT/containerd/ID),
// wherever that is.
func (p ioPolicy) ownPipe(path string) bool {
	if !cleanAbsolute(path) || p.bundle == "" || filepath.Base(filepath.Dir(path)) != filepath.Base(p.bundle) {
		return false
	}
	return isPipe(path) && ownedByRoot(path) && ownedByRoot(filepath.Dir(path))
}

func ownedByRoot(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Uid == 0 && st.Mode&unix.S_IFMT != unix.S_IFLNK
}

// daemonDirs returns the bundle's own directory, and that of the daemon that made it: containerd
// has bundles in STATE/io.containerd.runtime.v2.task/NAMESPACE/ID, and a containerd that dockerd
// starts has its state in EXEC-ROOT/containerd/daemon, beside the pipes.
func (p ioPolicy) daemonDirs() []string {
	if !cleanAbsolute(p.bundle) {
		return nil
	}
	dirs := []string{p.bundle}
	tasks := filepath.Dir(filepath.Dir(p.bundle))
	if filepath.Base(tasks) != "io.containerd.runtime.v2.task" {
		return dirs
	}
	state := filepath.Dir(tasks)
	if strings.HasSuffix(state, "/containerd/daemon") {
		state = filepath.Dir(state)
	}
	return append(dirs, state)
}

func checkPlain(path string, s policy.Shim) error {
	if !cleanAbsolute(path) {
		return refusal.New(refusal.Log, "%q is not a clean absolute path", path)
	}
	if !belowAny(path, s.Logs) {
		return refusal.New(refusal.Log, "%s is neither a pipe of an engine's nor below a directory of policy's shim.logs",
			path).WithRemedy("add %q to shim.logs", filepath.Dir(path))
	}
	return checkNode(path)
}

func checkFile(path string, s policy.Shim) error {
	if !belowAny(path, s.Logs) {
		return refusal.New(refusal.Log, "the log file %s is not below a directory of policy's shim.logs", path).WithRemedy("add %q to shim.logs", filepath.Dir(path))
	}
	return checkNode(path)
}

// checkNode refuses a path that is neither a file, nor a pipe, nor missing.
func checkNode(path string) error {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	switch mode := st.Mode & unix.S_IFMT; {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return &os.PathError{Op: "lstat", Path: path, Err: err}
	case mode != unix.S_IFREG && mode != unix.S_IFIFO:
		return refusal.New(refusal.Log, "the log %s is neither a file nor a pipe", path)
	}
	return nil
}

func checkLogger(u *url.URL, s policy.Shim) error {
	if !s.Logger(u.Path, u.Query()) {
		return refusal.New(refusal.Log, "the log URI would run the program %s as root on the host, which an image's label can request (CVE-2026-53488)", u.Path).
			WithRemedy("if it is your logger, add %q to shim.loggers of the policy", policy.LoggerEntry(u.Path, u.Query()))
	}
	if err := trusted.Check(u.Path); err != nil {
		return refusal.New(refusal.Log, "the logger %s: %v", u.Path, err)
	}
	return nil
}

// belowAny reports whether a path is below one of these directories when links are followed:
// /var/run is a link on most hosts. The existing part of a path decides.
func belowAny(path string, dirs []string) bool {
	real := ""
	for at, rest := filepath.Dir(path), filepath.Base(path); ; at, rest = filepath.Dir(at), filepath.Join(filepath.Base(at), rest) {
		r, err := filepath.EvalSymlinks(at)
		if err == nil {
			real = filepath.Join(r, rest)
			break
		}
		if !errors.Is(err, os.ErrNotExist) || at == "/" {
			return false
		}
	}
	return slices.ContainsFunc(dirs, func(d string) bool {
		r, err := filepath.EvalSymlinks(d)
		return err == nil && pathname.Below(real, r)
	})
}

func isPipe(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
}

func cleanAbsolute(path string) bool { return filepath.IsAbs(path) && filepath.Clean(path) == path }
