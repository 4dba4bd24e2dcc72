package podman

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// Addresses of a network behind the place's. They are of no special range, and lead nowhere else.
const (
	labHost   = "5.5.5.2"
	labServer = "5.5.5.10"
)

// lab makes a network behind that of podman's place, with a name server that gives one address for every name, and a web server there.
func lab(t *testing.T, p *engine.PodmanT) {
	t.Helper()
	own := "--net=" + strings.TrimSuffix(p.Root(), "root") + "ns/net"
	servers := env.Get(t, env.NewPlace)
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("nsenter", append([]string{own, "ip"}, args...)...).CombinedOutput(); err != nil {
			t.Errorf("ip %v: %v: %s", args, err, out)
		}
	}
	t.Cleanup(func() { ip("link", "del", "wan"); servers.Close() })
	ip("link", "set", "lo", "up")
	ip("link", "add", "wan", "type", "veth", "peer", "name", "net", "netns", strconv.Itoa(servers.TID))
	ip("addr", "add", labHost+"/24", "dev", "wan")
	ip("link", "set", "wan", "up")
	env.Check(t, servers.Do(serveLab))
}

// serveLab listens in the calling thread's namespace.
func serveLab() error {
	if err := env.IP("link set net up", "addr add "+labServer+"/24 dev net"); err != nil {
		return err
	}
	dns, err := net.ListenPacket("udp4", labServer+":53")
	if err != nil {
		return err
	}
	go env.ServeNames(dns, func(q dnsmessage.Question) ([]dnsmessage.Resource, bool) {
		return env.Address(q, 1, netip.MustParseAddr(labServer)), true
	})
	web, err := net.Listen("tcp4", labServer+":80")
	if err != nil {
		return err
	}
	go func() {
		_ = http.Serve(web, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "served %s", r.Host) }))
	}()
	return nil
}

// TestRootlessNames: an ordinary user's jail reaches what policy names and nothing else, over each delegate, by a way that needs no
// privilege on the machine.
func TestRootlessNames(t *testing.T) {
	if !engine.UnderTestIsAgentjail() {
		t.Skip("the runtime under test is not agentjail")
	}
	p := user(t)
	lab(t, p)
	dir := env.Get(t, engine.BinDir)
	for _, c := range []struct{ delegate, network string }{{"runc", "none"}, {"crun", "none"}, {"crun", "slirp4netns"}} {
		delegate := c.delegate
		_, err := exec.LookPath(delegate)
		if c.network != "none" && err == nil {
			_, err = exec.LookPath(c.network)
		}
		if err != nil {
			t.Logf("%v: not on this machine: %v", c, err)
			continue
		}
		t.Run(delegate+" "+c.network, func(t *testing.T) {
			p := user(t)
			config := filepath.Join(dir, "names-"+delegate+".toml")
			env.Put(t, config, fmt.Sprintf("delegate = %q\n[network]\nmode = \"names\"\nallow = [\"api.example.test\"]\nservers = [%q]\n", delegate, labServer), 0o644, 0)
			id := strings.TrimSpace(p.Must("--runtime-flag=config="+config, "run", "-d", "--network="+c.network, engine.Busybox, "sleep", "3600"))
			t.Cleanup(func() { p.Remove("rm", "-f", "-t", "0", "--ignore", id) })
			reached(t, p, id)
			files, err := filepath.Glob(p.Root() + "/run/user/*/agentjail/jails/*" + id)
			if err != nil || len(files) != 1 {
				t.Fatalf("%d jails: %v", len(files), err)
			}
			env.Contain(t, "the report", string(env.Read(t, files[0]+"/report.json")), "connections come to the helper by nf_tables redirect")
			if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil { // a user has no groups of version 1
				env.Contain(t, "the report", string(env.Read(t, files[0]+"/report.json")), "only the helper's own resource limits bound it")
			}
			out := p.Run(nil, filepath.Join(filepath.Dir(under), "agentjailctl"), "inspect", id)
			if out.Code != 0 || !strings.Contains(out.Stdout, "(nf_tables redirect)") || strings.Contains(out.Stdout, " in /run/user/") != (c.network != "none") {
				t.Errorf("inspect: %s", out)
			}
			p.Remove("rm", "-f", "-t", "0", "--ignore", id)
			if _, err := os.Stat(files[0]); !os.IsNotExist(err) {
				t.Errorf("what is left: %v", err)
			}
		})
	}
}

func reached(t *testing.T, p *engine.PodmanT, id string) {
	t.Helper()
	env.Equal(t, "an allowed name", sh(p, id, "wget -q -O - http://api.example.test/"), "served api.example.test")
	for what, script := range map[string]string{
		"another name":         "wget -q -O - http://other.example.test/",
		"another host there":   "wget -q -O - --header 'Host: other.example.test' http://api.example.test/",
		"another port":         "wget -q -O - http://api.example.test:8080/",
		"an address":           "wget -q -O - http://" + labServer + "/",
		"the host's addresses": "wget -q -O - http://" + labHost + "/",
	} {
		if r := p.Podman("exec", id, "sh", "-c", "timeout 10 "+script); r.Code == 0 {
			t.Errorf("%s: %s", what, r)
		}
	}
}
