package names

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/env"
)

// handle is the lab's web server.
func (n *internet) handle(w http.ResponseWriter, r *http.Request) {
	if v := r.Header.Get("Authorization"); v != "" {
		n.mu.Lock()
		n.shown = append(n.shown, r.Host+" "+v)
		n.mu.Unlock()
		if r.URL.Path == "/echo" {
			w.Header().Set("X-Echo", "you sent "+v)
		}
	}
	switch r.URL.Path {
	case "/pour":
		pour(w)
		return
	case "/sink":
		_, _ = io.Copy(io.Discard, r.Body)
		return
	}
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "served %s%s", r.Host, body)
}

// credentials returns what servers got since the last call.
func (n *internet) credentials() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.shown
	n.shown = nil
	return out
}

// got polls what servers got until it is as much as wanted: a client that the helper refuses ends before its server has read.
func (n *internet) got(want []string) (got []string) {
	env.Poll(env.AnswerWait, func() bool { got = append(got, n.credentials()...); return len(got) >= len(want) })
	return got
}

// tools are what the client does besides.
var tools = map[string]func([]string) (string, error){
	// raw HOST PORT TEXT states a text and prints what it gets; rawtls does so over TLS by the jail's own authorities.
	"raw":    func(a []string) (string, error) { return raw(a, false) },
	"rawtls": func(a []string) (string, error) { return raw(a, true) },
	"env":    func(a []string) (string, error) { return os.Getenv(a[0]), nil },
	// trusted FILE counts the certificates in a file.
	"trusted": func(a []string) (string, error) {
		text, err := os.ReadFile(a[0])
		return fmt.Sprint(strings.Count(string(text), "BEGIN CERTIFICATE"), " ", strings.Contains(string(text), "PRIVATE KEY")), err
	},
	"search": func(a []string) (string, error) { return search(a[0], a[1:]) },
}

func raw(a []string, over bool) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), clientTime)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(a[0], a[1]))
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(clientTime))
	by := ""
	if over {
		s := tls.Client(c, &tls.Config{ServerName: a[0], NextProtos: []string{"h2", "http/1.1"}})
		if err := s.Handshake(); err != nil {
			return "", err
		}
		by = s.ConnectionState().PeerCertificates[0].Issuer.CommonName + ": "
		c = s
	}
	if _, err := io.WriteString(c, a[2]); err != nil {
		return "", err
	}
	out, err := io.ReadAll(c)
	return by + string(out), err
}

// search looks for a text, given in hexadecimal, in all files below some directories that it can read. It lists them.
func search(what string, dirs []string) (string, error) {
	text, err := hex.DecodeString(what)
	if err != nil {
		return "", err
	}
	var found []string
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil || strings.HasPrefix(path, "/sys") || strings.HasPrefix(path, fmt.Sprintf("/proc/%d/", os.Getpid())):
				return fs.SkipDir
			case d.IsDir() && strings.HasPrefix(path, "/proc/") && strings.HasSuffix(path, "/task"):
				return fs.SkipDir
			case !d.Type().IsRegular(), strings.HasPrefix(path, "/proc/") && !slices.Contains([]string{"environ", "cmdline"}, d.Name()):
				return nil
			}
			if has, _ := contains(path, text); has {
				found = append(found, path)
			}
			return nil
		})
	}
	return strings.Join(found, " "), nil
}

// contains looks for a text in the beginning of a file.
func contains(path string, text []byte) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 4<<20))
	return bytes.Contains(data, text), err
}

// inMemory looks for a text in a process's memory, as the kernel lets this process.
func inMemory(pid int, text []byte) (bool, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return false, err
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return false, err
	}
	defer mem.Close()
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var how string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &how); err != nil || !strings.HasPrefix(how, "rw") || to-from > 128<<20 {
			continue
		}
		part := make([]byte, to-from)
		if n, _ := mem.ReadAt(part, from); bytes.Contains(part[:n], text) {
			return true, nil
		}
	}
	return false, nil
}

// trust has this process's host trust the lab's authority alone.
func trust(t *testing.T, n *internet) {
	t.Helper()
	env.Check(t, os.MkdirAll("/etc/ssl", 0o755))
	env.Check(t, unix.Mount("tmpfs", "/etc/ssl", "tmpfs", 0, "mode=0755"))
	t.Cleanup(func() { _ = unix.Unmount("/etc/ssl", unix.MNT_DETACH) })
	env.Check(t, errors.Join(os.Mkdir("/etc/ssl/certs", 0o755), os.WriteFile("/etc/ssl/certs/ca-certificates.crt", n.ca, 0o644)))
}

