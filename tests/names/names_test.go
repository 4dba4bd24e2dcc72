package names

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	ends "agentjail.dev/runtime/kernel/pidfd"
	"agentjail.dev/runtime/network/seal"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// caFile is the lab's certificate authority in a jail.
const caFile = "/ca.pem"

// onHost is the authority for clients outside of a jail.
var onHost []byte

func roots() *x509.CertPool {
	text, err := os.ReadFile(caFile)
	if err != nil {
		text = onHost
	}
	p := x509.NewCertPool()
	p.AppendCertsFromPEM(text)
	return p
}

// policyText is the jails' policy.
const policyText = `[network]
mode = "names"
allow = [
  "api.example.test:443,80,22", "*.wild.example.test", "` + serverAddr + `:22", "private.example.test:22", "granted.example.test:22 private",
  "local.example.test:22", "metadata.example.test:22", "self.example.test:22",
]
`

// jail is a running jail with a network by name.
type jail struct {
	b    *engine.Bundle
	c    engine.Caller
	id   string
	bin  string // agentjail's
	conf string
}

func startJail(t *testing.T, n *internet) *jail {
	t.Helper()
	j := newJail(t, n)
	j.start(t)
	return j
}

// begin creates and starts a jail.
func (j *jail) begin(t *testing.T) (string, error) {
	t.Helper()
	for _, args := range [][]string{{"create", "--bundle", j.b.Dir, j.id}, {"start", j.id}} {
		if out, errs, err := j.b.Call(t, j.c, args...); err != nil {
			return out + errs, err
		}
	}
	return "", nil
}

// start creates and starts the jail, and ends the test where that fails.
func (j *jail) start(t *testing.T) {
	t.Helper()
	if printed, err := j.begin(t); err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
}

// newJail is a jail to be started.
func newJail(t *testing.T, n *internet) *jail {
	t.Helper()
	bin := env.Get(t, engine.UnderTest)
	base := engine.TempDir(t, "/var/tmp", "agentjail-names-")
	bins := env.Get(t, engine.BinDir)
	j := &jail{b: engine.NewBundle(t, base), bin: bin, conf: filepath.Join(bins, "names.toml")}
	env.Check(t, os.WriteFile(j.conf, []byte(policyText), 0o600))
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = errors.Join(os.WriteFile(j.b.Rootfs+client, self, 0o755), os.WriteFile(j.b.Rootfs+caFile, n.ca, 0o644))
	}
	env.Check(t, err)
	j.c = engine.Caller{Path: bin, Args: []string{"--config", j.conf, "--root", filepath.Join(j.b.Dir, "state")}}
	j.b.Spec.Process.Args = []string{"sleep", "100000"}
	j.id = j.b.ID()
	t.Cleanup(func() {
		if out, errs, err := j.b.Call(t, j.c, "delete", "--force", j.id); err != nil {
			t.Errorf("delete: %v: %s%s", err, out, errs)
		}
	})
	return j
}

// pid is the jail's first process.
func (j *jail) pid(t *testing.T) int {
	t.Helper()
	out, errs, err := j.b.Call(t, j.c, "state", j.id)
	var s struct {
		Pid int `json:"pid"`
	}
	if err == nil {
		err = json.Unmarshal([]byte(out), &s)
	}
	if err != nil || s.Pid <= 1 {
		t.Fatalf("%v: %s%s", err, out, errs)
	}
	return s.Pid
}

// in runs a client in the jail.
func (j *jail) in(t *testing.T, args ...string) (string, bool) {
	t.Helper()
	out, errs, err := j.b.Call(t, j.c, append([]string{"exec", j.id, client}, args...)...)
	return strings.TrimSpace(out + errs), err == nil
}

// record is the helper's.
type record struct {
	Pid     int      `json:"pid"`
	Cgroups []string `json:"cgroups"`
}

// dir is the jail's directory of state.
func (j *jail) dir(t *testing.T) string {
	t.Helper()
	return engine.JailDir(t, j.id)
}

