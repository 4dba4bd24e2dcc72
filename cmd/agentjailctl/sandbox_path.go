package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/console"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/lifecycle"
	"agentjail.dev/runtime/runccli"
	"agentjail.dev/runtime/spec/sandbox"
)

// lookPath finds the command as a shell in the sandbox would, with a shell's exit codes.
func lookPath(name string, o sandbox.Options) (string, error) {
	try := []string{name}
	switch {
	case filepath.IsAbs(name):
	case strings.Contains(name, "/"):
		try = []string{filepath.Join(o.Workspace, name)}
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
	found := ""
	for _, p := range try {
		fi, err := os.Stat(o.OnHost(p))
		if err != nil || fi.IsDir() {
			continue
		}
		if fi.Mode()&0o111 != 0 {
			return p, nil
		}
		found = p
	}
	if found != "" {
		fmt.Fprintf(os.Stderr, "agentjail: %s: permission denied\n", found)
		return "", &lifecycle.ExitError{Code: 126}
	}
	shown := runccli.OneLine(name)
	if strings.TrimSpace(name) == "" {
		shown = fmt.Sprintf("%q", name)
	}
	fmt.Fprintf(os.Stderr, "agentjail: %s: command not found\n", shown)
	return "", &lifecycle.ExitError{Code: 127}
}

// programDirs returns the directories with programs that are file systems of their own: in the root
// file system alone they are empty.
func programDirs() []string {
	var root unix.Stat_t
	if unix.Stat("/", &root) != nil {
		return nil
	}
	var out []string
	for _, d := range []string{"/usr", "/usr/local", "/opt", "/nix"} {
		var st unix.Stat_t
		if unix.Lstat(d, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Dev != root.Dev {
			out = append(out, d)
		}
	}
	return out
}

func isTerminal(f *os.File) bool {
	_, err := console.ConsoleFromFile(f)
	return err == nil
}
