package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/env"
)

// A CRIO is a CRI-O of its own: with its own directories, socket and network namespace.
type CRIO struct {
	*Engine
	binary string
}

// PauseImage is the name of the image whose program holds a pod's processes together.
const PauseImage = "localhost/pause:test"

// crioConf is what keeps a CRI-O to its own directories: %[1]s. It is configured with the directory of CNI's plugins. %[3]s makes control groups.
const crioConf = `[crio]
root = "%[1]s/storage"
runroot = "%[1]s/storage-run"
storage_driver = "overlay"
log_dir = "%[1]s/logs"
version_file = "%[1]s/version"
version_file_persist = "%[1]s/version-kept"
clean_shutdown_file = "%[1]s/clean"
[crio.api]
listen = "%[1]s/crio.sock"
[crio.runtime]
cgroup_manager = "%[3]s"
conmon_cgroup = "pod"
default_runtime = "plain"
pinns_path = "%[2]s/pinns"
namespaces_dir = "%[1]s/namespaces"
container_exits_dir = "%[1]s/exits"
container_attach_socket_dir = "%[1]s/attach"
decryption_keys_path = "%[1]s/keys"
hooks_dir = ["%[1]s/hooks"]
irqbalance_config_restore_file = "disable"
enable_criu_support = false
apparmor_profile = "unconfined"
[crio.runtime.runtimes.plain]
runtime_path = "/usr/bin/runc"
runtime_root = "%[1]s/runc"
[crio.image]
pause_image = "` + PauseImage + `"
signature_policy = "%[1]s/policy.json"
signature_policy_dir = "%[1]s/policies"
[crio.network]
network_dir = "%[1]s/cni"
plugin_dirs = ["/usr/lib/cni"]
[crio.nri]
enable_nri = false
`

// StartCRIO starts a CRI-O and waits until it answers. program is where it is, with pinns beside it; manager is what makes its control
// groups, cgroupfs or systemd; register is called when its configuration is written, and before it is read. It needs root, conmon and
// podman, by which images come to it.
func StartCRIO(program, manager string, register func(*CRIO) error) (*CRIO, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("a CRI-O of the tests' own needs root")
	}
	sweepStale()
	c := &CRIO{&Engine{opts: Options{Log: func(string, ...any) {}}}, program}
	if err := c.makeDir(); err != nil {
		return nil, err
	}
	err := errors.Join(
		os.MkdirAll(c.path("hooks"), 0o755), os.MkdirAll(c.path("crio.conf.d"), 0o755),
		os.WriteFile(c.path("policy.json"), []byte(`{"default": [{"type": "insecureAcceptAnything"}]}`), 0o644),
		os.WriteFile(c.path("crio.conf"), fmt.Appendf(nil, crioConf, c.Dir, filepath.Dir(program), manager), 0o644),
	)
	if err == nil {
		err = register(c)
	}
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", errors.Join(err, c.Close()), c.Logs(40))
	}
	return c, nil
}

// Start starts the daemon, which must not be running, and waits until it answers.
func (c *CRIO) Start() error {
	var err error
	if c.containerd, err = c.startDaemon("crio", c.binary, "--config", c.path("crio.conf"), "--config-dir", c.path("crio.conf.d")); err != nil {
		return err
	}
	return c.await(c.containerd, func(context.Context) error {
		conn, err := net.Dial("unix", c.Socket())
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// Stop stops the daemon and waits for its end. Containers go on.
func (c *CRIO) Stop() error { return c.containerd.stop(unix.SIGTERM) }

// Kill ends the daemon as a crash would, and waits for its end. Containers go on.
func (c *CRIO) Kill() error { return c.containerd.stop(unix.SIGKILL) }

// Socket is the path of the socket that serves CRI.
func (c *CRIO) Socket() string { return c.path("crio.sock") }

// DropIn is where `agentjail install crio` puts its file.
func (c *CRIO) DropIn() string { return c.path("crio.conf.d/agentjail.conf") }

// ImportImage makes an image of one layer, an uncompressed tar archive. The daemon finds it when it starts.
func (c *CRIO) ImportImage(name string, layer []byte, config ImageConfig) error {
	var archive bytes.Buffer
	if err := imageArchive(&archive, name, layer, config); err != nil {
		return err
	}
	file := c.path("image.tar")
	if err := os.WriteFile(file, archive.Bytes(), 0o600); err != nil {
		return err
	}
	defer os.Remove(file)
	ctx, cancel := context.WithTimeout(context.Background(), env.CommandWait)
	defer cancel()
	podman := func(args ...string) Result {
		cmd := exec.CommandContext(ctx, "podman", append([]string{"--root", c.path("storage"), "--runroot", c.path("storage-run"), "--storage-driver", "overlay", "--cgroup-manager", "cgroupfs"}, args...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		return RunCommand(ctx, cmd, nil)
	}
	r := podman("pull", "-q", "--signature-policy", c.path("policy.json"), "oci-archive:"+file)
	if r.Code == 0 {
		r = podman("tag", strings.TrimSpace(r.Stdout), name)
	}
	if r.Code != 0 {
		return fmt.Errorf("make image %s: %s", name, r)
	}
	return nil
}

// ImportBusybox makes the image BusyboxImage.
func (c *CRIO) ImportBusybox() error {
	var layer bytes.Buffer
	if err := busyboxTree(&layer); err != nil {
		return err
	}
	return c.ImportImage(BusyboxImage, layer.Bytes(), ImageConfig{Cmd: []string{"/bin/sh"}, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin:/sbin"}})
}

// Version is the daemon's, as 1.34.0.
func (c *CRIO) Version() string {
	var v struct{ Version string }
	out, err := exec.Command(c.binary, "version", "--json").Output()
	if err != nil || json.Unmarshal(out, &v) != nil {
		return ""
	}
	return v.Version
}
