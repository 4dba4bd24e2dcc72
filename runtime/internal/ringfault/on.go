//go:build withouttest

// Package ringfault lets a test take rings of a jail away, to see what the others
// hold by themselves. The environment variable AGENTJAIL_TEST_WITHOUT names
// them: "0", "1,2". With "mounts" the init step does not look at the mounts: a
// delegate may mount the root anew without its flags, which only the user
// namespace, ring 2's, keeps it from.
package ringfault

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/jailinit"
	"agentjail.dev/runtime/kernel/idmap"
)

var gone = strings.Split(os.Getenv("AGENTJAIL_TEST_WITHOUT"), ",")

// Ring reports whether a ring is taken away: 2, 1 or 0.
func Ring(n int) bool { return slices.Contains(gone, strconv.Itoa(n)) }

// IDs is the mapping to use instead: without ring 1 container root is host root
// by number, though still in a user namespace, which goes with ring 2.
func IDs() (idmap.Map, bool) {
	all := []specs.LinuxIDMapping{{ContainerID: 0, HostID: 0, Size: 65536}}
	return idmap.Map{Block: -1, Given: true, UIDs: all, GIDs: all}, Ring(1) || Ring(2)
}

// Spec takes the rings' part out of a hardened spec; in is the incoming one.
func Spec(s, in *specs.Spec) error {
	l, p := s.Linux, s.Process
	if Ring(0) {
		l.Seccomp = nil
	}
	if Ring(2) {
		l.UIDMappings, l.GIDMappings = nil, nil
		l.Namespaces = slices.DeleteFunc(l.Namespaces, func(n specs.LinuxNamespace) bool { return n.Type == specs.UserNamespace })
	}
	if Ring(1) {
		every := everyCapability()
		p.Capabilities = &specs.LinuxCapabilities{Bounding: every, Effective: every, Permitted: every}
		p.NoNewPrivileges = false
		p.ApparmorProfile, p.SelinuxLabel, l.MountLabel = "", "", ""
		l.MaskedPaths, l.ReadonlyPaths = nil, nil
		l.Resources.Devices = []specs.LinuxDeviceCgroup{{Allow: true, Access: "rwm"}}
	}
	if Ring(2) {
		l.Resources = &specs.LinuxResources{Devices: l.Resources.Devices}
		p.Rlimits = nil
		return foreignNamespaces(l, in)
	}
	return nil
}

// foreignNamespaces puts the jail into those that the test names, which are never the host's own:
// an escape must harm no process.
func foreignNamespaces(l *specs.Linux, in *specs.Spec) error {
	l.Namespaces, l.TimeOffsets = []specs.LinuxNamespace{{Type: specs.MountNamespace}}, nil
	for _, kind := range []specs.LinuxNamespaceType{
		specs.PIDNamespace, specs.NetworkNamespace, specs.IPCNamespace,
		specs.UTSNamespace,
	} {
		i := slices.IndexFunc(in.Linux.Namespaces, func(n specs.LinuxNamespace) bool { return n.Type == kind })
		if i < 0 || in.Linux.Namespaces[i].Path == "" {
			return fmt.Errorf("AGENTJAIL_TEST_WITHOUT: the bundle names no %s namespace to join", kind)
		}
		l.Namespaces = append(l.Namespaces, in.Linux.Namespaces[i])
	}
	return nil
}

// everyCapability is what this process itself may have.
func everyCapability() []string {
	var out []string
	for n, name := range capabilities {
		if has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(n), 0, 0, 0); err == nil && has == 1 {
			out = append(out, "CAP_"+name)
		}
	}
	return out
}

// capabilities in the order of their numbers (linux/capability.h).
var capabilities = strings.Fields(`CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP
	LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT
	SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE
	AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE`)

// Orders has the init step not miss it, and not put up its own part.
func Orders(o *jailinit.Orders) {
	if Ring(0) {
		o.Filter = nil
		o.Without = append(o.Without, "seccomp")
	}
	if Ring(1) {
		o.Landlock, o.DenyWriteExecute = jailinit.Landlock{}, false
		if o.UID != 0 {
			// Without no_new_privs only CAP_SYS_ADMIN may load a filter (seccomp(2)). The
			// delegate's is loaded before it drops that capability.
			o.Filter = nil
		}
		o.Without = append(o.Without, "status", "label", "mounts")
	}
	if slices.Contains(gone, "mounts") {
		o.Without = append(o.Without, "mounts")
	}
	if Ring(2) {
		o.Without = append(o.Without, "ids", "namespaces", "network", "limits", "oom score")
		o.Rlimits = nil
	}
}

// MountFlags are the flags of the jail's root.
func MountFlags(flags uintptr) uintptr {
	if Ring(1) {
		flags &^= unix.MS_NOSUID | unix.MS_NODEV
	}
	return flags
}
