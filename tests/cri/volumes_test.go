package cri

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"agentjail.dev/tests/env"
)

// Volumes as the kubelet lays them out are what they are in any pod: each user of the pod owns its files, all read the others'
// by mode, fsGroup counts, what is projected can be read and changes, and nothing of it can be loosened.
func TestVolumes(t *testing.T) {
	onEach(t, func(t *testing.T, n *node) {
		p := n.pod(t, "agentjail")
		cache := p.volume("empty-dir", "cache", 0o777)
		memory := p.onTmpfs(p.volume("empty-dir", "memory", 0o777), "mode=777")
		grouped := p.volume("empty-dir", "grouped", 0o777)
		chown(t, grouped, 0, 2000)
		env.Check(t, os.Chmod(grouped, 0o2775|os.ModeSetgid))
		conf := p.volume("configmap", "conf", 0o777)
		project(t, conf, 0o644, map[string]string{"a.conf": "first"})
		secret := p.onTmpfs(p.volume("secret", "s", 0o777), "")
		project(t, secret, 0o640, map[string]string{"key": "hidden"})
		chown(t, filepath.Join(secret, "..data/key"), 0, 2000)
		token := p.onTmpfs(p.volume("projected", "kube-api-access", 0o777), "")
		project(t, token, 0o600, map[string]string{"token": "ey.."})
		chown(t, filepath.Join(token, "..data/token"), 1000, 0)
		sub := filepath.Join(cache, "sub")
		env.Check(t, os.Mkdir(sub, 0o777))
		env.Check(t, os.Chmod(sub, 0o777))

		root := p.container("root", idle, p.standard("root"), mount(cache, "/cache", false), mount(memory, "/memory", false),
			mount(conf, "/conf", true), mount(secret, "/secret", true), mount(token, "/token", true))
		user := p.container("user", idle, p.standard("user"), as(1000, 1000, 2000), mount(cache, "/cache", false), mount(memory, "/memory", false),
			mount(grouped, "/grouped", false), mount(conf, "/conf", true), mount(secret, "/secret", true), mount(token, "/token", true),
			mount(sub, "/sub", false), mount(filepath.Join(conf, "..data/a.conf"), "/etc/one.conf", true))

		for _, c := range []struct {
			what string
			in   *container
			run  string
			want string
		}{
			{"root writes", root, "echo from-root >/cache/r && echo m >/memory/r && stat -c %u:%g /cache/r /memory/r", "0:0\n0:0"},
			{"the user reads it and writes", user, "cat /cache/r /memory/r && echo from-user >/cache/u && mkdir /memory/d && stat -c %u:%g /cache/u /cache/r /memory/d", "from-root\nm\n1000:1000\n0:0\n1000:1000"},
			{"the user may not write root's", user, "echo x 2>/dev/null >>/cache/r || echo refused", "refused"},
			{"root reads the user's", root, "cat /cache/u && stat -c %u:%g /cache/u", "from-user\n1000:1000"},
			{"fsGroup", user, "id -G | tr ' ' '\\n' | sort -n | tr '\\n' ' '; echo g >/grouped/x && stat -c %u:%g /grouped /grouped/x", "1000 2000 0:2000\n1000:2000"},
			{"a subPath", user, "echo s >/sub/x && cat /cache/sub/x && stat -c %u /sub/x", "s\n1000"},
			{"a file of a volume", user, "cat /etc/one.conf", "first"},
			{"a ConfigMap", user, "cat /conf/a.conf; echo x 2>/dev/null >/conf/b || echo refused", "firstrefused"},
			{"a Secret by its group", user, "cat /secret/key; cat /secret/key >/dev/null && stat -c %u:%g:%a -L /secret/key", "hidden0:2000:640"},
			{"a token of one's own", user, "cat /token/token", "ey.."},
			{"a token of another user's", root, "cat /token/token 2>/dev/null || echo refused", "refused"},
			{"the kubelet's hosts", user, "tail -n 1 /etc/hosts; echo x 2>/dev/null >>/etc/hosts || echo refused", "10.77.0.1\ta-pod\nrefused"},
			{"the termination message", user, "echo -n farewell >/dev/termination-log; cat /dev/termination-log", "farewell"},
			{"shared memory", root, "echo shm >/dev/shm/x; ls /dev/shm", "x"},
			{"shared memory of the other", user, "cat /dev/shm/x", "shm"},
			{"set-id", user, "cp /bin/busybox /cache/su; chmod 4755 /cache/su 2>/dev/null; stat -c %a /cache/su", "755"},
			{"no devices, nothing set-id", user, "grep -c ' /cache .*nosuid,nodev' /proc/mounts", "1"},
		} {
			if out, _ := c.in.exec(c.run); out != c.want {
				t.Errorf("%s: %q, not %q", c.what, out, c.want)
			}
		}
		reproject(t, conf, "a.conf", "second")
		if out := user.must("cat /conf/a.conf"); out != "second" {
			t.Errorf("a changed ConfigMap: %q", out)
		}
		if b, err := os.ReadFile(filepath.Join(p.dir, "containers/user/0f1e2d3c")); err != nil || string(b) != "farewell" {
			t.Errorf("the kubelet reads the termination message %q, %v", b, err)
		}
		for file, want := range map[string]uint32{"r": 0, "u": 1000} {
			if owner := env.Owner(t, filepath.Join(cache, file)); owner != fmt.Sprintf("%d:%[1]d", want) {
				t.Errorf("%s belongs to %s on the node, not %d", file, owner, want)
			}
		}
	})
}

