package kubernetes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/env"
)

// nodeAddress is the node's: a kubelet refuses one of lo. gateway is that of the pods' bridge.
const nodeAddress = "10.88.0.1"

// changed are the directories of the machine that the node changes.
var changed = []string{"/etc", "/opt", "/usr/local", "/var/lib", "/var/log"}

// disks are directories that have to be a disk's own, because file systems are laid over what is in them.
var disks = []string{"/var/lib/containerd", "/var/lib/kubelet", "/var/lib/etcd"}

// installedContainerd is where distributions have theirs.
const installedContainerd = "/usr/bin/containerd"

// makeNode has this mount namespace look like a node that has nothing of Kubernetes yet. dir keeps what it writes.
func makeNode(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts from the machine: %w", err)
	}
	if !*bySystemd { // whose sockets are there
		if err := unix.Mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
			return fmt.Errorf("mount /run: %w", err)
		}
	}
	for _, at := range changed {
		upper, work := filepath.Join(dir, "upper", at), filepath.Join(dir, "work", at)
		if err := errors.Join(os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755)); err != nil {
			return err
		}
		if err := unix.Mount("overlay", at, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", at, upper, work)); err != nil {
			return fmt.Errorf("lay a directory over %s: %w", at, err)
		}
	}
	// The installer calls the node's containerd, which is the one that runs here.
	if _, err := os.Stat(installedContainerd); err == nil {
		if err := unix.Mount(os.Getenv(containerdEnv), installedContainerd, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s: %w", installedContainerd, err)
		}
	}
	for _, at := range disks {
		own := filepath.Join(dir, "disk", at)
		if err := errors.Join(os.MkdirAll(own, 0o711), os.MkdirAll(at, 0o711)); err != nil {
			return err
		}
		if err := unix.Mount(own, at, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s: %w", at, err)
		}
	}
	for _, at := range []string{"/etc/containerd", "/etc/agentjail", "/etc/cni", "/opt/cni", "/var/lib/agentjail", "/var/lib/cni", "/usr/local/bin"} {
		if err := empty(at); err != nil {
			return err
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	// As systemd makes it: what the kubelet mounts is to be seen by containers that request that.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share mounts: %w", err)
	}
	if err := unix.Sethostname([]byte(nodeName)); err != nil {
		return err
	}
	return addresses()
}

// empty makes a directory that has nothing in it.
func empty(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.MkdirAll(dir, 0o755)
}

// addresses gives the node's network namespace lo and an address.
func addresses() error {
	if err := env.IP("link set lo up", "link add node0 type bridge", "addr add "+nodeAddress+"/24 dev node0", "link set node0 up",
		"route add default dev node0"); err != nil {
		return err
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
}

// groupRoots are where the machine has control groups: one directory for each hierarchy.
func groupRoots() []string {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return []string{"/sys/fs/cgroup"}
	}
	dirs, _ := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	for i := range dirs {
		dirs[i] = filepath.Dir(dirs[i])
	}
	return dirs
}

// makeGroups makes a control group in every hierarchy.
func makeGroups(name string) error {
	for _, root := range groupRoots() {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // version 1 begins with none
			if text, err := os.ReadFile(filepath.Join(root, file)); err == nil {
				_ = os.WriteFile(filepath.Join(root, name, file), text, 0)
			}
		}
	}
	return nil
}
