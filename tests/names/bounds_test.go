package names

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/network/helper"
	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/env"
)

// What the jails of these tests may have, and how much they do.
const (
	boundSockets = 16 << 20
	unread       = 300            // downloads at once that are not read
	ended        = 1000           // connections that the jail ends first
	boundRange   = "40000\t40999" // the host's ports meanwhile
	floodFor     = 3 * time.Second
	chunkConns   = 4
)

// boundCPUs is how many processors the jails have: on control groups of version 2, a helper has a quarter of them.
func boundCPUs() float64 {
	if cgroups.Version(cgroups.Root) == 2 {
		return 0.8
	}
	return 0.2
}

// poured is what servers have been able to send of downloads without an end.
var poured atomic.Int64

// pour is a download without an end.
func pour(w http.ResponseWriter) {
	block := make([]byte, 64<<10)
	for {
		n, err := w.Write(block)
		if err != nil {
			return
		}
		poured.Add(int64(n))
	}
}

func init() {
	programs["unread"] = beUnread
	programs["ends"] = beEnding
	programs["chunks"] = beChunks
	programs["asks"] = beAsking
	programs["busy"] = beBusy
}

// beUnread begins downloads, reads nothing of them, and holds them until standard input ends.
func beUnread() (string, error) {
	at, err := addressOf("api.example.test")
	if err != nil {
		return "", err
	}
	for range unread {
		c, err := net.Dial("tcp4", at+":80")
		if err != nil {
			return "", err
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET /pour HTTP/1.1\r\nHost: api.example.test\r\n\r\n"); err != nil {
			return "", err
		}
	}
	fmt.Println("held")
	_, err = io.Copy(io.Discard, os.Stdin)
	return "", err
}

// beEnding makes connections, each of which it ends before the server does, and reports how many were served.
func beEnding() (string, error) {
	at, err := addressOf("api.example.test")
	if err != nil {
		return "", err
	}
	served := 0
	for range ended {
		c, err := net.Dial("tcp4", at+":22")
		if err != nil { // one without a port outside is reset
			continue
		}
		_ = c.SetDeadline(time.Now().Add(floodTime))
		if c.(*net.TCPConn).CloseWrite() == nil {
			if said, err := io.ReadAll(c); err == nil && len(said) > 0 {
				served++
			}
		}
		c.Close()
	}
	return strconv.Itoa(served), nil
}

// beChunks sends bodies in chunks of one byte, for a while. It returns the processor time of this process.
func beChunks() (string, error) {
	at, err := addressOf("api.example.test")
	if err != nil {
		return "", err
	}
	block := []byte(strings.Repeat("1\r\nx\r\n", 10000))
	errs := make(chan error, chunkConns)
	var wg sync.WaitGroup
	for range chunkConns {
		wg.Go(func() {
			c, err := net.Dial("tcp4", at+":80")
			if err != nil {
				errs <- err
				return
			}
			defer c.Close()
			_, err = io.WriteString(c, "POST /sink HTTP/1.1\r\nHost: api.example.test\r\nTransfer-Encoding: chunked\r\n\r\n")
			_ = c.SetWriteDeadline(time.Now().Add(floodFor))
			for err == nil {
				_, err = c.Write(block)
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				err = nil
			}
			_ = c.(*net.TCPConn).SetLinger(0)
			errs <- err
		})
	}
	wg.Wait()
	for range chunkConns {
		if err := <-errs; err != nil {
			return "", err
		}
	}
	return used()
}

// beAsking requests a name without waiting for answers, for a while. It returns the processor time of this process.
func beAsking() (string, error) {
	c, err := net.Dial("udp4", "127.0.0.1:53")
	if err != nil {
		return "", err
	}
	defer c.Close()
	q := []byte(question("api.example.test.", 1, 1))
	for end := time.Now().Add(floodFor); time.Now().Before(end); {
		for range 100 {
			_, _ = c.Write(q)
		}
	}
	return used()
}

// beBusy sends chunks and meanwhile uses up what processor time the jail has.
func beBusy() (string, error) {
	var over atomic.Bool
	for range 2 {
		go func() {
			for !over.Load() {
			}
		}()
	}
	if got, err := beChunks(); err != nil {
		return got, err
	}
	over.Store(true)
	return used()
}

// used is the processor time of this process.
func used() (string, error) {
	var use unix.Rusage
	err := unix.Getrusage(unix.RUSAGE_SELF, &use)
	return time.Duration(use.Utime.Nano() + use.Stime.Nano()).String(), err
}

// bounded is a jail of these tests, which runs.
func bounded(t *testing.T, n *internet) *jail {
	t.Helper()
	j := newJail(t, n)
	conf := filepath.Join(j.b.Dir, "bounds.toml")
	text := policyText + fmt.Sprintf("[limits]\ncpus = %g\nsockets = %d\n", boundCPUs(), boundSockets)
	env.Check(t, os.WriteFile(conf, []byte(text), 0o600))
	j.conf, j.c.Args[1] = conf, conf
	j.start(t)
	return j
}

