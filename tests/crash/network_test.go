package crash

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

// TestPluggedBetweenCreateAndStart does what Docker does since version 28:
// it puts an interface into the waiting jail's network namespace, and with
// `network connect` another one into the running jail's.
func TestPluggedBetweenCreateAndStart(t *testing.T) {
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("needs ip (package iproute2)")
	}
	id := fmt.Sprintf("crash%d-net", os.Getpid())
	defer cleanUp(t, id)
	if code, text := agentjail(t, nil, "create", "--bundle", bundle, "--pid-file", t.TempDir()+"/pid", id); code != 0 {
		t.Fatalf("create: status %d\n%s", code, text)
	}
	pid := initPid(t, id)
	plug(t, pid, "eth0", "10.213.7")
	// A pair of interfaces takes a moment to come up.
	env.Eventually(t, "the interface works before the start", func() bool { return strings.Contains(pings(t, pid), " 0% packet loss") })
	if code, text := agentjail(t, nil, "start", id); code != 0 {
		t.Fatalf("start: status %d\n%s", code, text)
	}
	if out := pings(t, pid); strings.Contains(out, " 0% packet loss") {
		t.Errorf("plugged in before the start, and it works:\n%s", out)
	}
	plug(t, pid, "eth1", "10.213.8")
	out := inNet(t, pid, "busybox", "ping", "-c1", "-W1", "10.213.8.1")
	if strings.Contains(out, " 0% packet loss") {
		t.Errorf("plugged in later, and it works:\n%s", out)
	}
	if out := inNet(t, pid, "ip", "link", "show", "eth0"); !strings.Contains(out, "eth0") {
		t.Errorf("the engine's interface is gone, which its statistics need:\n%s", out)
	}
}

func pings(t *testing.T, pid string) string {
	t.Helper()
	return inNet(t, pid, "busybox", "ping", "-c1", "-W1", "10.213.7.1")
}

// inNet runs a program of the host, as host root, in the jail's network.
func inNet(t *testing.T, pid string, args ...string) string {
	t.Helper()
	out, _ := exec.Command("nsenter", append([]string{"-t", pid, "-n", "--"}, args...)...).CombinedOutput()
	return string(out)
}

func initPid(t *testing.T, id string) string {
	t.Helper()
	cmd := command(nil, "state", id)
	out := env.Get(t, cmd.Output)
	_, rest, ok := strings.Cut(string(out), `"pid": `)
	pid, _, ok2 := strings.Cut(rest, ",")
	if !ok || !ok2 {
		t.Fatalf("state: %s", out)
	}
	return pid
}

// plug connects the jail's network with the host's by a pair of interfaces.
func plug(t *testing.T, pid, name, net string) {
	t.Helper()
	host := fmt.Sprintf("aj%s%d", name, os.Getpid()%10000)
	var all bytes.Buffer
	for _, args := range [][]string{
		{"ip", "link", "add", host, "type", "veth", "peer", "name", name, "netns", pid},
		{"ip", "addr", "add", net + ".1/24", "dev", host},
		{"ip", "link", "set", host, "up"},
		{"nsenter", "-t", pid, "-n", "--", "ip", "addr", "add", net + ".2/24", "dev", name},
		{"nsenter", "-t", pid, "-n", "--", "ip", "link", "set", name, "up"},
		{"nsenter", "-t", pid, "-n", "--", "ip", "link", "set", "lo", "up"},
	} {
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		all.Write(out)
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, all.String())
		}
	}
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", host).Run() })
}
