package cri

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// namesPolicy is of the handler "names": the profile net of a policy that lists names, which makes its network one by name. The name server is the node's, on the bridge.
const namesPolicy = `[network]
allow = ["web.example.test:7000 private"]
publish = ["0.0.0.0:8000-8999"]
servers = ["10.77.0.1"]
`

// nameServer answers on the bridge for web.example.test, for as long as the test runs.
func (n *node) nameServer(t *testing.T, web string) {
	t.Helper()
	var c net.PacketConn
	if err := n.InNetns(func() (err error) { c, err = net.ListenPacket("udp4", "10.77.0.1:53"); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go env.ServeNames(c, func(q dnsmessage.Question) ([]dnsmessage.Resource, bool) {
		if q.Name.String() != "web.example.test." {
			return nil, true
		}
		return env.Address(q, 1, netip.MustParseAddr(web)), true
	})
}

// A pod whose network is by name has nothing but lo, and its helper is in the network that CNI gave the pod: what policy names is
// reached from the pod's address, and what the pod publishes is reached at it and by port-forward.
func TestPodNames(t *testing.T) {
	onEach(t, func(t *testing.T, n *node) {
		web := n.pod(t, "agentjail-net")
		web.container("web", `nc -ll -p 7000 -e sh -c 'read line; echo "web heard $line"'`)
		n.nameServer(t, web.ip())
		p := n.pod(t, "names", func(s *runtimeapi.PodSandboxConfig) {
			s.Annotations = map[string]string{"dev.agentjail.network.publish": "0.0.0.0:8080:8081"}
		})
		agent := p.container("agent", idle)
		t.Cleanup(func() {
			if t.Failed() {
				resolver, _ := agent.exec("cat /etc/resolv.conf; netstat -lnu")
				t.Logf("%s\n%s\n%s", resolver, promise.Query(t, "inspect", p.id), promise.Query(t, "network", "log", p.id))
			}
		})
		p.container("server", `nc -ll -p 8081 -e sh -c 'read line; echo "heard $line"'`)
		env.Eventually(t, "an allowed name", func() bool {
			out, _ := agent.exec("echo agent | nc -w 5 web.example.test 7000 2>&1")
			t.Logf("an allowed name: %q", out)
			return out == "web heard agent"
		})
		if out, code := agent.exec("echo agent | nc -w 5 other.example.test 7000"); code == 0 {
			t.Errorf("another name: %q", out)
		}
		if out, code := agent.exec("nc -w 2 " + web.ip() + " 7000 </dev/null"); code == 0 {
			t.Errorf("another pod by its address: %q", out)
		}
		env.Eventually(t, "the published port, by port-forward", func() bool {
			answer, failure := p.forward(8080, []byte("outside\n"))
			return answer == "heard outside\n" && failure == ""
		})
		if p.ip() == "" {
			t.Fatal("CNI gave no address")
		}
		out, err := n.exchange(net.JoinHostPort(p.ip(), "8080"), "probe\n")
		if err != nil || out != "heard probe" {
			t.Errorf("at the pod's address: %q, %v", out, err)
		}
		helper := engine.Helper(t, p.id).Pid
		if at := namespace(t, helper, "net"); at == hosts(t, "net") || at == namespace(t, p.pid(), "net") {
			t.Error("the helper is not in the engine's network")
		}
	})
}

// The example of a pod with a network by name: the policy that it names for nodes is one, and lets the pod have what it requests.
func TestNamesManifest(t *testing.T) {
	docs := documents(t, "pod-names.yaml")
	if len(docs) != 2 || docs[0]["kind"] != "Pod" || docs[1]["kind"] != "NetworkPolicy" {
		t.Fatalf("documents %v", docs)
	}
	text := env.Read(t, kubernetes(t, "pod-names.yaml"))
	var settings strings.Builder
	for line := range strings.Lines(string(text)) {
		if setting, ok := strings.CutPrefix(line, "#   "); ok {
			settings.WriteString(setting)
		}
	}
	p, err := policy.Parse([]byte(settings.String()), "the example", "net")
	if err != nil {
		t.Fatalf("%v:\n%s", err, &settings)
	}
	meta, _ := docs[0]["metadata"].(map[string]any)
	spec, _ := docs[0]["spec"].(map[string]any)
	annotations := map[string]string{}
	for k, v := range meta["annotations"].(map[string]any) {
		annotations[k], _ = v.(string)
	}
	got, ignored := p.Tighten(annotations)
	if len(ignored) > 0 || len(got.Network.Published) != 1 || len(got.Network.Allow) >= len(p.Network.Allow) || p.Network.Mode != policy.NetworkNames {
		t.Errorf("ignored %v, of %+v %+v", ignored, p.Network, got.Network)
	}
	if spec["runtimeClassName"] != "agentjail-net" {
		t.Errorf("pod %v", spec)
	}
}