// value is the jails' credential. The client has another: this program is in the jail, and the text of its constants.
var value = "house_" + rand.Text()[:16]

// lender is what policy sets of it.
const lender = `
[credentials.house]
hosts = ["api.example.test"]
header = "Authorization: Bearer"
from = "file:%s"
env = "HOUSE_TOKEN"
placeholder = "house_****************"
tls = "%s"
`

// debianBundle is what the image's programs trust.
const debianBundle = "/etc/ssl/certs/ca-certificates.crt"

// withCredential is a jail that can use the credential, started.
func withCredential(t *testing.T, n *internet, ends string) *jail {
	t.Helper()
	j := newJail(t, n)
	key := j.writeKey(t, value)
	env.Check(t, os.WriteFile(j.conf, []byte(policyText+fmt.Sprintf(lender, key, ends)), 0o600))
	// What the image trusts.
	bundle := filepath.Join(j.b.Rootfs, debianBundle)
	env.Check(t, errors.Join(os.MkdirAll(filepath.Dir(bundle), 0o755), os.WriteFile(bundle, n.ca, 0o644)))
	j.start(t)
	env.Check(t, os.Remove(key))
	return j
}

// writeKey writes the file that policy names.
func (j *jail) writeKey(t *testing.T, text string) string {
	t.Helper()
	key := filepath.Join(filepath.Dir(j.b.Dir), "key")
	env.Check(t, os.WriteFile(key, []byte(text+"\n"), 0o600))
	return key
}

// placeholder is the jail's.
func (j *jail) placeholder(t *testing.T) string {
	t.Helper()
	p, ok := j.in(t, "env", "HOUSE_TOKEN")
	if !ok || len(p) != len(value) || !strings.HasPrefix(p, "house_") || p == value {
		t.Fatalf("the placeholder is %q", p)
	}
	return p
}

// request is a request that ends its connection.
func request(host, path, fields, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\n%sContent-Length: %d\r\nConnection: close\r\n\r\n%s", path, host, fields, len(body), body)
}

// TestCredentials: servers get the credential, by the plain route; programs in the jail never do, and their placeholder goes nowhere else.
func TestCredentials(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	trust(t, n)
	j := withCredential(t, n, "route")
	p := j.placeholder(t)
	const host, route = "api.example.test", "api.example.test.jail"
	uses := []string{host + " Bearer " + value}
	for _, w := range []struct {
		what string
		args []string
		want string   // in what the client gets
		got  []string // what servers got
	}{
		{"the placeholder in its header", []string{"raw", route, "80", request(route, "/", "Authorization: Bearer "+p+"\r\n", "")}, "served " + host, uses},
		{"curl http://api.example.test.jail/v1/models", []string{"raw", route, "80", request(route, "/v1/models", "", "")}, "served " + host, uses},
		{"no header", []string{"raw", route, "80", request(route, "/", "", "")}, "served " + host, uses},
		{"a header of the client's own", []string{"raw", route, "80", request(route, "/", "authorization: Basic eA==\r\nAUTHORIZATION: x\r\n", "")}, "served " + host, uses},
		{"a body", []string{"raw", route, "80", request(route, "/", "", "-said")}, "served " + host + "-said", uses},
		{"two requests", []string{"http", route, "80", route, route}, "served " + host + "; served " + host, append(uses, uses...)},
		{"a response that echoes it", []string{"raw", route, "80", request(route, "/echo", "", "")}, "served " + host, uses},

		{"the placeholder in a body", []string{"raw", route, "80", request(route, "/", "", "-"+p)}, "served " + host + "-" + p, uses},
		{"a further one", []string{"raw", route, "80", request(route, "/", "", p)}, "served " + host + p, uses},
		{"the placeholder in a path", []string{"raw", route, "80", request(route, "/"+p, "", "")}, "403 Forbidden", nil},
		{"the placeholder in another header", []string{"raw", route, "80", request(route, "/", "X-Y: "+p+"\r\n", "")}, "403 Forbidden", nil},
		{"the placeholder by plain http", []string{"raw", host, "80", request(host, "/", "Authorization: Bearer "+p+"\r\n", "")}, "403 Forbidden", nil},
		{"the placeholder in a body by plain http", []string{"raw", host, "80", request(host, "/", "", "-"+p)}, "403 Forbidden", nil},
		{"another host by the route", []string{"raw", route, "80", request(host, "/", "", "")}, "403 Forbidden", nil},
		{"the route's name without the suffix", []string{"look", "other.example.test.jail", "0"}, "no such host", nil},
		{"a route without a credential", []string{"look", "a.wild.example.test.jail", "0"}, "no such host", nil},
		{"the route on another port", []string{"raw", route, "443", "x"}, "reset", nil},
	} {
		n.credentials()
		got, _ := j.in(t, w.args...)
		if !strings.Contains(got, w.want) || strings.Contains(got, value) {
			t.Errorf("%s: %q, want %q", w.what, got, w.want)
		}
		if sent := n.got(w.got); !slices.Equal(sent, w.got) {
			t.Errorf("%s: servers got %q, want %q", w.what, sent, w.got)
		}
	}
	text := env.Read(t, filepath.Join(j.dir(t), "network.log"))
	for _, want := range []string{`"verdict":"refused","name":"api.example.test","port":80,"rule":"api.example.test:443,80,22","reason":"the placeholder of credentials.house`, `"credential":"house"`, "fields of a response"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the log lacks %s:\n%s", want, text)
		}
	}
	if n := strings.Count(string(text), "a body to its own host has the placeholder"); n != 1 {
		t.Errorf("two bodies with the placeholder are logged %d times, want once:\n%s", n, text)
	}
}

