package names

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/env"
)

func init() { programs["serve"] = serve }

// serve is a jail's program with servers on loopback: at 8000, at 8001 of IPv6 only, and one that resets at 8002.
func serve() (string, error) {
	for at, f := range map[string]func(net.Conn){"127.0.0.1:8000": greet, "[::1]:8001": greet, "127.0.0.1:8002": resets} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			return "", err
		}
		go env.Serve(l, f)
	}
	select {}
}

func resets(c net.Conn) {
	_, _ = io.ReadFull(c, make([]byte, 4))
	_ = c.(*net.TCPConn).SetLinger(0)
}

// publishing is a jail to be started whose program serves, and whose annotation publishes.
func publishing(t *testing.T, n *internet, netns, ports string) *jail {
	t.Helper()
	j := joining(t, n, netns, `"api.example.test"]
publish = ["18000-18009", "0.0.0.0:18010"`)
	j.b.Spec.Process.Args = []string{client, "serve"}
	j.b.Spec.Annotations = map[string]string{"dev.agentjail.network.publish": ports}
	return j
}

// greeted tries a server of a jail's until it answers: it may be on its way.
func greeted(t *testing.T, by func() (string, error)) {
	t.Helper()
	var got string
	var err error
	if !env.Poll(env.AnswerWait, func() bool { got, err = by(); return err == nil && got == "hello sent" }) {
		t.Errorf("%q, %v", got, err)
	}
}

// greetedFrom is a client outside of a jail.
func greetedFrom(host, port string) func() (string, error) {
	return func() (string, error) { return ask([]string{"greeted", host, port}) }
}

// fromLab is a client in the lab's network.
func fromLab(n *internet, host, port string) func() (string, error) {
	return func() (got string, err error) {
		n.do(func() error { got, err = ask([]string{"greeted", host, port}); return nil })
		return got, err
	}
}

// TestPublish: what policy lets a jail publish is reached from outside, there and nowhere else, for as long as the jail is there.
func TestPublish(t *testing.T) {
	n := newInternet(t)
	onHost = n.ca
	resolveBy(t, dnsAddr)
	j := publishing(t, n, "", "18000:8000, 18001:8001, 18002:8002, 18003:9, 0.0.0.0:18010:8000")
	j.start(t)
	greeted(t, greetedFrom("127.0.0.1", "18000"))
	greeted(t, greetedFrom("127.0.0.1", "18001"))
	greeted(t, greetedFrom(hostAddr, "18010"))
	greeted(t, fromLab(n, hostAddr, "18010"))
	for _, c := range []struct {
		what string
		by   func() (string, error)
		want error
	}{
		{"a server that resets", greetedFrom("127.0.0.1", "18002"), unix.ECONNRESET},
		{"a port at which nothing listens", greetedFrom("127.0.0.1", "18003"), unix.ECONNRESET},
		{"another address of the host's", greetedFrom(hostAddr, "18000"), unix.ECONNREFUSED},
		{"the same from another machine", fromLab(n, hostAddr, "18000"), unix.ECONNREFUSED},
		{"the jail's port itself", greetedFrom("127.0.0.1", "8000"), unix.ECONNREFUSED},
	} {
		if got, err := c.by(); !errors.Is(err, c.want) {
			t.Errorf("%s: %q, %v, want %v", c.what, got, err, c.want)
		}
	}
	var many sync.WaitGroup
	for range 50 {
		many.Go(func() {
			if got, err := greetedFrom("127.0.0.1", "18000")(); err != nil || got != "hello sent" {
				t.Errorf("one of many: %q, %v", got, err)
			}
		})
	}
	many.Wait()
	if got, ok := j.in(t, "https", "api.example.test", "443"); !ok || got != "served api.example.test" {
		t.Errorf("by name: %q", got)
	}
	if out, code := j.inspect(t); code != 0 || !strings.Contains(out, "which publishes 127.0.0.1:18000:8000, 127.0.0.1:18001:8001") {
		t.Errorf("inspect: %d\n%s", code, out)
	}
	log, err := os.ReadFile(filepath.Join(j.dir(t), "network.log"))
	for _, want := range []string{`"what":"publish","verdict":"allowed","port":8000,"rule":"127.0.0.1:18000:8000"`, `"what":"publish","verdict":"refused","port":9,`, `"what":"end","verdict":"allowed","port":8000,`} {
		if !strings.Contains(string(log), want) {
			t.Errorf("the log lacks %s: %v\n%s", want, err, log)
		}
	}
	second := publishing(t, n, "", "18000:8000")
	if said, err := second.begin(t); err == nil || !strings.Contains(said, "address already in use") || !strings.Contains(said, "remedy: ") {
		t.Errorf("a port that is in use: %v: %s", err, said)
	}
	if out, errs, err := j.b.Call(t, j.c, "delete", "--force", j.id); err != nil {
		t.Fatalf("%v\n%s%s", err, out, errs)
	}
	for _, port := range []string{"18000", "18010"} {
		if got, err := greetedFrom("127.0.0.1", port)(); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("after delete, port %s: %q, %v", port, got, err)
		}
	}
	// What policy does not let a jail publish refuses the start.
	for _, ports := range []string{"18000:8000,19000:8000", "0.0.0.0:18000:8000"} {
		more := publishing(t, n, "", ports)
		if said, err := more.begin(t); err == nil || !strings.Contains(said, "policy does not let") {
			t.Errorf("outside policy, %s: %v: %s", ports, err, said)
		}
		for _, port := range []string{"18000", "19000"} {
			if got, err := greetedFrom("127.0.0.1", port)(); !errors.Is(err, unix.ECONNREFUSED) {
				t.Errorf("outside policy, %s, port %s: %q, %v", ports, port, got, err)
			}
		}
	}
}

// TestPublishEngine: where the bundle names the engine's network namespace, ports are published there, and on no address of the host's.
func TestPublishEngine(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	at := engineNetwork(t, n)
	j := publishing(t, n, at, "0.0.0.0:18010:8000")
	j.start(t)
	greeted(t, fromLab(n, podAddr, "18010"))
	if got, err := greetedFrom("127.0.0.1", "18010")(); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("on the host: %q, %v", got, err)
	}
}
