package facts

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

// readConmon returns the name of the container id on the command line of the process pid, if that
// is a conmon. Podman starts one for each container, which starts the runtime (conmon(8)).
func readConmon(pid int, id string) string {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil || filepath.Base(exe) != "conmon" {
		return ""
	}
	text, err := atomicfile.Read(fmt.Sprintf("/proc/%d/cmdline", pid), maxArguments)
	if err != nil {
		return ""
	}
	var args []string
	for a := range bytes.SplitSeq(text, []byte{0}) {
		args = append(args, string(a))
	}
	return conmonName(args, id)
}

// conmonName returns the name of the container id from conmon's arguments.
func conmonName(args []string, id string) string {
	value := func(options ...string) string {
		at := slices.IndexFunc(args, func(a string) bool { return slices.Contains(options, a) })
		if at < 0 || at+1 >= len(args) {
			return ""
		}
		return args[at+1]
	}
	if value("-c", "--cid") != id {
		return ""
	}
	return value("-n", "--name")
}