// TestCredentialsTLS: programs that speak TLS to the host, as they are, have the credential set in it, by the jail's own authority, which
// they trust and which vouches for no other name.
func TestCredentialsTLS(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	trust(t, n)
	j := withCredential(t, n, "end")
	p := j.placeholder(t)
	const host = "api.example.test"
	uses := []string{host + " Bearer " + value}
	const own, lab = "agentjail, of this jail alone: HTTP/1.1 ", "lab: HTTP/1.1 "
	for _, w := range []struct {
		what string
		args []string
		want []string // in what the client gets
		got  []string // what servers got
	}{
		{"the placeholder in its header", []string{"rawtls", host, "443", request(host, "/", "Authorization: Bearer "+p+"\r\n", "-said")}, []string{own + "200", "served " + host + "-said"}, uses},
		{"a Host with the port", []string{"rawtls", host, "443", request(host+":443", "/", "", "")}, []string{own + "200", "served " + host}, uses},
		{"a response that echoes it", []string{"rawtls", host, "443", request(host, "/echo", "", "")}, []string{"served " + host}, uses},
		{"the plain route", []string{"raw", host + ".jail", "80", request(host+".jail", "/", "", "")}, []string{"served " + host}, uses},
		{"another host that the rules allow", []string{"rawtls", "a.wild.example.test", "443", request("a.wild.example.test", "/", "", "")}, []string{lab + "200", "served a.wild.example.test"}, nil},

		{"the placeholder in another header", []string{"rawtls", host, "443", request(host, "/", "X-Y: "+p+"\r\n", "")}, []string{own + "403"}, nil},
		{"another host inside TLS", []string{"rawtls", host, "443", request("other.example.test", "/", "", "")}, []string{own + "403"}, nil},
		{"another port inside TLS", []string{"rawtls", host, "443", request(host+":80", "/", "", "")}, []string{own + "403"}, nil},
		{"what is not HTTP", []string{"rawtls", host, "443", "SSH-2.0-x\r\n\r\n"}, []string{own + "400"}, nil},
		{"TLS in another name", []string{"https", host, "443", "other.example.test"}, []string{"access denied"}, nil},

		{"the image's trusted certificates", []string{"trusted", debianBundle}, []string{"2 false"}, nil},
		{"those of the variables", []string{"trusted", "/etc/agentjail/bundle.pem"}, []string{"2 false"}, nil},
		{"the authority alone", []string{"trusted", "/etc/agentjail/authority.pem"}, []string{"1 false"}, nil},
		{"a variable", []string{"env", "SSL_CERT_FILE"}, []string{"/etc/agentjail/bundle.pem"}, nil},
		{"node's variable", []string{"env", "NODE_EXTRA_CA_CERTS"}, []string{"/etc/agentjail/authority.pem"}, nil},
	} {
		n.credentials()
		got, _ := j.in(t, w.args...)
		for _, want := range w.want {
			if !strings.Contains(got, want) || strings.Contains(got, value) {
				t.Errorf("%s: %q, want %q", w.what, got, want)
			}
		}
		if sent := n.got(w.got); !slices.Equal(sent, w.got) {
			t.Errorf("%s: servers got %q, want %q", w.what, sent, w.got)
		}
	}
	// A new helper has the value of that time, and the authority that programs trust.
	j.killHelper(t)
	j.writeKey(t, value+"-2")
	j.network(t, "restart")
	if got, _ := j.in(t, "rawtls", host, "443", request(host, "/", "", "")); !strings.Contains(got, own+"200") {
		t.Errorf("by a new helper: %q", got)
	}
	second := []string{uses[0] + "-2"}
	if sent := n.got(second); !slices.Equal(sent, second) {
		t.Errorf("by a new helper: servers got %q", sent)
	}
	if text, err := os.ReadFile(j.b.Rootfs + debianBundle); err != nil || !bytes.Equal(text, n.ca) {
		t.Errorf("the image has changed: %v", err)
	}
	pair := filepath.Join(j.dir(t), "authority.pem")
	var st unix.Stat_t
	if err := unix.Stat(pair, &st); err != nil || st.Uid != 0 || st.Mode&0o077 != 0 {
		t.Errorf("the authority's key: %o of user %d, %v", st.Mode, st.Uid, err)
	}
	if out, code := j.inspect(t); code != 0 {
		t.Errorf("inspect: %d\n%s", code, out)
	}
}

