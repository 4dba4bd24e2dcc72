package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/console"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/jailinit"
	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/lifecycle"
	"agentjail.dev/runtime/runccli"
	"agentjail.dev/runtime/spec/sandbox"
)

// lookPath finds the command as a shell in the sandbox would, with a shell's exit codes.
func lookPath(name string, o sandbox.Options) (string, error) {
	try := []string{name}
	switch {
	case filepath.IsAbs(name):
	case strings.Contains(name, "/") && o.Workspace == "":
		path, err := filepath.Abs(name)
		if err != nil {
			return "", err
		}
		try[0] = path
	case strings.Contains(name, "/"):
		try[0] = filepath.Join(o.Workspace, name)
	default:
		path := sandbox.Path
		for _, e := range o.Env {
			if v, ok := strings.CutPrefix(e, "PATH="); ok {
				path = v
			}
		}
		try = nil
		for _, d := range filepath.SplitList(path) {
			try = append(try, filepath.Join(d, name))
		}
	}
	found, absent := "", ""
	for _, p := range try {
		fi, err := os.Stat(o.OnHost(p))
		switch {
		case err != nil, fi.IsDir() && p != name:
		case !present(p, o):
			absent = cmp.Or(absent, p)
		case fi.Mode()&0o111 != 0 && !fi.IsDir():
			return p, nil
		default:
			found = p
		}
	}
	if found != "" {
		fmt.Fprintf(os.Stderr, "agentjail: %s: permission denied\n", found)
		return "", &lifecycle.ExitError{Code: jailinit.ExitNotExecutable}
	}
	if absent != "" {
		return "", notInJail(absent)
	}
	shown := runccli.OneLine(name)
	if strings.TrimSpace(name) == "" {
		shown = fmt.Sprintf("%q", name)
	}
	fmt.Fprintf(os.Stderr, "agentjail: %s: command not found\n", shown)
	return "", &lifecycle.ExitError{Code: jailinit.ExitNotFound}
}

// present reports whether a path is outside of the directories that are empty in a sandbox, or
// mounted.
func present(path string, o sandbox.Options) bool {
	mounted := func(dir string) bool { return dir != "" && pathname.Within(path, dir) }
	return !sandbox.Hides(path) || mounted(o.Workspace) || slices.ContainsFunc(o.Further, mounted) ||
		slices.ContainsFunc(o.Volumes, func(v sandbox.Volume) bool { return mounted(v.Destination) })
}

// notInJail is the error for a program that only the host has.
func notInJail(path string) error {
	real := path
	if to, err := filepath.EvalSymlinks(path); err == nil && !sandbox.Hides(path) {
		real = to
	}
	return &lifecycle.StatusError{Code: jailinit.ExitNotFound, Err: fmt.Errorf(
		"%s: not in the jail, where /home, /root, /tmp, /run, /mnt, /media and network file systems are not (remedy: --volume %[2]s:%[2]s:ro)",
		runccli.OneLine(path), runccli.OneLine(real))}
}

// mounted returns the file systems below / that a sandbox of root's shows, and those that it leaves
// out.
func mounted() (shown, left []string) {
	all, err := mountinfo.Read(mountinfo.Own)
	if err != nil {
		return nil, nil
	}
	shown, left = sandbox.Mounted(all)
	return slices.DeleteFunc(shown, func(at string) bool {
		fi, err := os.Lstat(at)
		return err != nil || !fi.IsDir() && !fi.Mode().IsRegular() // a socket, or a place that was removed
	}), left
}

// announceLeft names in one line the file systems that a sandbox leaves out.
func announceLeft(o sandbox.Options, left []string) {
	left = slices.DeleteFunc(left, func(at string) bool {
		has := func(dir string) bool { return dir != "" && (pathname.Within(at, dir) || pathname.Within(dir, at)) }
		return has(o.Workspace) || slices.ContainsFunc(o.Further, has) ||
			slices.ContainsFunc(o.Volumes, func(v sandbox.Volume) bool { return has(v.Source) })
	})
	if len(left) > 0 {
		fmt.Fprintf(os.Stderr, "agentjail: not in the jail: %s (remedy: --volume %[2]s:%[2]s:ro)\n", runccli.OneLine(strings.Join(left, ", ")),
			runccli.OneLine(left[0]))
	}
}

func isTerminal(f *os.File) bool {
	_, err := console.ConsoleFromFile(f)
	return err == nil
}

// leaveInput replaces the standard input by /dev/null in the background of a terminal, as shells do
// without job control (sh(1), asynchronous lists): the jail, in a session of its own, would read
// what is typed for the shell, and a terminal that is set raw from there stops this process.
func leaveInput() error {
	group, err := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP)
	if err != nil || group == unix.Getpgrp() {
		return nil //nolint:nilerr // not this session's terminal
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	return unix.Dup3(int(null.Fd()), int(os.Stdin.Fd()), 0)
}