// value is what a file states that one of a helper's groups has; "" where none has it.
func (r record) value(file string) string {
	for _, dir := range r.Cgroups {
		if text, err := cgroups.Read(dir, file); err == nil {
			return strings.TrimSpace(text)
		}
	}
	return ""
}

// tcpMemory is what all of the host's TCP sockets hold, in bytes: one budget for all network namespaces.
func tcpMemory(t *testing.T) int64 {
	t.Helper()
	return int64(env.Sockstat(t, "TCP", "mem") * os.Getpagesize())
}

// TestUnread: what a helper's sockets hold of downloads that its jail does not read is bounded, and meanwhile another jail and the host have
// their connections.
func TestUnread(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	j, other := bounded(t, n), startJail(t, n)
	if got, ok := j.in(t, "https", "api.example.test", "443"); !ok {
		t.Fatal(got)
	}
	h := j.helper(t)
	before := tcpMemory(t)
	ctx, cancel := context.WithTimeout(context.Background(), floodTime)
	defer cancel()
	cmd := j.b.Command(ctx, j.c, "exec", j.id, client, "unread")
	s := env.Begin(t, cmd)
	defer func() { _ = s.End() }()
	s.Await(t, "held")
	last, since := int64(-1), time.Now()
	env.Eventually(t, "no more can be sent", func() bool {
		if now := poured.Load(); now != last {
			last, since = now, time.Now()
		}
		if ctx.Err() != nil {
			t.Fatal("downloads that are not read go on")
		}
		return time.Since(since) > time.Second
	})
	held := tcpMemory(t) - before
	t.Logf("%d downloads: %d MiB of TCP in all; the helper's group: %s of sockets at most, memory %s%s", unread, held>>20,
		h.value("memory.kmem.tcp.max_usage_in_bytes"), h.value("memory.max_usage_in_bytes"), h.value("memory.peak"))
	// The jail's and the server's are in it: without a bound it was ten times as much.
	if most := int64(16 * boundSockets); held > most {
		t.Errorf("the downloads hold %d MiB, more than %d", held>>20, most>>20)
	}
	if max := h.value("memory.kmem.tcp.limit_in_bytes"); max != "" {
		// Each socket may have its first buffers whatever the limit states.
		peak, err := strconv.ParseInt(h.value("memory.kmem.tcp.max_usage_in_bytes"), 10, 64)
		if err != nil || max != strconv.Itoa(boundSockets) || peak > 2*boundSockets {
			t.Errorf("the helper's sockets held %d bytes, %v, of the limit %s; its jail's is %d", peak, err, max, boundSockets)
		}
	} else if n, err := strconv.ParseInt(h.value("memory.current"), 10, 64); err != nil || n > helper.MemoryMax+helper.SocketsMax {
		t.Errorf("the helper's group holds %d bytes, %v", n, err)
	}
	if got, ok := other.in(t, "https", "api.example.test", "443"); !ok {
		t.Errorf("another jail: %s", got)
	}
	if got, err := ask([]string{"http", "api.example.test", "80"}); err != nil {
		t.Errorf("the host: %s, %v", got, err)
	}
	if !alive(h.Pid) {
		t.Error("the helper has ended")
	}
}

func alive(pid int) bool { return peakMemory(pid) > 0 }

// TestQuota: a jail and its helper together spend no more processor time than the jail may have: on control groups of version 1, or a quarter
// more, on version 2. After an update that holds of the new quota.
func TestQuota(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	j := bounded(t, n)
	var got string
	if !env.Poll(env.Patience, func() (ok bool) { // in an emulated machine a helper takes long to begin
		got, ok = j.in(t, "https", "api.example.test", "443")
		return ok
	}) {
		t.Fatal(got)
	}
	h := j.helper(t)
	flood := func(what string, cpus float64) {
		t.Run(what, func(t *testing.T) {
			begun, before := time.Now(), spent(t, h.Pid)
			boxes, within := spentInBox(t, j, h.Pid)
			got, ok := j.in(t, what)
			helpers, took := spent(t, h.Pid)-before, time.Since(begun)
			jails, err := time.ParseDuration(got)
			if promise.Sandbox() != "" { // whose own kernel counts the time in which the host's lets it wait
				if jails, _ = spentInBox(t, j, h.Pid); within {
					jails -= helpers
				}
				jails -= boxes
			}
			t.Logf("the helper spent %v and its jail %v in %v", helpers.Round(time.Millisecond), jails.Round(time.Millisecond), took.Round(time.Millisecond))
			if !ok || err != nil {
				t.Fatalf("%s: %v", got, err)
			}
			// One period more, in which it began, and what a processor had left of its slice.
			if most := time.Duration(cpus*1.2*float64(took)) + 100*time.Millisecond; helpers+jails > most {
				t.Errorf("the jail and its helper spent %v of %v: more than %g", helpers+jails, took, cpus)
			}
		})
	}
	total := boundCPUs()
	if h.value("cpu.max") != "" {
		total *= 1.25
	}
	flood("chunks", total)
	flood("asks", total)
	flood("busy", total)
	if out, errs, err := j.b.Call(t, j.c, "update", "--cpu-period", "100000", "--cpu-quota", fmt.Sprint(boundCPUs()/2*100000), j.id); err != nil {
		t.Fatalf("%v: %s%s", err, out, errs)
	}
	flood("busy", total/2)
	if now := h.value("cpu.max"); now != "" && now != fmt.Sprint(boundCPUs()/2/helper.QuotaPart*100000, " 100000") {
		t.Errorf("after an update the helper's quota is %s", now)
	}
}

