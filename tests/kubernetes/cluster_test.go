package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/env"
)

const (
	nodeName = "node-1"
	// readyWait bounds how long a component may take until it answers, on a machine with other things to do.
	readyWait = 3 * time.Minute
)

// A nodeCluster is a cluster of one node.
type nodeCluster struct {
	dir      string
	ca       *authority
	programs string // the directory with kubectl and the others by their names
	env      []string
	daemons  []*component
	started  time.Duration // until the node was ready
}

// cluster is the one that the tests share.
var cluster *nodeCluster

// A component is one of the cluster's processes. It is started again when it ends by itself, as systemd would.
type component struct {
	name string
	args []string
	env  []string
	log  string

	mu      sync.Mutex
	process *os.Process
	ended   chan struct{} // closed when the running process has ended
}

// startCluster brings the components up and waits until the node is ready.
func startCluster(dir string) (*nodeCluster, error) {
	begin := time.Now()
	c := &nodeCluster{dir: dir, programs: filepath.Join(dir, "programs")}
	var err error
	if c.ca, err = newAuthority(filepath.Join(dir, "pki")); err != nil {
		return c, err
	}
	var took strings.Builder
	for _, s := range []struct {
		name string
		do   func() error
	}{
		{"files", func() error { return first(c.link, c.identities, c.writeFiles) }},
		{"containerd", c.startContainerd},
		{"control plane", c.startControl},
		{"kubelet", func() error { return first(c.startKubelet, c.startCSI) }},
		{"images", c.images},
		{"node", c.ready},
	} {
		since := time.Now()
		if err := s.do(); err != nil {
			return c, err
		}
		fmt.Fprintf(&took, ", %s %.1f s", s.name, time.Since(since).Seconds())
	}
	c.started = time.Since(begin)
	fmt.Fprintf(os.Stderr, "kubernetes: the node is ready after %.1f s%s\nkubernetes: processor time until then: %s\n", c.started.Seconds(), &took, c.processorTime())
	return c, nil
}

// processorTime is what each component has used (utime and stime in proc_pid_stat(5)): where a machine is slow, it shows why.
func (c *nodeCluster) processorTime() string {
	var all []string
	for _, d := range c.daemons {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.process.Pid))
		if err != nil {
			continue
		}
		f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // from field 3
		var user, system float64
		if _, err := fmt.Sscan(f[11]+" "+f[12], &user, &system); err == nil {
			all = append(all, fmt.Sprintf("%s %.1f s", filepath.Base(d.name), (user+system)/100)) // USER_HZ
		}
	}
	return strings.Join(all, ", ")
}

