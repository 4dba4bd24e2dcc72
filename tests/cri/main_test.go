// Package cri runs Kubernetes' pods in jails: a containerd of the tests' own, driven through its CRI socket as the
// kubelet drives it, with CNI's own plugins.
package cri

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
	"agentjail.dev/tests/journal/refusal"
)

func TestMain(m *testing.M) {
	engine.IfJanitor()
	// The profile net, by which pods of the handler agentjail-net have what CNI gives them.
	if err := engine.OwnPolicy("[policies.net.network]\nmode = \"engine\"\n"); err != nil {
		fmt.Fprintln(os.Stderr, "cri: a policy of its own:", err)
		os.Exit(1)
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		closeNodes()
		os.Exit(130)
	}()
	code := m.Run()
	if err := errors.Join(closeNodes(), engine.DropPolicy()); err != nil {
		fmt.Fprintln(os.Stderr, "cri: clean up:", err)
		code = 1
	}
	os.Exit(code)
}

// A node is a containerd with CRI, as on a node of a cluster.
type node struct {
	*engine.Engine
	*engine.Containerd
	runtimeapi.RuntimeServiceClient
	conn *grpc.ClientConn
	// cgroups is the control group below which all pods lie; bySystemd states that systemd makes those.
	cgroups   string
	bySystemd bool
}

// nodes are the releases of containerd that the tests run on, each started when the first test requests it.
var nodes = []struct {
	name  string
	start func() (*node, error)
}{
	{"distribution", sync.OnceValues(func() (*node, error) { return startNode("") })},
	{"newest", sync.OnceValues(func() (*node, error) {
		bin, err := engine.Tool("containerd")
		if err != nil {
			return nil, err
		}
		return startNode(bin)
	})},
}

var (
	startedLock sync.Mutex
	started     []*node
)

func closeNodes() error {
	startedLock.Lock()
	defer startedLock.Unlock()
	var errs []error
	for _, n := range started {
		n.conn.Close()
		errs = append(errs, n.Close())
	}
	started = nil
	return errors.Join(append(errs, engine.RemoveBuilt())...)
}

// onEach runs a test on each release.
func onEach(t *testing.T, test func(*testing.T, *node)) {
	t.Helper()
	for i := range nodes {
		on(t, i, test)
	}
}

// on runs a test on one of the releases.
func on(t *testing.T, i int, test func(*testing.T, *node)) {
	t.Helper()
	engine.NeedsRoot(t, "it runs jails")
	t.Run(nodes[i].name, func(t *testing.T) {
		n, err := nodes[i].start()
		env.Check(t, err)
		n.Containerd.For(t)
		before := cniNamespaces()
		t.Cleanup(func() { n.nothingLeft(t, before) })
		test(t, n)
	})
}

// The names of the images.
const (
	pauseImage = engine.PauseImage
	image      = engine.BusyboxImage
)

// criNamespace is containerd's namespace of what CRI makes.
const criNamespace = "k8s.io"

func startNode(binary string) (*node, error) {
	dir, err := engine.Shim()
	if err != nil {
		return nil, err
	}
	under := filepath.Join(dir, "agentjail")
	netName := filepath.Join(dir, "agentjail-net")
	if err := os.Symlink(filepath.Base(under), netName); err != nil && !os.IsExist(err) {
		return nil, err
	}
	refuse := filepath.Join(dir, "refuse.toml")
	if err := os.WriteFile(refuse, []byte("on_loosen = \"refuse\"\n"), 0o644); err != nil {
		return nil, err
	}
	// containerd 1.6 takes a policy file alone, and no name of a policy with it. The nodes share the directory.
	names, namesText, namesKey := filepath.Join(dir, "names.toml"), namesPolicy+"mode = \"names\"\n", "ConfigPath"
	if binary != "" {
		names, namesText, namesKey = filepath.Join(dir, "names-net.toml"), namesPolicy, "policy = \"net\"\nconfig"
	}
	if err := os.WriteFile(names, []byte(namesText), 0o644); err != nil {
		return nil, err
	}
	refusals := filepath.Join(dir, "refusals.toml")
	if err := os.WriteFile(refusals, []byte(refusal.Policy), 0o644); err != nil {
		return nil, err
	}
	c, err := engine.StartContainerd(engine.ContainerdOptions{
		Binary: binary, CRI: true, Shims: []string{dir},
		Config: func(c *engine.Containerd) string {
			return criConfig(c, under, netName, refuse, refusals, namesKey, names)
		},
		Log: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) },
	})
	if err != nil {
		return nil, err
	}
	if err := register(c, under, binary); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	n := &node{Engine: c.Engine, Containerd: c, cgroups: "/" + c.CgroupParent() + "/kubepods"}
	fail := func(err error) (*node, error) { return nil, errors.Join(err, c.Close()) }
	if err := c.ImportBusybox(criNamespace); err != nil {
		return fail(err)
	}
	layer, err := engine.PauseLayer(c.Dir)
	if err != nil {
		return fail(err)
	}
	if err := c.ImportImage(criNamespace, pauseImage, layer, engine.ImageConfig{Entrypoint: []string{"/pause"}, User: "65535:65535"}); err != nil {
		return fail(err)
	}
	if n.conn, err = grpc.NewClient("unix://"+c.Socket(), grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		return fail(err)
	}
	n.RuntimeServiceClient = runtimeapi.NewRuntimeServiceClient(n.conn)
	startedLock.Lock()
	started = append(started, n)
	startedLock.Unlock()
	fmt.Fprintf(os.Stderr, "cri: containerd %s\n", c.Version())
	return n, nil
}

