package names

import (
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestDockerNetwork: over Docker up to 27 the helper connects from the container's own network, by the address that Docker gave the
// container, as a container does that is no jail; and from Docker 28 on from the host's.
func TestDockerNetwork(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	reportSource(t, n)
	l := newLab(t, n)
	under := env.Get(t, engine.UnderTest)
	conf := l.policy(t, "docker", "[network]\nmode = \"names\"\nallow = [\"api.example.test:23\", \"pod.example.test:22\"]\n")
	e := engine.StartFor(t, engine.Options{Runtimes: map[string]engine.Runtime{"agentjail": {Path: under, Args: []string{"--config", conf}}}})
	ips := func(lines ...string) func() error { return func() error { return env.IP(lines...) } }
	// The engine has a network of its own, which has a way to the lab, and the lab one to its containers.
	const engineAddr, containerAddr = podAddr, "5.5.7.9"
	env.Check(t, e.InNetns(ips("link add up0 type veth peer name dk netns "+n.tid, "addr add "+engineAddr+"/24 dev up0", "link set up0 up")))
	n.do(ips("addr add 5.5.6.1/24 dev dk", "link set dk up", "route add 5.5.7.0/24 via "+engineAddr))
	env.Check(t, e.InNetns(ips("route add default via 5.5.6.1")))
	d := e.For(t)
	d.Must("network", "create", "--subnet", "5.5.7.0/24", "--opt", "com.docker.network.bridge.enable_ip_masquerade=false", "lab")
	run := func(runtime string, args ...string) engine.Result {
		return d.Docker(append([]string{"run", "--rm", "--runtime=" + runtime, "--network=lab", "--ip=" + containerAddr, "--volume=" + l.prog + ":" + client + ":ro", engine.Busybox, client}, args...)...)
	}
	want := "from " + containerAddr
	if r := run("runc", "greeted", serverAddr, "23"); strings.TrimSpace(r.Stdout) != want {
		t.Fatalf("over runc: %s", r)
	}
	if major, _, _ := strings.Cut(d.Must("version", "--format", "{{.Server.Version}}"), "."); len(major) == 2 && major >= "28" {
		want = "from " + engineAddr
	}
	if r := run("agentjail", "greeted", "api.example.test", "23"); strings.TrimSpace(r.Stdout) != want {
		t.Errorf("in a jail: %s, want %q", r, want)
	}
	// A name that leads to the host, which the container's network does not have as its own.
	if r := run("agentjail", "greeted", "pod.example.test", "22"); r.Code == 0 || !strings.Contains(r.Stdout, "reset") {
		t.Errorf("the host, by name: %s", r)
	}
	// Without a network, Docker puts none where the helper is.
	r := d.Docker("run", "--rm", "--runtime=agentjail", "--network=none", "--volume="+l.prog+":"+client+":ro", engine.Busybox, client, "greeted", "api.example.test", "23")
	if strings.TrimSpace(r.Stdout) != "from "+engineAddr {
		t.Errorf("without a network of Docker's: %s", r)
	}
}