// first does one thing after the other, until one fails.
func first(do ...func() error) error {
	for _, f := range do {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// ready waits until the node is, and the namespace that is there from the beginning.
func (c *nodeCluster) ready() error {
	if err := c.watch("/api/v1/nodes?watch=1&fieldSelector=metadata.name%3D"+nodeName, object.isReady); err != nil {
		return err
	}
	return c.usable("default")
}

// usable waits until pods can be made in a namespace.
func (c *nodeCluster) usable(namespace string) error {
	return c.watch("/api/v1/namespaces/"+namespace+"/serviceaccounts?watch=1&fieldSelector=metadata.name%3Ddefault", func(object) bool { return true })
}

// An object is what the tests read of the API server's.
type object struct {
	Status struct {
		Conditions []struct{ Type, Status string }
	}
}

// isReady reports whether a node is.
func (o object) isReady() bool {
	return slices.ContainsFunc(o.Status.Conditions, func(c struct{ Type, Status string }) bool { return c.Type == "Ready" && c.Status == "True" })
}

// watch follows objects until one is as it should be: what `kubectl wait` does, without starting a large program.
func (c *nodeCluster) watch(path string, is func(object) bool) error {
	client, err := c.ca.client("admin")
	if err != nil {
		return err
	}
	client.Timeout = patient(readyWait)
	answer, err := client.Get("https://" + nodeAddress + ":6443" + path)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	for events := json.NewDecoder(answer.Body); ; {
		var event struct {
			Type   string
			Object object
		}
		if err := events.Decode(&event); err != nil {
			return fmt.Errorf("watch %s: %w", path, err)
		}
		if (event.Type == "ADDED" || event.Type == "MODIFIED") && is(event.Object) {
			return nil
		}
	}
}

// link gives the one program its names.
func (c *nodeCluster) link() error {
	if err := os.MkdirAll(c.programs, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "csi-driver", "kubectl"} {
		if err := os.Symlink(os.Getenv(kubernetesEnv), filepath.Join(c.programs, name)); err != nil {
			return err
		}
	}
	tools := filepath.Dir(os.Getenv(containerdEnv))
	c.env = append(os.Environ(), "PATH="+tools+":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME="+dirOf(c.dir, "home"), "KUBECONFIG="+c.ca.path("admin.conf"))
	if *patience > 1 {
		c.env = append(c.env, "GOGC=400") // an emulated machine has more memory than time
	}
	return nil
}

// dirOf makes a directory.
func dirOf(elem ...string) string {
	dir := filepath.Join(elem...)
	_ = os.MkdirAll(dir, 0o755)
	return dir
}

// identities are the cluster's users and servers.
func (c *nodeCluster) identities() error {
	for _, u := range []struct {
		file, user string
		groups     []string
	}{
		{"admin", "admin", []string{"system:masters"}},
		{"apiserver", "kube-apiserver", []string{"system:masters"}},
		{"controllers", "system:kube-controller-manager", nil},
		{"scheduler", "system:kube-scheduler", nil},
		{"kubelet", "system:node:" + nodeName, []string{"system:nodes"}},
	} {
		if err := errors.Join(c.ca.sign(u.file, u.user, u.groups...), c.ca.config(u.file)); err != nil {
			return err
		}
	}
	return nil
}

// start starts a component.
func (c *nodeCluster) start(name string, args ...string) (*component, error) {
	d := &component{name: name, args: args, env: c.env, log: filepath.Join(c.dir, filepath.Base(name)+".log")}
	c.daemons = append(c.daemons, d)
	return d, d.run()
}

// run starts the process.
func (d *component) run() error {
	log, err := os.OpenFile(d.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(d.name, d.args...)
	cmd.Stdout, cmd.Stderr, cmd.Env, cmd.Dir = log, log, d.env, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	d.mu.Lock()
	d.process, d.ended = cmd.Process, ended
	d.mu.Unlock()
	go func() { _ = cmd.Wait(); close(ended) }()
	return nil
}

// restart ends the process by a signal and starts it again.
func (d *component) restart(sig syscall.Signal) error {
	if err := d.stop(sig); err != nil {
		return err
	}
	return d.run()
}

// stop ends the process.
func (d *component) stop(sig syscall.Signal) error {
	d.mu.Lock()
	process, ended := d.process, d.ended
	d.mu.Unlock()
	_ = process.Signal(sig)
	select {
	case <-ended:
		return nil
	case <-time.After(time.Minute):
		return fmt.Errorf("%s does not end by %v", d.name, sig)
	}
}

// await polls until the component is ready, or the component has ended.
func (d *component) await(ask func() error) error {
	var err error
	env.Poll(patient(readyWait), func() bool {
		select {
		case <-d.ended:
			err = errors.New("it ended before it answered")
			return true
		default:
			err = ask()
			return err == nil
		}
	})
	if err != nil {
		return fmt.Errorf("%s does not answer: %w", d.name, err)
	}
	return nil
}

// kubectl runs a command against the cluster. The server has ten seconds to begin with TLS. A busy one that does not is
// tried again, since it has received no request yet.
func (c *nodeCluster) kubectl(ctx context.Context, stdin []byte, args ...string) (string, error) {
	for {
		cmd := exec.CommandContext(ctx, filepath.Join(c.programs, "kubectl"), args...)
		// A quarter of a command's processor time is the collection of what its program makes when it starts.
		cmd.Env = append(c.env[:len(c.env):len(c.env)], "GOGC=off", "GOMEMLIMIT=256MiB")
		cmd.Stdin, cmd.WaitDelay = bytes.NewReader(stdin), 5*time.Second
		out, err := cmd.CombinedOutput()
		if err == nil || ctx.Err() != nil || !strings.Contains(string(out), "TLS handshake timeout") {
			return strings.TrimSpace(string(out)), err
		}
	}
}

// component finds one by its program's name.
func (c *nodeCluster) component(name string) *component {
	for _, d := range c.daemons {
		if filepath.Base(d.name) == name {
			return d
		}
	}
	panic(name)
}

// startControl starts what is on a control plane.
func (c *nodeCluster) startControl() error {
	p := func(name string) string { return filepath.Join(c.programs, name) }
	if _, err := c.start(p("etcd"), "--data-dir=/var/lib/etcd/data", "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379", "--listen-peer-urls=http://127.0.0.1:2380"); err != nil {
		return err
	}
	var leanAPI, leanManager []string
	if *patience > 1 {
		// A cache of each kind of object, and controllers that no test there needs. Without them, and with GOGC above, a node is ready after
		// 9.4 s of processor time in place of 11.4, measured without emulation.
		leanAPI = []string{"--watch-cache=false"}
		leanManager = []string{"--controllers=daemonset-controller,namespace-controller,node-lifecycle-controller,root-ca-certificate-publisher-controller,serviceaccount-controller"}
	}
	api, err := c.start(p("kube-apiserver"), append(leanAPI, "--etcd-servers=http://127.0.0.1:2379", "--bind-address="+nodeAddress, "--advertise-address="+nodeAddress,
		"--service-cluster-ip-range=10.96.0.0/16", "--endpoint-reconciler-type=none", "--allow-privileged=true", "--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction", "--client-ca-file="+c.ca.path("ca.crt"), "--tls-cert-file="+c.ca.path("apiserver.crt"),
		"--tls-private-key-file="+c.ca.path("apiserver.key"), "--kubelet-client-certificate="+c.ca.path("apiserver.crt"),
		"--kubelet-client-key="+c.ca.path("apiserver.key"), "--kubelet-certificate-authority="+c.ca.path("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+c.ca.path("apiserver.key"),
		"--service-account-signing-key-file="+c.ca.path("apiserver.key"), "--feature-gates=ImageVolume=true", "--kubelet-preferred-address-types=InternalIP")...)
	if err != nil {
		return err
	}
	ready, err := c.ca.client("admin")
	if err != nil {
		return err
	}
	if err := api.await(func() error {
		answer, err := ready.Get("https://" + nodeAddress + ":6443/readyz")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return errors.New(answer.Status)
		}
		return nil
	}); err != nil {
		return err
	}
	if _, err := c.start(p("kube-controller-manager"), append(leanManager, "--kubeconfig="+c.ca.path("controllers.conf"), "--leader-elect=false",
		"--service-account-private-key-file="+c.ca.path("apiserver.key"), "--root-ca-file="+c.ca.path("ca.crt"), "--use-service-account-credentials=true")...); err != nil {
		return err
	}
	_, err = c.start(p("kube-scheduler"), "--kubeconfig="+c.ca.path("scheduler.conf"), "--leader-elect=false")
	return err
}

// startKubelet starts the node's own agent.
func (c *nodeCluster) startKubelet() error {
	if !*bySystemd {
		if err := makeGroups(filepath.Base(c.dir)); err != nil {
			return err
		}
	}
	_, err := c.start(filepath.Join(c.programs, "kubelet"), "--config="+filepath.Join(c.dir, "kubelet.yaml"), "--kubeconfig="+c.ca.path("kubelet.conf"),
		"--hostname-override="+nodeName, "--node-ip="+nodeAddress)
	return err
}

// startContainerd starts containerd, as systemd has it: `systemctl restart containerd` starts it anew.
func (c *nodeCluster) startContainerd() error {
	d, err := c.start(os.Getenv(containerdEnv))
	if err != nil {
		return err
	}
	if err := c.serveSystemctl(); err != nil {
		return err
	}
	return c.awaitContainerd(d)
}

// awaitContainerd waits until CRI answers.
func (c *nodeCluster) awaitContainerd(d *component) error {
	return d.await(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patient(20*time.Second))
		defer cancel()
		out, err := c.ctr(ctx, nil, "version")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// ctr runs containerd's own client.
func (c *nodeCluster) ctr(ctx context.Context, stdin []byte, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(os.Getenv(containerdEnv)), "ctr"), append([]string{"--namespace=k8s.io"}, args...)...)
	cmd.Env, cmd.Stdin, cmd.WaitDelay = c.env, bytes.NewReader(stdin), 5*time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// systemctl is the node's: it has the tests restart containerd, and ends when that is done. Like the real one it needs no more than
// the machine's files.
const systemctl = `#!/bin/sh
[ "$*" = "restart containerd" ] || { echo "systemctl: $*?" >&2; exit 1; }
[ ! -e /run/systemctl.fails ] || { echo "Job for containerd.service failed." >&2; exit 1; }
echo restart >/run/systemctl.request
read -r answer </run/systemctl.answer
[ "$answer" = done ]
`

// serveSystemctl puts the program on the node and answers it.
func (c *nodeCluster) serveSystemctl() error {
	const asked, answer = "/run/systemctl.request", "/run/systemctl.answer"
	if err := errors.Join(os.WriteFile("/usr/local/bin/systemctl", []byte(systemctl), 0o755), unix.Mkfifo(asked, 0o600), unix.Mkfifo(answer, 0o600)); err != nil {
		return err
	}
	go func() {
		for {
			if _, err := os.ReadFile(asked); err != nil {
				return
			}
			d := c.component("containerd")
			says := "done\n"
			if err := errors.Join(d.restart(unix.SIGTERM), c.awaitContainerd(d)); err != nil {
				says = "failed\n"
			}
			if os.WriteFile(answer, []byte(says), 0) != nil {
				return
			}
		}
	}()
	return nil
}

// logs are the last lines of each component's log.
func (c *nodeCluster) logs(n int) string {
	var b strings.Builder
	for _, d := range c.daemons {
		text, _ := os.ReadFile(d.log)
		var lines []string
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "I") && !strings.Contains(line, "level=info") {
				lines = append(lines, line)
			}
		}
		fmt.Fprintf(&b, "--- %s\n%s\n", filepath.Base(d.name), strings.Join(lines[max(0, len(lines)-n):], ""))
	}
	return b.String()
}
