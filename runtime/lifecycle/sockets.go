package lifecycle

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/state"
)

// socketsFile bounds the buffers of the sockets of a control group of version 1. crun writes it,
// and runc does not (libcontainer, since 1.0.0-rc94).
const socketsFile = "memory.kmem.tcp.limit_in_bytes"

// withoutSockets returns the resources without the limit on socket buffers, which the delegate must
// not set.
func withoutSockets(r *specs.LinuxResources) *specs.LinuxResources {
	if r == nil || r.Memory == nil || r.Memory.KernelTCP == nil {
		return r
	}
	out, memory := *r, *r.Memory
	memory.KernelTCP = nil
	out.Memory = &memory
	if memory == (specs.LinuxMemory{}) {
		out.Memory = nil
	}
	return &out
}

// boundSockets sets that limit on the group of the jail's waiting first process. The limit stays
// when the delegate updates others.
func boundSockets(pid int, j *state.Jail) error {
	m := memoryOf(j)
	if m == nil || m.KernelTCP == nil {
		return nil
	}
	dir, err := memoryGroup(pid)
	if err != nil {
		return fmt.Errorf("the limit on socket buffers: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, socketsFile), strconv.AppendInt(nil, *m.KernelTCP, 10), 0); err != nil {
		return fmt.Errorf("the limit on socket buffers: %w", err)
	}
	return nil
}

// memoryGroup returns the directory of a process's group in the memory hierarchy of version 1. The
// root group, which is the host's, has no limits.
func memoryGroup(pid int) (string, error) {
	groups, err := cgroups.Of(strconv.Itoa(pid))
	if err != nil {
		return "", err
	}
	for _, g := range groups {
		if !slices.Contains(g.List(), "memory") || g.Path == "/" {
			continue
		}
		for _, root := range g.Mounts(cgroups.Root) {
			return filepath.Join(root, g.Path), nil
		}
	}
	return "", fmt.Errorf("process %d is in no memory group of its own", pid)
}
