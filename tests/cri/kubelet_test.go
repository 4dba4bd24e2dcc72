package cri

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"agentjail.dev/tests/env"
)

// volume makes a directory as the kubelet does for a volume of the pod: PODS/UID/volumes/kubernetes.io~KIND/NAME.
func (p *pod) volume(kind, name string, mode os.FileMode) string {
	p.t.Helper()
	dir := filepath.Join(p.dir, "volumes", "kubernetes.io~"+kind, name)
	env.Check(p.t, os.MkdirAll(dir, 0o750))
	env.Check(p.t, os.Chmod(dir, mode))
	return dir
}

// onTmpfs puts a tmpfs at a directory until the test ends.
func (p *pod) onTmpfs(dir, options string) string {
	p.t.Helper()
	env.Check(p.t, unix.Mount("tmpfs", dir, "tmpfs", 0, options))
	p.t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// project writes files as the kubelet's atomic writer does: in a directory of their own, with a link to it and links into it, so
// that all change at once.
func project(t *testing.T, dir string, mode os.FileMode, files map[string]string) {
	t.Helper()
	const own = "..2026_01_02_03_04_05.123456789"
	env.Check(t, os.Mkdir(filepath.Join(dir, own), 0o755))
	for name, text := range files {
		write(t, filepath.Join(dir, own, name), text, mode)
		env.Check(t, os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)))
	}
	env.Check(t, os.Symlink(own, filepath.Join(dir, "..data")))
}

// reproject is what happens when what is projected changes.
func reproject(t *testing.T, dir, name, text string) {
	t.Helper()
	const own = "..2026_02_03_04_05_06.123456789"
	env.Check(t, os.Mkdir(filepath.Join(dir, own), 0o755))
	write(t, filepath.Join(dir, own, name), text, 0o644)
	tmp := filepath.Join(dir, "..data_tmp")
	env.Check(t, os.Symlink(own, tmp))
	env.Check(t, os.Rename(tmp, filepath.Join(dir, "..data")))
}

// write writes a file with exactly this mode.
func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	env.Check(t, os.MkdirAll(filepath.Dir(path), 0o755))
	env.Check(t, os.WriteFile(path, []byte(text), mode))
	env.Check(t, os.Chmod(path, mode))
}

// chown gives a path away.
func chown(t *testing.T, path string, uid, gid int) {
	t.Helper()
	env.Check(t, os.Lchown(path, uid, gid))
}

// mount is the change that mounts a path of the node's into a container.
func mount(from, at string, readOnly bool) func(*runtimeapi.ContainerConfig) {
	return func(c *runtimeapi.ContainerConfig) {
		c.Mounts = append(c.Mounts, &runtimeapi.Mount{HostPath: from, ContainerPath: at, Readonly: readOnly})
	}
}

// as is the change that runs a container as a user, with further groups.
func as(uid, gid int64, groups ...int64) func(*runtimeapi.ContainerConfig) {
	return func(c *runtimeapi.ContainerConfig) {
		s := c.Linux.SecurityContext
		s.RunAsUser, s.RunAsGroup = &runtimeapi.Int64Value{Value: uid}, &runtimeapi.Int64Value{Value: gid}
		s.SupplementalGroups = groups
	}
}

// standard are the mounts that the kubelet adds to every container.
func (p *pod) standard(name string) func(*runtimeapi.ContainerConfig) {
	p.t.Helper()
	hosts := filepath.Join(p.dir, "etc-hosts")
	write(p.t, hosts, "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n10.77.0.1\ta-pod\n", 0o644)
	end := filepath.Join(p.dir, "containers", name, "0f1e2d3c")
	write(p.t, end, "", 0o666)
	return func(c *runtimeapi.ContainerConfig) {
		mount(hosts, "/etc/hosts", false)(c)
		mount(end, "/dev/termination-log", false)(c)
	}
}

// bind mounts a path at another until the test ends.
func bind(t *testing.T, from, at string) {
	t.Helper()
	env.Check(t, unix.Mount(from, at, "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
}
