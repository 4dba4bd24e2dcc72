package delegate

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// SandboxOptions are what a sandbox is made with beyond its bundle.
type SandboxOptions struct {
	// Network is where the sockets of the jail's programs are.
	Network SandboxNetwork
	// ByGofer has a process outside the sandbox open all files. The sandbox then has no mounts of
	// its own: a mount point that keeps a directory from being renamed holds. It is slower.
	ByGofer bool
}

// SandboxNetwork is where the sockets of a sandboxed jail are.
type SandboxNetwork int

// The places of sockets.
const (
	GuestSockets SandboxNetwork = iota // in the guest kernel, behind the namespace's interfaces
	NoSockets                          // in the guest kernel, with no interface but lo
	HostSockets                        // in the host's kernel, in the bundle's own network namespace
)

// A commandLine is how a sandbox's command line differs from runc's.
type commandLine struct {
	// flags go in front of the verb of each call, and one of network, and perhaps byGofer.
	flags   []string
	network map[SandboxNetwork]string
	byGofer string
	// unknown are runc's options that it does not know, and whether each has a value.
	unknown map[string]bool
}

// Platform is how gVisor's sentry runs the jail's programs. The other, kvm, is left out: the
// sentry would have /dev/kvm.
const Platform = "systrap"

// commandLines are those of the sandboxes, by the name of the boundary.
var commandLines = map[string]commandLine{
	// gVisor, runsc/config/flags.go. Files can be changed from outside (docker cp), and its own
	// layer over the root would hide that what is written is capped by agentjail's.
	"gvisor": {
		flags: []string{
			"--platform=" + Platform, "--overlay2=none", "--file-access=shared", "--oci-seccomp", "--host-uds=none",
			"--gofer-network-namespace=new",
		},
		network: map[SandboxNetwork]string{
			GuestSockets: "--network=sandbox", NoSockets: "--network=none",
			HostSockets: "--network=host",
		},
		byGofer: "--directfs=false",
		unknown: map[string]bool{
			"--preserve-fds": true, "--pidfd-socket": true, "--ignore-paused": false, "--no-new-keyring": false,
			"--rootless": true,
		},
	},
}

// translate returns the arguments of a call in runc's form as this delegate takes them. A sandbox
// reads its own options at create alone.
func (r *Runtime) translate(args []string) []string {
	line, ok := commandLines[r.Traits().Sandbox]
	if !ok {
		return args
	}
	if r.Container != "" {
		root := ""
		if len(args) > 1 && args[0] == "--root" {
			root, args = args[1], args[2:]
		}
		args = append([]string{"--root", filepath.Dir(r.Traits().StateOf(r.Name, root, r.Container))}, args...)
	}
	out := append(slices.Clone(line.flags), line.network[r.Sandbox.Network])
	if r.Sandbox.ByGofer {
		out = append(out, line.byGofer)
	}
	for i := 0; i < len(args); i++ {
		name, _, whole := strings.Cut(args[i], "=")
		value, unknown := line.unknown[name]
		switch {
		case !unknown:
			out = append(out, args[i])
		case value && !whole:
			i++
		}
	}
	return out
}

// Resources are limits as this delegate is to set them.
func (r *Runtime) Resources(in *specs.LinuxResources) *specs.LinuxResources {
	if in == nil || in.Pids == nil || in.Pids.Limit == nil {
		return in
	}
	out, n := *in, r.Traits().Pids(*in.Pids.Limit)
	out.Pids = &specs.LinuxPids{Limit: &n}
	return &out
}