// spentInBox is the processor time of a sandbox's control group and of the groups below it, and whether its helper is in one of those.
func spentInBox(t *testing.T, j *jail, helper int) (took time.Duration, within bool) {
	t.Helper()
	if promise.Sandbox() == "" {
		return 0, false
	}
	groups, err := cgroups.Of(strconv.Itoa(j.pid(t)))
	helpers, herr := cgroups.Of(strconv.Itoa(helper))
	env.Check(t, errors.Join(err, herr))
	for _, g := range groups {
		within := slices.ContainsFunc(helpers, func(h cgroups.Group) bool {
			return h.Controllers == g.Controllers && pathname.Within(h.Path, g.Path)
		})
		for _, root := range g.Mounts(cgroups.Root) {
			var n int64
			dir := filepath.Join(root, g.Path)
			if text, err := cgroups.Read(dir, "cpuacct.usage"); err == nil {
				if _, err := fmt.Sscan(text, &n); err != nil {
					t.Fatal(err)
				}
				return time.Duration(n), within
			}
			if text, err := cgroups.Read(dir, "cpu.stat"); err == nil && g.Controllers == "" {
				if _, err := fmt.Sscanf(text, "usage_usec %d", &n); err != nil {
					t.Fatal(err)
				}
				return time.Duration(n) * time.Microsecond, within
			}
		}
	}
	t.Fatal("no control group counts the sandbox's processor time")
	return 0, false
}

// spent is the processor time of a process.
func spent(t *testing.T, pid int) time.Duration {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	env.Check(t, err)
	var all time.Duration
	for _, task := range tasks {
		var n int64
		if text, err := os.ReadFile(task); err == nil {
			if _, err := fmt.Sscan(string(text), &n); err != nil {
				t.Fatal(err)
			}
		}
		all += time.Duration(n)
	}
	return all
}

// TestHostPorts: connections that a jail ends first, each of which keeps a port for a minute, leave the host half of its ports to that server.
func TestHostPorts(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	const file = "/proc/sys/net/ipv4/ip_local_port_range" // of this test's network namespace
	was, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, []byte(boundRange), 0)
	}
	env.Check(t, err)
	t.Cleanup(func() { _ = os.WriteFile(file, was, 0) })
	j := bounded(t, n)
	got, ok := j.in(t, "ends")
	if served, err := strconv.Atoi(got); !ok || err != nil || served < 100 {
		t.Fatalf("the jail's connections: %s", got)
	}
	ports := localPorts(t, serverAddr+":22")
	t.Logf("%s are served, of %d; %d ports are kept", got, ended, len(ports))
	if len(ports) < 100 || slices.Min(ports) < 40500 {
		t.Errorf("%d ports are in use, from %d", len(ports), slices.Min(ports))
	}
	for i := range 300 {
		c, err := net.Dial("tcp4", serverAddr+":22")
		if err != nil {
			t.Fatalf("connection %d of the host's: %v", i, err)
		}
		defer c.Close()
	}
	// The jail learns why.
	text := env.Read(t, filepath.Join(j.dir(t), "network.log"))
	if !strings.Contains(string(text), "all 500 ports that this jail has connections from are in use") {
		t.Errorf("the log does not state why connections are refused: %.2000s", text)
	}
}

// localPorts are those of this network namespace with a connection to an address, in whatever state.
func localPorts(t *testing.T, to string) (out []int) {
	t.Helper()
	text := env.Read(t, "/proc/thread-self/net/tcp")
	host, port, err := net.SplitHostPort(to)
	env.Check(t, err)
	n, _ := strconv.Atoi(port)
	a := net.ParseIP(host).To4()
	want := fmt.Sprintf("%02X%02X%02X%02X:%04X", a[3], a[2], a[1], a[0], n)
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 4 || f[2] != want {
			continue
		}
		_, local, _ := strings.Cut(f[1], ":")
		p, err := strconv.ParseInt(local, 16, 32)
		env.Check(t, err)
		out = append(out, int(p))
	}
	return out
}