func (j *jail) helper(t *testing.T) record {
	t.Helper()
	r := engine.Helper(t, j.id)
	return record{r.Pid, r.Cgroups}
}

func (j *jail) inspect(t *testing.T) (string, int) {
	t.Helper()
	cmd := exec.Command(filepath.Join(filepath.Dir(j.bin), "agentjailctl"), "inspect", j.id)
	out, err := cmd.CombinedOutput()
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// awaitEnd waits for the end of a process by its pidfd.
func awaitEnd(t *testing.T, pidfd int) {
	t.Helper()
	if err := ends.Wait(pidfd, 20*time.Second); err != nil {
		t.Errorf("the process: %v", err)
	}
}

func pidfd(t *testing.T, pid int) int {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	env.Check(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// ways is what a jail tries. Outside of the jail, on the host, each of them works.
var ways = []struct {
	what string
	args []string
	want string // what it states; "" is a refusal
	why  string // of a refusal: what it states
}{
	{"https to an allowed name", []string{"https", "api.example.test", "443"}, "served api.example.test", ""},
	{"https by a wildcard", []string{"https", "a.wild.example.test", "443"}, "served a.wild.example.test", ""},
	{"plain http", []string{"http", "api.example.test", "80"}, "served api.example.test", ""},
	{"a protocol in which the server speaks first", []string{"greeted", "api.example.test", "22"}, "hello sent", ""},
	{"a private address that the rule grants", []string{"greeted", "granted.example.test", "22"}, "hello sent", ""},

	{"a name without a rule", []string{"look", "other.example.test", "0"}, "", "no such host"},
	{"https to a name without a rule", []string{"https", "other.example.test", "443"}, "", "no such host"},
	{"a port without a rule", []string{"https", "api.example.test", "8443"}, "", "reset"},
	{"TLS in another name", []string{"https", "api.example.test", "443", "other.example.test"}, "", "access denied"},
	{"plain http to another host behind the name", []string{"http", "api.example.test", "80", "other.example.test"}, "", "refused: "},
	{"a second request to another host", []string{"http", "api.example.test", "80", "api.example.test", "other.example.test"}, "", "served api.example.test; refused: "},
	{"a server that is named by address", []string{"https", serverAddr, "443", "api.example.test"}, "", "unreachable"},
	{"UDP to an allowed name", []string{"udp", "api.example.test", "443"}, "", "refused"},
	{"UDP to a server", []string{"udp", serverAddr, "443"}, "", "unreachable"},
	{"a private address", []string{"greeted", "private.example.test", "22"}, "", "reset"},
	{"the metadata service's address", []string{"greeted", "metadata.example.test", "22"}, "", "reset"},
}

// The ways by which connections come to the helper, as reports name them.
const (
	bySkLookup  = "sk_lookup"
	byRedirect  = "nf_tables redirect"
	byListeners = "listeners"
)

// TestAllowedNamesByEveryWay: an allowed name is reached, and nothing else, with nothing set up inside, by whatever way connections come to the helper.
func TestAllowedNamesByEveryWay(t *testing.T) {
	n := newInternet(t)
	onHost = n.ca
	resolveBy(t, dnsAddr)
	for _, way := range []string{bySkLookup, byRedirect, byListeners} {
		t.Run(way, func(t *testing.T) { goes(t, n, way) })
	}
}

// only builds an agentjail that knows one way for connections, in a directory of its own.
func only(t *testing.T, way string) string {
	t.Helper()
	bin := env.Get(t, engine.UnderTest)
	bins := env.Get(t, engine.BinDir)
	dir := filepath.Join(bins, "only-"+strings.Fields(way)[0])
	env.Check(t, os.Mkdir(dir, 0o755))
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, name := range []string{"agentjail-egress", "agentjail-enter"} {
		env.Check(t, os.Link(filepath.Join(filepath.Dir(bin), name), filepath.Join(dir, name)))
	}
	flag := engine.LinkerFlags("agentjail.dev/runtime/network/names/internal/jailsock.only=" + way)
	for _, name := range []string{"agentjail", "agentjailctl"} {
		env.Check(t, engine.Build("./cmd/"+name, filepath.Join(dir, name), flag))
	}
	return filepath.Join(dir, "agentjail")
}

func goes(t *testing.T, n *internet, way string) {
	bin := only(t, way) // before the jail, which is deleted with it
	j := newJail(t, n)
	j.bin, j.c.Path = bin, bin
	j.start(t)
	for _, w := range ways {
		if way == byListeners && w.args[2] == "8443" {
			w.why = "refused" // no process listens
		}
		n.questions()
		got, ok := j.in(t, w.args...)
		switch {
		case w.want != "" && (!ok || got != w.want):
			t.Errorf("%s: %q, want %q", w.what, got, w.want)
		case w.want == "" && (ok || !strings.Contains(got, w.why)):
			t.Errorf("%s: %q, want a refusal: %s", w.what, got, w.why)
		}
		for _, q := range n.questions() {
			if strings.HasPrefix(q, "other.") || strings.Contains(q, ".host.example.test") {
				t.Errorf("%s: the host's name server was queried for %s", w.what, q)
			}
		}
		// On the host it works: it is the jail that refuses.
		if _, err := ask(w.args); err != nil {
			t.Errorf("%s: on the host: %v", w.what, err)
		}
	}
	for _, name := range []string{"local.example.test", "self.example.test"} {
		if got, ok := j.in(t, "greeted", name, "22"); ok || !strings.Contains(got, "reset") {
			t.Errorf("%s: %q", name, got)
		}
	}
	text := env.Read(t, filepath.Join(j.dir(t), "network.log"))
	for _, want := range []string{`"verdict":"allowed","name":"api.example.test","port":443`, `"verdict":"refused","name":"other.example.test"`, `"verdict":"refused","name":"api.example.test","port":8443`} {
		if way == byListeners && strings.Contains(want, "8443") {
			continue
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("the log lacks %s:\n%s", want, text)
		}
	}
	if out, code := j.inspect(t); code != 0 || !strings.Contains(out, fmt.Sprintf("only lo; names by helper %d (%s)", j.helper(t).Pid, way)) {
		t.Errorf("inspect: %d\n%s", code, out)
	}
	text = env.Read(t, filepath.Join(j.dir(t), "report.json"))
	if got := strings.Contains(string(text), "connections come to the helper by "+way); got != (way != bySkLookup) {
		t.Errorf("the report names %s: %v", way, got)
	}
	// A new helper goes the same way, although a program of the jail has taken ports: but for the way without anything in front of it.
	j.killHelper(t)
	end := j.takesPorts(t, "1080,3128")
	if way == byListeners {
		if out, code := j.ctl(t, filepath.Join(filepath.Dir(j.bin), "agentjailctl"), nil, "network", "restart", j.id); code == 0 || !strings.Contains(out, "end those programs") {
			t.Errorf("restart where ports are taken: %d: %s", code, out)
		}
		end()
		end = func() {}
	}
	defer end()
	j.network(t, "restart")
	for by := range proxies {
		if got, ok := j.in(t, "https by "+by, "api.example.test", "443"); !ok {
			t.Errorf("after restart, by %s: %q", by, got)
		}
	}
	if got, ok := j.in(t, "https", "api.example.test", "443"); !ok {
		t.Errorf("after restart: %q", got)
	}
	if out, code := j.inspect(t); code != 0 {
		t.Errorf("inspect after restart: %d\n%s", code, out)
	}
	if again, err := os.ReadFile(filepath.Join(j.dir(t), "report.json")); err != nil || string(again) != string(text) {
		t.Errorf("the report after restart: %v\n%s\nbefore:\n%s", err, again, text)
	}
	foreign(t, j)
	if out, _ := j.ctl(t, filepath.Join(filepath.Dir(j.bin), "agentjailctl"), nil, "--config", j.conf, "check", "-v"); !strings.Contains(out, "are taken by "+way) {
		t.Errorf("check: %s", out)
	}
}

// foreign redirects a jail's connections to another port, which inspect has to see.
func foreign(t *testing.T, j *jail) {
	t.Helper()
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", j.pid(t)))
	env.Check(t, err)
	defer ns.Close()
	env.Check(t, seal.Redirect(ns, seal.Target{Range: netip.MustParsePrefix("127.64.0.0/10"), Port: 9}))
	if out, code := j.inspect(t); code == 0 || !strings.Contains(out, "BROKEN") || !strings.Contains(out, "redirect: ") {
		t.Errorf("inspect of a redirect that is not the helper's: %d\n%s", code, out)
	}
}

// TestProxies: programs that insist on a proxy reach the same names by it, and addresses that a rule names, and nothing else.
func TestProxies(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	j := startJail(t, n)
	for _, w := range []struct {
		what       string // the client
		host, port string
		as         string // the name that it then states, if another
		connect    string // what it states by CONNECT
		socks      string // and by SOCKS5
	}{
		{"https", "api.example.test", "443", "", "served api.example.test", "served api.example.test"},
		{"https", "a.wild.example.test", "443", "", "served a.wild.example.test", "served a.wild.example.test"},
		{"http", "api.example.test", "80", "", "served api.example.test", "served api.example.test"},
		{"greeted", "api.example.test", "22", "", "hello sent", "hello sent"},
		{"greeted", serverAddr, "22", "", "hello sent", "hello sent"},

		{"https", "other.example.test", "443", "", "403", "the proxy answers 2"},
		{"https", "api.example.test", "8443", "", "403", "the proxy answers 2"},
		{"https", "api.example.test", "443", "other.example.test", "access denied", "access denied"},
		{"http", "api.example.test", "80", "other.example.test", "refused: ", "refused: "},
		{"https", serverAddr, "443", "api.example.test", "403", "the proxy answers 2"},
		{"greeted", "169.254.169.254", "80", "", "403", "the proxy answers 2"},
		{"greeted", "127.0.0.1", "53", "", "403", "the proxy answers 2"},
		{"greeted", "127.64.0.200", "22", "", "403", "the proxy answers 2"},
		{"greeted", "private.example.test", "22", "", "reset", "reset"},
		{"greeted", "self.example.test", "22", "", "reset", "reset"},
		{"https", "0x7f000001", "443", "", "400", "the proxy answers 2"},
	} {
		for proxy, want := range map[string]string{"CONNECT": w.connect, "SOCKS5": w.socks} {
			args := []string{w.what + " by " + proxy, w.host, w.port}
			if w.as != "" {
				args = append(args, w.as)
			}
			got, ok := j.in(t, args...)
			if works := strings.HasPrefix(want, "served ") || want == "hello sent"; ok != works || !strings.Contains(got, want) {
				t.Errorf("%q: %q, want %q", args, got, want)
			}
		}
	}
}

// TestKilledHelper: without its helper the jail reaches nothing, inspect reports it, and the jail goes on.
func TestKilledHelper(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	j := startJail(t, n)
	h := j.helper(t)
	fd := pidfd(t, h.Pid)
	env.Check(t, unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0))
	awaitEnd(t, fd)
	for _, w := range ways {
		if got, ok := j.in(t, w.args...); ok {
			t.Errorf("%s, without a helper: %q", w.what, got)
		}
	}
	if out, code := j.inspect(t); code == 0 || !strings.Contains(out, "BROKEN") || !strings.Contains(out, "has ended") {
		t.Errorf("inspect: %d\n%s", code, out)
	}
}

// TestNothingLeft: the helper ends with the jail, by delete and by itself, and nothing of both is left.
func TestNothingLeft(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	for _, how := range []string{"delete --force", "delete --force before start", "the init process is killed"} {
		j := newJail(t, n)
		steps := [][]string{{"create", "--bundle", j.b.Dir, j.id}, {"start", j.id}}
		if how == "delete --force before start" {
			steps = steps[:1]
		}
		for _, args := range steps {
			if out, errs, err := j.b.Call(t, j.c, args...); err != nil {
				t.Fatalf("%v\n%s%s", err, out, errs)
			}
		}
		h, left := j.helper(t), []string{j.dir(t)}
		for _, controller := range []string{"memory", "pids", "cpu"} {
			left = append(left, groupOf(t, j.pid(t), controller))
		}
		fd := pidfd(t, h.Pid)
		if how != "the init process is killed" {
			if out, errs, err := j.b.Call(t, j.c, "delete", "--force", j.id); err != nil || errs != "" {
				t.Fatalf("%v\n%s%s", err, out, errs)
			}
			if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0); n != 1 {
				t.Errorf("%s: the helper runs on: %v", how, err)
			}
		} else {
			if out, errs, err := j.b.Call(t, j.c, "kill", j.id, "KILL"); err != nil {
				t.Fatalf("%v\n%s%s", err, out, errs)
			}
			awaitEnd(t, fd)
			if out, errs, err := j.b.Call(t, j.c, "delete", j.id); err != nil {
				t.Fatalf("%v\n%s%s", err, out, errs)
			}
		}
		for _, path := range append(left, h.Cgroups...) {
			if _, err := os.Stat(path); !os.IsNotExist(err) {
				t.Errorf("%s: %s is left: %v", how, path, err)
			}
		}
	}
}

// TestPodSharesNetworkAndHelper: the containers of a pod share the first one's network and helper, and one whose own rules give less is not started.
func TestPodSharesNetworkAndHelper(t *testing.T) {
	skipVoid(t)
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	first := startJail(t, n)
	joins := func(annotation string) *jail {
		j := newJail(t, n)
		j.c = first.c // of one engine
		for i := range j.b.Spec.Linux.Namespaces {
			if ns := &j.b.Spec.Linux.Namespaces[i]; ns.Type == specs.NetworkNamespace {
				ns.Path = fmt.Sprintf("/proc/%d/ns/net", first.pid(t))
			}
		}
		if annotation != "" {
			j.b.Spec.Annotations = map[string]string{"dev.agentjail.network.allow": annotation}
		}
		return j
	}
	second := joins("")
	second.start(t)
	if got, ok := second.in(t, "https", "api.example.test", "443"); !ok || got != "served api.example.test" {
		t.Errorf("the second container: %q", got)
	}
	if got, ok := second.in(t, "https", "other.example.test", "443"); ok {
		t.Errorf("the second container: %q", got)
	}
	if _, err := os.Stat(filepath.Join(second.dir(t), "helper.json")); !os.IsNotExist(err) {
		t.Errorf("the second container has a helper of its own: %v", err)
	}
	if out, code := second.inspect(t); code != 0 || !strings.Contains(out, "names by the first jail's helper") {
		t.Errorf("inspect: %d\n%s", code, out)
	}
	less := joins("api.example.test:443")
	if said, err := less.begin(t); err == nil || !strings.Contains(said, "whose rules allow more") {
		t.Errorf("a container with fewer names: %v: %s", err, said)
	}
	// The same rules hold in a network of its own.
	alone := newJail(t, n)
	alone.b.Spec.Annotations = map[string]string{"dev.agentjail.network.allow": "api.example.test:443"}
	alone.start(t)
	for port, want := range map[string]bool{"443": true, "80": false} {
		if got, ok := alone.in(t, map[string]string{"443": "https", "80": "http"}[port], "api.example.test", port); ok != want {
			t.Errorf("with fewer names, port %s: %q", port, got)
		}
	}
	if got, ok := alone.in(t, "look", "a.wild.example.test", "0"); ok {
		t.Errorf("with fewer names: %q", got)
	}
}
