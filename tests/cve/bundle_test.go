package cve

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/tests/engine"
)

// runWait bounds one call of a runtime.
const runWait = time.Minute

// A bundle is a container without an engine: what an exploit prepares that Docker itself would not pass on.
type bundle struct {
	dir, rootfs string
	spec        *specs.Spec
}

// newBundle makes one of the busybox tree with the configuration that engines give: default capabilities, the usual
// mounts, masked and read-only paths.
func newBundle(t *testing.T) *bundle {
	t.Helper()
	dir, err := os.MkdirTemp(base, "bundle-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	b := &bundle{dir: dir, rootfs: filepath.Join(dir, "rootfs")}
	t.Cleanup(func() { os.RemoveAll(dir) })
	unpack(t, b.rootfs)
	caps := []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID", "CAP_SETUID",
		"CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE"}
	b.spec = &specs.Spec{
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

// mount adds a bind mount of a host folder.
func (b *bundle) mount(from, to string) {
	b.spec.Mounts = append(b.spec.Mounts, specs.Mount{Destination: to, Type: "bind", Source: from, Options: []string{"rbind", "rw"}})
}

// unmount takes the mount at a place out of the configuration, and those below it.
func (b *bundle) unmount(at string) {
	var kept []specs.Mount
	for _, m := range b.spec.Mounts {
		if m.Destination != at && !strings.HasPrefix(m.Destination, at+"/") {
			kept = append(kept, m)
		}
	}
	b.spec.Mounts = kept
}

var containers int

// write writes config.json.
func (b *bundle) write(t *testing.T) {
	t.Helper()
	text, err := json.Marshal(b.spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.dir, "config.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// command prepares a call of a system's runtime.
func (b *bundle) command(ctx context.Context, s system, args ...string) *exec.Cmd {
	all := append(append([]string{}, s.args...), "--root", filepath.Join(base, "state-"+s.name))
	cmd := exec.CommandContext(ctx, s.path, append(all, args...)...)
	// A mount namespace of its own (Go makes every mount private there): what an exploit might mount is gone with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	return cmd
}

// call runs one verb of a system's runtime to its end and returns what it and the container said.
func (b *bundle) call(t *testing.T, s system, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	b.write(t)
	ctx, cancel := context.WithTimeout(context.Background(), runWait)
	defer cancel()
	cmd := b.command(ctx, s, args...)
	out, errOut := tempFile(t), tempFile(t)
	cmd.Stdout, cmd.Stderr = out, errOut
	err = cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%v hangs", cmd.Args)
	}
	return said(t, out), said(t, errOut), err
}

// tempFile is for what a command says: a container inherits it, and must not keep a pipe open.
func tempFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.CreateTemp(base, "out-")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// said reads such a file and removes it.
func said(t *testing.T, f *os.File) string {
	t.Helper()
	defer os.Remove(f.Name())
	defer f.Close()
	text, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// run runs the container to its end and returns what the container said, and with an error what the runtime said.
func (b *bundle) run(t *testing.T, s system) (string, error) {
	t.Helper()
	containers++
	id := "cve-" + filepath.Base(base) + "-" + strconv.Itoa(containers)
	out, errOut, err := b.call(t, s, "run", "--bundle", b.dir, id)
	_, _, _ = b.call(t, s, "delete", "--force", id) // what a failed run left
	if err != nil {
		err = fmt.Errorf("%w: %s", err, errOut)
	}
	return out, err
}

// unpack makes a busybox tree.
func unpack(t *testing.T, dir string) {
	t.Helper()
	var buf bytes.Buffer
	if err := engine.BusyboxTree(&buf); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(&buf); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(dir, h.Name)
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(at, os.FileMode(h.Mode)&0o777)
		case tar.TypeSymlink:
			err = os.Symlink(h.Linkname, at)
		case tar.TypeReg:
			var text []byte
			if text, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(at, text, os.FileMode(h.Mode)&0o777)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