// register has `agentjail install containerd` add the handlers that the tests use, and containerd read them.
func register(c *engine.Containerd, agentjail, containerd string) error {
	if containerd == "" {
		containerd = "/usr/bin/containerd"
	}
	if err := c.Stop(); err != nil {
		return err
	}
	args := []string{"install", "containerd", "--daemon-config", filepath.Join(c.Dir, "containerd.toml"), "--drop-in", filepath.Join(c.Dir, "conf.d/agentjail.toml"), "--program", containerd}
	for _, says := range []string{": changed", ": nothing to change"} {
		out, err := exec.Command(agentjail, args...).CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte(says)) {
			return fmt.Errorf("agentjail %q states %q, not %q: %w", args, out, says, err)
		}
	}
	return c.Start()
}

// gvisorPolicy is the policy file of the handler gvisor, which the test of that handler writes.
func gvisorPolicy(dir string) string { return filepath.Join(dir, "gvisor.toml") }

// criConfig is CRI's part of containerd's configuration. Every annotation of a pod reaches the bundles, which is the worst
// that an administrator can configure.
func criConfig(c *engine.Containerd, byName, byNetName, refuse, refusals, namesKey, names string) string {
	const cri = `plugins."io.containerd.grpc.v1.cri"`
	cni, err := engine.WriteCNI(c.Dir)
	if err != nil {
		panic(err)
	}
	conf := fmt.Sprintf("[%s]\nsandbox_image = %q\nrestrict_oom_score_adj = true\n[%s.cni]\nbin_dir = \"/usr/lib/cni\"\nconf_dir = %q\n[%s.containerd]\ndefault_runtime_name = \"plain\"\n",
		cri, pauseImage, cri, cni, cri)
	for _, r := range []struct{ name, kind, key, value string }{
		{"plain", "io.containerd.runc.v2", "BinaryName", "/usr/bin/runc"},
		// The shim by its own name, which options of another kind reach.
		{"shim", "io.containerd.agentjail.v2", "ConfigPath", ""},
		{"shim-net", "io.containerd.agentjail.v2", "ConfigPath", "net"},
		{"shim-service", "io.containerd.agentjail.v2", "ConfigPath", "service"},
		{"refuse", "io.containerd.agentjail.v2", "ConfigPath", refuse},
		{"refusals", "io.containerd.agentjail.v2", "ConfigPath", refusals},
		{"names", "io.containerd.agentjail.v2", namesKey, names},
		{"gvisor", "io.containerd.agentjail.v2", "ConfigPath", gvisorPolicy(filepath.Dir(byName))},
		// containerd's own shim.
		{"byname", "io.containerd.runc.v2", "BinaryName", byName},
		{"byname-net", "io.containerd.runc.v2", "BinaryName", byNetName},
	} {
		conf += fmt.Sprintf("[%s.containerd.runtimes.%s]\nruntime_type = %q\npod_annotations = [\"*\"]\ncontainer_annotations = [\"*\"]\nprivileged_without_host_devices = true\n[%s.containerd.runtimes.%s.options]\n%s = %q\n",
			cri, r.name, r.kind, cri, r.name, r.key, r.value)
	}
	return conf
}
