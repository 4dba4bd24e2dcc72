package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/tests/env"
)

// A Bundle is a container without an engine, for what Docker itself would not pass on.
type Bundle struct {
	// Dir holds config.json, Rootfs is the root file system in it.
	Dir, Rootfs string
	// Spec is written to config.json with each call.
	Spec *specs.Spec

	base string
}

// A Caller is a runtime, and how to call it.
type Caller struct {
	Path string
	Args []string // before the verb
	Env  []string // beside this process's own
}

// NewBundle makes a bundle below base of the busybox tree, with the configuration that engines give: default
// capabilities, the usual mounts, masked and read-only paths. It is removed with the test.
func NewBundle(t testing.TB, base string) *Bundle {
	t.Helper()
	dir, err := os.MkdirTemp(base, "bundle-")
	env.Check(t, err)
	env.Check(t, os.Chmod(dir, 0o711))
	b := &Bundle{Dir: dir, Rootfs: filepath.Join(dir, "rootfs"), base: base}
	t.Cleanup(func() { os.RemoveAll(dir) })
	env.Check(t, UnpackBusybox(b.Rootfs))
	caps := []string{
		"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID", "CAP_SETUID",
		"CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE",
	}
	b.Spec = &specs.Spec{
		Version: "1.0.2",
		Root:    &specs.Root{Path: "rootfs"},
		Process: &specs.Process{
			Args: []string{"true"}, Cwd: "/", Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin:/sbin"},
			Capabilities: &specs.LinuxCapabilities{Bounding: caps, Effective: caps, Permitted: caps},
		},
		Hostname: "exploit",
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
			{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
			{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		},
		Linux: &specs.Linux{
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace}, {Type: specs.NetworkNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace}, {Type: specs.MountNamespace},
			},
			MaskedPaths:   []string{"/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/sys/firmware"},
			ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	}
	return b
}

// Mount adds a bind mount of a host directory.
func (b *Bundle) Mount(from, to string) {
	b.Spec.Mounts = append(b.Spec.Mounts, specs.Mount{Destination: to, Type: "bind", Source: from, Options: []string{"rbind", "rw"}})
}

// Unmount takes the mount at a place out of the configuration, and those below it.
func (b *Bundle) Unmount(at string) {
	var kept []specs.Mount
	for _, m := range b.Spec.Mounts {
		if !pathname.Within(m.Destination, at) {
			kept = append(kept, m)
		}
	}
	b.Spec.Mounts = kept
}

// Write writes config.json.
func (b *Bundle) Write(t testing.TB) {
	t.Helper()
	text, err := json.Marshal(b.Spec)
	env.Check(t, err)
	env.Check(t, os.WriteFile(filepath.Join(b.Dir, "config.json"), text, 0o600))
}

// Command prepares a call of a runtime.
func (b *Bundle) Command(ctx context.Context, c Caller, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.Path, slices.Concat(c.Args, args)...)
	cmd.Env = append(os.Environ(), c.Env...)
	// A mount namespace of its own (Go makes every mount private there): what a hostile bundle might mount is gone with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	return cmd
}

// Call runs one verb of a runtime to its end and returns what it and the container printed.
func (b *Bundle) Call(t testing.TB, c Caller, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	r := b.Result(t, c, args...)
	return r.Stdout, r.Stderr, r.err
}

// Result is Call with the exit code.
func (b *Bundle) Result(t testing.TB, c Caller, args ...string) Result {
	t.Helper()
	b.Write(t)
	return Within(t, env.CommandWait, func(ctx context.Context) Result { return Capture(b.base, b.Command(ctx, c, args...), nil) })
}

// ID is a new container's id, which belongs to this run of the tests.
func (b *Bundle) ID() string {
	return filepath.Base(b.base) + "-" + strconv.FormatInt(containers.Add(1), 10)
}

var containers atomic.Int64

// Run runs the container to its end and returns what the container printed, and with an error what the runtime printed.
func (b *Bundle) Run(t testing.TB, c Caller) (string, error) {
	t.Helper()
	id := b.ID()
	out, errOut, err := b.Call(t, c, "run", "--bundle", b.Dir, id)
	_, _, _ = b.Call(t, c, "delete", "--force", id) // what a failed run left
	if err != nil {
		err = fmt.Errorf("%w: %s", err, errOut)
	}
	return out, err
}