// A hostPath volume is its author's choice, who has no right on the node: it may be read, as user 65534, and not written, and
// what holds the node's or another pod's things is refused, under whatever name.
func TestHostPath(t *testing.T) {
	onEach(t, func(t *testing.T, n *node) {
		other := n.plan(t)
		stolen := other.volume("secret", "s", 0o777)
		project(t, stolen, 0o644, map[string]string{"key": "hidden"})
		p := n.pod(t, "agentjail")
		mine := filepath.Join(n.Dir, "project-"+filepath.Base(p.dir))
		env.Check(t, os.Mkdir(mine, 0o755))
		chown(t, mine, 4321, 4321)
		write(t, filepath.Join(mine, "public"), "public", 0o644)
		write(t, filepath.Join(mine, "private"), "private", 0o600)
		for _, name := range []string{"public", "private"} {
			chown(t, filepath.Join(mine, name), 4321, 4321)
		}
		if _, err := p.start("writes", idle, p.standard("writes"), mount(mine, "/work", false)); err == nil || !strings.Contains(err.Error(), "a pod's author chose this directory") {
			t.Errorf("a writable hostPath: %v", err)
		}
		c := p.container("mine", idle, mount(mine, "/work", true))
		if out := c.must("cat /work/public /work/private 2>/dev/null; stat -c %u /work"); out != "public65534" {
			t.Errorf("a hostPath to read: %q", out)
		}
		// The kubelet bind mounts a subPath of a hostPath volume into the pod's own directory.
		sub := filepath.Join(p.dir, "volume-subpaths/host/main/0")
		env.Check(t, os.MkdirAll(sub, 0o750))
		bind(t, "/etc", sub)
		kubelet := filepath.Dir(filepath.Dir(p.dir))
		for i, path := range []string{kubelet, filepath.Join(kubelet, "pods"), other.dir, stolen, p.dir, "/", "/etc", "/proc", "/sys", "/dev", "/run", "/var/lib/kubelet", "/var/log", "/root", n.State(), sub, n.Containerd.Socket()} {
			if _, err := p.start(fmt.Sprintf("bad%d", i), idle, p.standard("bad"), mount(path, "/host", true)); err == nil || !strings.Contains(err.Error(), "refused") {
				t.Errorf("%s: %v", path, err)
			}
		}
	})
}

