package kubernetes

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/engine"
)

// The images that pods can name. Nothing is pulled.
const (
	pauseImage   = "localhost/pause:test"
	busyboxImage = "localhost/busybox:test"
	installImage = "docker.io/library/agentjail-install:latest" // "agentjail-install", as the manifests call it
)

// containerdConfig is a node's: CRI with CNI's plugins where Debian has them.
//
// A machine that may not lower scores (CAP_SYS_RESOURCE, proc(5)) has no pods that the kernel spares.
const containerdConfig = `version = 3

[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "` + pauseImage + `"
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["/usr/lib/cni"]
  conf_dir = "/etc/cni/net.d"
[plugins."io.containerd.nri.v1.nri"]
  disable = true
`

// systemdGroups is what a node has besides on which systemd makes the control groups. The installer has jails follow it.
const systemdGroups = `
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  SystemdCgroup = true
`

// cniConfig is a bridge, with the ports of the node that pods request.
const cniConfig = `{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.77.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}
]}
`

// kubeletConfig has what a node has in production, but for what this machine's disk and memory look like to it, and how often it looks at
// volumes' sizes: one to two minutes apart by default (volumeStatsAggPeriod, and as much at random), which a test of evictions would wait for.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: %[3]s
cgroupRoot: /%[1]s
failCgroupV1: false
failSwapOn: false
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %[2]s/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: %[2]s/kubelet.crt
tlsPrivateKeyFile: %[2]s/kubelet.key
staticPodPath: /etc/kubernetes/manifests
fileCheckFrequency: 1s
syncFrequency: 10s
nodeStatusUpdateFrequency: 5s
volumeStatsAggPeriod: 10s
resolvConf: /etc/resolv.conf
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
clusterDNS: ["10.96.0.10"]
clusterDomain: cluster.local
evictionHard: {memory.available: 16Mi, nodefs.available: "0%%", nodefs.inodesFree: "0%%", imagefs.available: "0%%", imagefs.inodesFree: "0%%"}
maxPods: 250
registerWithTaints: []
allowedUnsafeSysctls: ["net.ipv4.tcp_keepalive_time"]
`

// writeFiles configures the node.
func (c *nodeCluster) writeFiles() error {
	driver, group, containerd := "cgroupfs", filepath.Base(c.dir), containerdConfig
	if *bySystemd {
		driver, group, containerd = "systemd", "", containerdConfig+systemdGroups
	}
	kubelet := fmt.Sprintf(kubeletConfig, group, c.ca.dir, driver)
	errs := []error{kubeletIDs()}
	for path, text := range map[string]string{
		"/etc/containerd/config.toml":            containerd,
		"/etc/cni/net.d/10-pods.conflist":        cniConfig,
		filepath.Join(c.dir, "kubelet.yaml"):     kubelet,
		"/etc/kubernetes/manifests/.keep":        "",
		"/etc/agentjail/config.toml":             policy,
		filepath.Join(c.dir, "containerd.given"): containerd,
	} {
		errs = append(errs, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
	}
	return errors.Join(errs...)
}

// kubeletIDs gives the kubelet a range for hostUsers: false, as docs/install/kubernetes.md requires: without one it picks any ids, also those of
// agentjail's own pool.
func kubeletIDs() error {
	var errs []error
	for path, line := range map[string]string{
		"/etc/passwd": "kubelet:x:64000:64000::/nonexistent:/usr/sbin/nologin\n",
		"/etc/subuid": "kubelet:1006632960:16384000\n", "/etc/subgid": "kubelet:1006632960:16384000\n",
	} {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_, err = f.WriteString(line)
		errs = append(errs, err, f.Close())
	}
	return errors.Join(errs...)
}

// policy is the node's. Ids of another pool than the default's, so that no limit that the kernel counts by user is shared with jails of
// the machine itself.
const (
	pool   = "[userns]\npool = \"1946157056:67108864\"\n"
	policy = pool + "[binds]\nallow = [\"" + promise.ViewsDir + "\"]\n[policies.net.network]\nmode = \"engine\"\n"
)

// images gives containerd the images.
func (c *nodeCluster) images() error {
	pause, err := layerOf(map[string]string{"pause": filepath.Join(c.dir, "pause")})
	if err != nil {
		return err
	}
	busybox, err := os.ReadFile(filepath.Join(c.dir, "busybox.tar"))
	if err != nil {
		return err
	}
	install, entry, err := installer(os.Getenv(programsEnv))
	if err != nil {
		return err
	}
	for _, i := range []struct {
		name   string
		layer  []byte
		config engine.ImageConfig
	}{
		{pauseImage, pause, engine.ImageConfig{Entrypoint: []string{"/pause"}, User: "65535:65535"}},
		{busyboxImage, busybox, engine.ImageConfig{Cmd: []string{"/bin/sh"}, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin:/sbin"}}},
		{installImage, install, engine.ImageConfig{Entrypoint: []string{entry}}},
	} {
		if err := c.importImage(i.name, i.layer, i.config); err != nil {
			return err
		}
	}
	return nil
}

// importImage gives containerd an image of one layer.
func (c *nodeCluster) importImage(name string, layer []byte, config engine.ImageConfig) error {
	var archive bytes.Buffer
	if err := engine.ImageArchive(&archive, name, layer, config); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patient(time.Minute))
	defer cancel()
	if out, err := c.ctr(ctx, archive.Bytes(), "images", "import", "-"); err != nil {
		return fmt.Errorf("make image %s: %w\n%s", name, err, out)
	}
	return nil
}

// installer is the image that hack/kubernetes/Dockerfile describes: the programs that it copies, and its entry point.
func installer(programs string) (layer []byte, entry string, err error) {
	text, err := os.ReadFile(manifest("Dockerfile"))
	if err != nil {
		return nil, "", err
	}
	files := map[string]string{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		switch {
		case len(f) > 2 && f[0] == "COPY":
			for _, from := range f[1 : len(f)-1] {
				files[strings.TrimPrefix(f[len(f)-1], "/")+filepath.Base(from)] = filepath.Join(programs, filepath.Base(from))
			}
		case len(f) == 2 && f[0] == "ENTRYPOINT":
			entry = strings.Trim(f[1], `[]"`)
		}
	}
	if len(files) < 5 || entry == "" {
		return nil, "", fmt.Errorf("the Dockerfile was not understood: %v, %q", files, entry)
	}
	layer, err = layerOf(files)
	return layer, entry, err
}

// layerOf is a layer with programs: where they are in the image, and on this machine.
func layerOf(programs map[string]string) ([]byte, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for name, from := range programs {
		text, err := os.ReadFile(from)
		if err != nil {
			return nil, err
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			return nil, err
		}
		if _, err := w.Write(text); err != nil {
			return nil, err
		}
	}
	return layer.Bytes(), w.Close()
}

// manifest is the path of a file of hack/kubernetes.
func manifest(name string) string {
	root, err := engine.ModuleRoot()
	if err != nil {
		panic(err)
	}
	return filepath.Join(root, "hack/kubernetes", name)
}
