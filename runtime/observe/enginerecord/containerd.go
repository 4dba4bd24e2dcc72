package enginerecord

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"agentjail.dev/runtime/kernel/procstatus"
)

// Namespace returns containerd's namespace of a container, by its bundle; "" for another engine's.
// containerd has bundles in STATE/io.containerd.runtime.v2.task/NAMESPACE/ID.
func Namespace(bundle string) string {
	of := filepath.Dir(bundle)
	if !strings.HasPrefix(filepath.Base(filepath.Dir(of)), "io.containerd.runtime.") {
		return ""
	}
	return filepath.Base(of)
}

// maxAncestors bounds the number of processes between a shim and the runtime: dockerd may write a
// script for the runtime (moby, daemon/runtime_unix.go).
const maxAncestors = 4

// Address returns the path of containerd's socket, with which containerd called the shim that this
// process is, or that called it (containerd, pkg/shim, parseFlags); "" without a shim.
func Address() string {
	for pid, n := os.Getpid(), 0; pid > 1 && n < maxAncestors; n++ {
		if strings.HasPrefix(programOf(pid), "containerd-shim") {
			return option(arguments(pid), "-address", "--address")
		}
		fields, err := procstatus.Stat(pid)
		if err != nil {
			return ""
		}
		if pid, err = strconv.Atoi(fields[1]); err != nil {
			return ""
		}
	}
	return ""
}

// LabelsVerb is the argument that has agentjailctl print a container's labels (the package
// containerd). Its further arguments are the socket's address, the namespace and the container.
const LabelsVerb = "containerd-labels"