// TestStagedVolumes: what the kubelet mounts for a pod from where it is staged on the node, or what two pods share, is the
// pod's own; the stage itself belongs to no pod.
func TestStagedVolumes(t *testing.T) {
	onEach(t, func(t *testing.T, n *node) {
		p, other := n.pod(t, "agentjail"), n.plan(t)
		kubelet := filepath.Dir(filepath.Dir(p.dir))
		mkdir := func(path string) string {
			env.Check(t, os.MkdirAll(path, 0o777))
			return path
		}
		var mounts []func(*runtimeapi.ContainerConfig)
		var stage string
		for i, below := range []string{"ebs.csi.example.com/0a1b2c", "pv/pvc-1"} { // as since, and before, Kubernetes 1.24
			stage = p.onTmpfs(mkdir(filepath.Join(kubelet, "plugins/kubernetes.io/csi", below, "globalmount")), "mode=777")
			at := mkdir(filepath.Join(p.volume("csi", fmt.Sprintf("pvc-%d", i), 0o777), "mount"))
			bind(t, stage, at)
			mounts = append(mounts, mount(at, fmt.Sprintf("/staged%d", i), false))
		}
		// A share: mounted for another pod first.
		share := p.onTmpfs(other.volume("nfs", "share", 0o777), "mode=777")
		at := p.volume("nfs", "share", 0o777)
		bind(t, share, at)
		sub := mkdir(filepath.Join(share, "sub"))
		subPath := mkdir(filepath.Join(p.dir, "volume-subpaths/share/main/0"))
		bind(t, sub, subPath)
		c := p.container("main", idle, append(mounts, mount(at, "/share", false), mount(subPath, "/sub", false), p.standard("main"))...)
		if out := c.must("for d in staged0 staged1 share sub; do echo x >/$d/file && stat -c %u /$d/file; done"); out != "0\n0\n0\n0" {
			t.Errorf("owners of what it made: %q", out)
		}
		// A hostPath's subPath leads there as well.
		stolen := mkdir(filepath.Join(p.dir, "volume-subpaths/host/main/0"))
		bind(t, stage, stolen)
		for i, path := range []string{stage, share, stolen} {
			if _, err := p.start(fmt.Sprintf("bad%d", i), idle, p.standard("bad"), mount(path, "/host", true)); err == nil || !strings.Contains(err.Error(), "refused") {
				t.Errorf("%s: %v", path, err)
			}
		}
	})
}

// TestImageVolume: an image as a pod's volume, or a directory of it, is read-only and has the image's owners in the jail.
func TestImageVolume(t *testing.T) {
	on(t, 1, func(t *testing.T, n *node) { // containerd from 2.1 on
		p := n.pod(t, "agentjail")
		c := p.container("reader", idle, func(c *runtimeapi.ContainerConfig) {
			for at, sub := range map[string]string{"/im": "", "/etc2": "etc"} {
				c.Mounts = append(c.Mounts, &runtimeapi.Mount{ContainerPath: at, Readonly: true, Image: &runtimeapi.ImageSpec{Image: image}, ImageSubPath: sub})
			}
		})
		for run, want := range map[string]string{
			"stat -c %u:%g /im/bin/busybox /im/home/app; cat /etc2/image-secret; /im/bin/busybox echo runs": "0:0\n1000:1000\nonly for root of the image\nruns",
			"for f in /im/new /etc2/passwd; do echo x 2>/dev/null >>$f || echo refused; done":               "refused\nrefused",
			"grep -c ' /im .*ro,nosuid,nodev' /proc/mounts":                                                 "1",
		} {
			if out, _ := c.exec(run); out != want {
				t.Errorf("%s: %q, not %q", run, out, want)
			}
		}
		// Another pod has none of it, not by its place either.
		at, err := filepath.Glob(filepath.Join(n.State(), "io.containerd.grpc.v1.cri/image-volumes", p.id, "*"))
		if err != nil || len(at) != 1 {
			t.Fatalf("images of the pod: %q, %v", at, err)
		}
		if _, err := n.pod(t, "agentjail").start("other", idle, mount(at[0], "/im", true)); err == nil || !strings.Contains(err.Error(), "an engine keeps its containers in") {
			t.Errorf("another pod's image: %v", err)
		}
	})
}
