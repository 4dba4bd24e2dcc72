package names

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/tests/env"
)

// podAddr is the address in an engine's network.
const podAddr = "5.5.6.2"

// engineNetwork is a network namespace as an engine makes it, kept as a file: a way to the lab, and no other. It returns the path.
func engineNetwork(t *testing.T, n *internet) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "cni")
	env.Check(t, os.WriteFile(at, nil, 0o600))
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and ends with it
		done <- errors.Join(unix.Unshare(unix.CLONE_NEWNET), unix.Mount("/proc/thread-self/ns/net", at, "", unix.MS_BIND, ""))
	}()
	env.Check(t, <-done)
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	in := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("nsenter", append([]string{"--net=" + at, "ip"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v: %s", args, err, out)
		}
	}
	in("link", "add", "eth0", "type", "veth", "peer", "name", "pod", "netns", n.tid)
	n.do(func() error { return env.IP("addr add 5.5.6.1/24 dev pod", "link set pod up") })
	in("link", "set", "lo", "up")
	in("addr", "add", podAddr+"/24", "dev", "eth0")
	in("link", "set", "eth0", "up")
	in("route", "add", "default", "via", "5.5.6.1")
	return at
}

// reportSource has the lab send clients the address that they connect from, at port 23.
func reportSource(t *testing.T, n *internet) {
	t.Helper()
	var l net.Listener
	n.do(func() (err error) { l, err = net.Listen("tcp4", serverAddr+":23"); return err })
	t.Cleanup(func() { l.Close() })
	go env.Serve(l, func(c net.Conn) {
		from, _, _ := net.SplitHostPort(c.RemoteAddr().String())
		_, _ = io.ReadAll(c) // what is left unread makes a reset of the end
		fmt.Fprint(c, "from ", from)
	})
}

// joining is a jail to be started whose bundle names a network namespace.
func joining(t *testing.T, n *internet, path, allow string) *jail {
	t.Helper()
	j := newJail(t, n)
	for i := range j.b.Spec.Linux.Namespaces {
		if ns := &j.b.Spec.Linux.Namespaces[i]; ns.Type == specs.NetworkNamespace {
			ns.Path = path
		}
	}
	env.Check(t, os.WriteFile(j.conf, []byte("[network]\nmode = \"names\"\nallow = ["+allow+"]\n"), 0o600))
	return j
}

// TestEngineNetwork: where the bundle names a network namespace that the engine made, the jail's is still its own and empty, and the
// helper connects from the engine's.
func TestEngineNetwork(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	reportSource(t, n)
	const allow = `"api.example.test:443,23", "self.example.test:22", "pod.example.test:22"`
	if got, err := ask([]string{"greeted", "api.example.test", "23"}); err != nil || got != "from "+hostAddr {
		t.Fatalf("the host: %q, %v", got, err)
	}
	at := engineNetwork(t, n)
	j := joining(t, n, at, allow)
	j.start(t)
	for want, args := range map[string][]string{
		"from " + podAddr:         {"greeted", "api.example.test", "23"},
		"served api.example.test": {"https", "api.example.test", "443"},
	} {
		if got, ok := j.in(t, args...); !ok || got != want {
			t.Errorf("%q: %q, want %q", args, got, want)
		}
	}
	// Neither the host's own address, which the helper's network does not have, nor the engine's for the jail.
	for _, name := range []string{"self.example.test", "pod.example.test"} {
		if got, ok := j.in(t, "greeted", name, "22"); ok {
			t.Errorf("%s: %q", name, got)
		}
	}
	log, err := os.ReadFile(filepath.Join(j.dir(t), "network.log"))
	if err != nil || strings.Count(string(log), "an address of this host") != 2 {
		t.Errorf("own addresses: %v\n%s", err, log)
	}
	if env.ProcLink(t, j.pid(t), "ns/net") == env.ProcLink(t, j.helper(t).Pid, "ns/net") {
		t.Error("the jail is in the engine's network")
	}
	if out, code := j.inspect(t); code != 0 || !strings.Contains(out, fmt.Sprintf("only lo; names by helper %d in %s", j.helper(t).Pid, at)) {
		t.Errorf("inspect: %d\n%s", code, out)
	}
}

// TestEngineNetworkGone: a jail whose engine's network has gone between create and start is not started, and none whose host uses
// name servers that the engine's network cannot reach.
func TestEngineNetworkGone(t *testing.T) {
	n := newInternet(t)
	// A host with systemd-resolved has others there.
	const resolved = "/run/systemd/resolve/resolv.conf"
	if unix.Mount(os.DevNull, resolved, "", unix.MS_BIND, "") == nil {
		t.Cleanup(func() { _ = unix.Unmount(resolved, unix.MNT_DETACH) })
	}
	for _, c := range []struct {
		what, server, want string
		gone               bool
	}{
		{"the network is gone", dnsAddr, "is gone", true},
		{"a name server on loopback", "127.0.0.53", "name servers are on loopback only", false},
	} {
		t.Run(c.what, func(t *testing.T) {
			resolveBy(t, c.server)
			at := engineNetwork(t, n)
			j := joining(t, n, at, `"api.example.test"`)
			if out, errs, err := j.b.Call(t, j.c, "create", "--bundle", j.b.Dir, j.id); err != nil {
				t.Fatalf("%v: %s%s", err, out, errs)
			}
			if c.gone {
				env.Check(t, unix.Unmount(at, unix.MNT_DETACH))
			}
			out, errs, err := j.b.Call(t, j.c, "start", j.id)
			if err == nil || !strings.Contains(out+errs, c.want) {
				t.Errorf("start: %v: %s%s", err, out, errs)
			}
			if left, _ := filepath.Glob(filepath.Join("/run/agentjail/jails/*-"+j.id, "helper.json")); len(left) > 0 {
				t.Errorf("there is a helper: %v", left)
			}
			// In the next case it is another name's.
			n.do(func() error { _ = env.IP("link del pod"); return nil })
		})
	}
}
