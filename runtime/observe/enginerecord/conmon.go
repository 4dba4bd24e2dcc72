package enginerecord

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"agentjail.dev/runtime/kernel/atomicfile"
)

// maxArguments bounds the length of conmon's command line, in bytes.
const maxArguments = 1 << 20

// Conmon is read from the command line of a container's conmon (conmon(8)).
type Conmon struct {
	Name string
	// Events is where Podman keeps its events, if it keeps them in a file: beside the directory of
	// conmon's exit files. Podman removes the exit file before it has the runtime delete the
	// container (libpod, cleanupRuntime).
	Events string
	// Podman's own directories, with which it calls itself at the container's end; "" where another
	// engine started conmon.
	root, runroot, tmpdir string
}

// ReadConmon reads the command line of the process pid, if it is the conmon of the container id.
// Podman and CRI-O start a conmon for each container, and it starts the runtime.
func ReadConmon(pid int, id string) Conmon {
	if programOf(pid) != "conmon" {
		return Conmon{}
	}
	return conmonOf(arguments(pid), id)
}

// programOf returns the name of the program that a process runs.
func programOf(pid int) string {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return ""
	}
	return filepath.Base(exe)
}

// arguments returns a process's command line.
func arguments(pid int) (args []string) {
	text, err := atomicfile.Read(fmt.Sprintf("/proc/%d/cmdline", pid), maxArguments)
	if err != nil {
		return nil
	}
	for a := range bytes.SplitSeq(text, []byte{0}) {
		args = append(args, string(a))
	}
	return args
}

// option returns the value of an option of a command line, by any of its names.
func option(args []string, names ...string) string {
	at := slices.IndexFunc(args, func(a string) bool { return slices.Contains(names, a) })
	if at < 0 || at+1 >= len(args) {
		return ""
	}
	return args[at+1]
}

// conmonOf reads conmon's arguments.
func conmonOf(args []string, id string) (c Conmon) {
	if option(args, "-c", "--cid") != id {
		return c
	}
	c.Name = option(args, "-n", "--name")
	if dir := option(args, "--exit-dir"); filepath.IsAbs(dir) {
		c.Events = filepath.Join(filepath.Dir(dir), "events", "events.log")
	}
	for i := 0; i+3 < len(args); i++ { // (libpod/oci_conmon_common.go, and pkg/specgenutil)
		if args[i] != "--exit-command-arg" || args[i+2] != args[i] {
			continue
		}
		switch args[i+1] {
		case "--root":
			c.root = args[i+3]
		case "--runroot":
			c.runroot = args[i+3]
		case "--tmpdir":
			c.tmpdir = args[i+3]
		}
	}
	return c
}