// TestCredentialUnread: only the host's root can read the value, and the record, the log and what is reported do not have it.
func TestCredentialUnread(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	trust(t, n)
	j := withCredential(t, n, "route")
	j.placeholder(t)
	t.Logf("the helper has %d KiB of its own", j.helperMemory(t))
	const route = "api.example.test.jail"
	if got, _ := j.in(t, "raw", route, "80", request(route, "/echo", "", "")); !strings.Contains(got, "served") {
		t.Fatalf("the route: %q", got)
	}
	what := hex.EncodeToString([]byte(value))
	if got, errs, err := j.b.Call(t, j.c, "exec", j.id, client, "search", what, "/"); err != nil || strings.TrimSpace(got) != "" {
		t.Errorf("in the jail: %v: %q%q", err, got, errs)
	}
	if got, err := search(what, []string{"/proc", "/run/agentjail", j.b.Dir}); err != nil || got != "" {
		t.Errorf("on the host: %q, %v", got, err)
	}
	inspected, code := j.inspect(t)
	if code != 0 || !strings.Contains(inspected, "credentials house") || strings.Contains(inspected, value) {
		t.Errorf("inspect: %d\n%s", code, inspected)
	}
	h := j.helper(t)
	// That it can be found at all: the host's root reads what it likes.
	if has, err := inMemory(h.Pid, []byte(value)); err != nil || !has {
		t.Errorf("in the helper's memory, as root: %v, %v", has, err)
	}
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/environ", h.Pid), &st); err != nil || st.Uid != 0 {
		t.Errorf("the helper's /proc is of user %d, %v: it is dumpable", st.Uid, err)
	}
	var uid uint32
	if _, err := fmt.Sscan(env.Status(t, h.Pid, "Uid"), &uid); err != nil || uid == 0 {
		t.Fatalf("the helper's user is %d, %v", uid, err)
	}
	for _, user := range []uint32{65534, uid} {
		cmd := exec.Command("/proc/self/exe", "peek", fmt.Sprint(h.Pid), what)
		cmd.Args[0] = client
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
		if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "nothing" {
			t.Errorf("user %d: %q, %v", user, out, err)
		}
	}
}

func init() {
	// peek PID WHAT tries all of a process that could have it.
	tools["peek"] = func(a []string) (string, error) {
		text, err := hex.DecodeString(a[1])
		if err != nil {
			return "", err
		}
		for _, file := range []string{"mem", "maps", "environ", "fd", "stack", "auxv"} {
			if f, err := os.Open("/proc/" + a[0] + "/" + file); err == nil {
				if file != "maps" && file != "stack" {
					return "opened " + file, nil
				}
				f.Close()
			}
		}
		var pid int
		if err := json.Unmarshal([]byte(a[0]), &pid); err != nil {
			return "", err
		}
		if has, _ := inMemory(pid, text); has {
			return "in its memory", nil
		}
		return "nothing", nil
	}
}
