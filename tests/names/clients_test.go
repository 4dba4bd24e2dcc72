package names

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// fewestClients is how many clients have to be on a machine for which hack/deps.sh has done its work.
const fewestClients = 25

// clientPolicy is the policy of TestClients' jail.
const clientPolicy = `[network]
mode = "names"
allow = [
  "web.example.test:7,80,443", "git.example.test:80,443,9418", "ssh.example.test:22", "db.example.test:5432", "cache.example.test:6379",
  "files.example.test:873", "rpc.example.test:50051", "apt.example.test", "pip.example.test", "npm.example.test", "goproxy.example.test", "crates.example.test",
]
`

// nodeGet has node request a URL in one way.
const nodeGet = `const https = require("https"); https.get("https://web.example.test/", r => { r.on("data", d => process.stdout.write(d)) }).on("error", e => { console.log(e.message); process.exit(1) })`

// agent is as a program that talks to a model does: it posts, and reads a stream of events.
const agent = `(async () => { const r = await fetch("https://web.example.test/events"); let t = ""; for await (const c of r.body) t += Buffer.from(c).toString(); console.log(t.split("\n").filter(l => l.startsWith("data:")).length, "events");
	const p = await fetch("https://web.example.test/", { method: "POST", body: "x".repeat(100000) }); console.log((await p.text()).trim()) })().catch(e => { console.log(e.cause || e); process.exit(1) })`

// javaGet is a program in one file.
const javaGet = `import java.net.*; import java.net.http.*; import java.nio.file.*; import java.security.*; import java.security.cert.*; import javax.net.ssl.*;
public class Get { public static void main(String[] a) throws Exception {
	KeyStore k = KeyStore.getInstance(KeyStore.getDefaultType()); k.load(null); k.setCertificateEntry("lab", CertificateFactory.getInstance("X.509").generateCertificate(Files.newInputStream(Path.of("/ca.pem"))));
	TrustManagerFactory f = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm()); f.init(k); SSLContext c = SSLContext.getInstance("TLS"); c.init(null, f.getTrustManagers(), null);
	System.out.print(HttpClient.newBuilder().sslContext(c).build().send(HttpRequest.newBuilder(URI.create("https://web.example.test/")).build(), HttpResponse.BodyHandlers.ofString()).body()); } }
`

// cClient is a client in C, of each C library, whose resolver sends queries in its own way: its second argument
// is the family.
const cClient = `#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
int main(int argc, char **argv) {
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG }, *a;
	hints.ai_family = argc > 2 ? AF_INET : AF_UNSPEC;
	int e = getaddrinfo(argc > 1 ? argv[1] : "web.example.test", "7", &hints, &a);
	if (e) { puts(gai_strerror(e)); return 1; }
	int s = socket(a->ai_family, a->ai_socktype, 0), n;
	char buf[64];
	if (connect(s, a->ai_addr, a->ai_addrlen)) { perror("connect"); return 1; }
	n = read(s, buf, sizeof buf);
	return n <= 0 || write(1, buf, n) != n;
}
`

// clients are programs as people have them, and what each states of the lab's servers. No variable configures a network for them.
var clients = []struct {
	name   string
	needs  string // a program or a file that the client is
	script string
	want   string // a part of what it states
}{
	{"curl", "curl", "curl -sS --http1.1 https://web.example.test/", "served web.example.test HTTP/1.1"},
	{"curl by HTTP/2", "curl", "curl -sS --http2 https://web.example.test/", "served web.example.test HTTP/2.0"},
	{"curl without TLS", "curl", "curl -sS http://web.example.test/", "served web.example.test HTTP/1.1"},
	{"curl with a stream of events", "curl", "curl -sSN https://web.example.test/events", "data: token 4"},
	{"curl with a large body", "curl", "head -c 3000000 /dev/zero | curl -sS --data-binary @- https://web.example.test/", "3000000 bytes"},
	{"GNU wget", "wget", "wget -nv -O - https://web.example.test/ 2>&1 | grep served", "served web.example.test HTTP/1.1"},
	{"busybox's wget", "/bin/busybox", "busybox wget -q -O - http://web.example.test/", "served web.example.test HTTP/1.1"},
	{"git by https", "git", "git clone -q https://git.example.test/r.git && git -C r log --format=%s && wc -l < r/numbers", "first\n2000"},
	{"git by ssh", "ssh", "git clone -q root@ssh.example.test:REPO r && wc -l < r/numbers", "2000"},
	{"git by its own protocol", "git", "git clone -q git://git.example.test/r.git && wc -l < r/numbers", "2000"},
	{"git that fetches a part", "git", "git clone -q --filter=blob:none --depth=1 https://git.example.test/r.git && wc -l < r/numbers", "2000"},
	{"ssh", "ssh", "ssh root@ssh.example.test echo from there", "from there"},
	{"scp", "ssh", "scp -q root@ssh.example.test:FILES/numbers . && wc -l < numbers", "3000"},
	{"rsync by ssh", "rsync", "rsync root@ssh.example.test:FILES/numbers . && wc -l < numbers", "3000"},
	{"rsync by its own protocol", "rsync", "rsync rsync://files.example.test/files/numbers . && wc -l < numbers", "3000"},
	{"openssl s_client", "openssl", `printf 'GET / HTTP/1.0\r\nHost: web.example.test\r\n\r\n' | openssl s_client -quiet -verify_return_error -connect web.example.test:443 2>/dev/null | grep served`, "served web.example.test HTTP/1.0"},
	{"bash", "bash", `bash -c 'exec 3<>/dev/tcp/web.example.test/7; read -r l <&3; echo "$l"'`, "hello"},
	{"python's urllib", "/usr/bin/python3", `/usr/bin/python3 -c 'import urllib.request as u; print(u.urlopen("https://web.example.test/").read().decode())'`, "served web.example.test HTTP/1.1"},
	{"python's requests", "/usr/lib/python3/dist-packages/requests/__init__.py", `/usr/bin/python3 -c 'import requests; print(requests.get("https://web.example.test/").text)'`, "served web.example.test HTTP/1.1"},
	{"python's aiohttp", "/usr/lib/python3/dist-packages/aiohttp/__init__.py", `/usr/bin/python3 -c '
import aiohttp, asyncio
async def main():
    async with aiohttp.ClientSession() as s:
        async with s.get("https://web.example.test/") as r: print(await r.text())
asyncio.run(main())'`, "served web.example.test HTTP/1.1"},
	{"python's websocket", "/usr/lib/python3/dist-packages/websocket/__init__.py", `/usr/bin/python3 -c 'import websocket as w; c = w.create_connection("wss://web.example.test/ws"); c.send("echo"); print(c.recv())'`, "echo"},
	{"a websocket without TLS", "/usr/lib/python3/dist-packages/websocket/__init__.py", `/usr/bin/python3 -c 'import websocket as w; c = w.create_connection("ws://web.example.test/ws"); c.send("echo"); print(c.recv())'`, "echo"},
	{"pip", "/usr/lib/python3/dist-packages/pip/__init__.py", "/usr/bin/python3 -m pip install -q --disable-pip-version-check --no-cache-dir --target t hello 2>&1 | grep -v -i -e warning -e root; /usr/bin/python3 t/hello.py", "hello from a wheel"},
	{"ruby", "ruby", `ruby -e 'require "net/http"; puts Net::HTTP.get(URI("https://web.example.test/"))'`, "served web.example.test HTTP/1.1"},
	{"perl", "/usr/share/perl5/IO/Socket/SSL.pm", `perl -e 'use HTTP::Tiny; my $r = HTTP::Tiny->new(verify_SSL => 1)->get("https://web.example.test/"); print $r->{content}'`, "served web.example.test HTTP/1.1"},
	{"php", "php", `php -r 'echo file_get_contents("https://web.example.test/");'`, "served web.example.test HTTP/1.1"},
	{"apt", "apt-get", "apt-get -qq update 2>&1 | grep -v -e ^W: -e ^N:; apt-get -qq download hello-lab 2>/dev/null; cat *.deb", "not looked into"},
	{"apt by IPv4 alone", "apt-get", "set -- -qq -o Acquire::ForceIPv4=true -o Dir::State=$PWD -o Dir::Cache=$PWD; mkdir -p lists/partial; apt-get \"$@\" update 2>&1 | grep -v -e ^W: -e ^N:; apt-get \"$@\" download hello-lab 2>/dev/null; cat *.deb", "not looked into"},
	{"psql", "psql", `psql -At -h db.example.test -U somebody anything -c 'SELECT it'`, "a row it"},
	{"redis-cli", "redis-cli", "redis-cli -h cache.example.test PING; redis-cli -h cache.example.test SET a text", "PONG\n4"},
	{"Go's HTTP client", "", client + ` "go http"`, "served web.example.test HTTP/2.0"},
	{"gRPC in Go", "", client + ` "go grpc"`, "SERVING"},
	{"a websocket in Go", "", client + ` "go websocket"`, "echo"},
	{"go's modules", "go", "go mod init -q example.test/mine 2>/dev/null || go mod init example.test/mine 2>/dev/null; go get example.test/hello 2>&1", "example.test/hello v1.0.0"},
	{"node's https", "node", "node --use-openssl-ca -e '" + nodeGet + "'", "served web.example.test HTTP/1.1"},
	{"an agent in node", "node", "node --use-openssl-ca -e '" + agent + "'", "5 events\n100000 bytes"},
	{"npm", "npm", "npm install --silent --no-audit --no-fund hello && node node_modules/hello", "hello from a package"},
	{"cargo", "/opt/bin/cargo", "mkdir src && : > src/lib.rs && printf '[package]\\nname = \"mine\"\\nversion = \"1.0.0\"\\n[dependencies]\\nhello = { version = \"1\", registry = \"lab\" }\\n' > Cargo.toml && cargo -q vendor > /dev/null && cat vendor/hello/Cargo.toml", `name = "hello"`},
	{"java", "javac", "cp /Get.java . && java Get.java", "served web.example.test HTTP/2.0"},
	{"a resolver of musl's", "/musl", "/musl", "hello"},
	{"musl's for IPv4", "/musl", "/musl web.example.test 4", "hello"},
	{"a resolver of glibc's", "/glibc", "/glibc", "hello"},
	{"glibc's for IPv4", "/glibc", "/glibc web.example.test 4", "hello"},
	{"getent for IPv4", "getent", "getent ahostsv4 web.example.test | wc -l", "3"},
}

// clientRefusals are what clients state of a name, a port and a server that no rule has: at once, each in its own words for what does not exist, and
// not in those for what may be there later, for which they wait.
var clientRefusals = []struct {
	name, needs, script, want string
}{
	{"curl", "curl", "curl -sS https://other.example.test/", "Could not resolve host"},
	{"GNU wget", "wget", "wget -nv -O - https://other.example.test/", "unable to resolve"},
	{"busybox's wget", "/bin/busybox", "busybox wget -q -O - http://other.example.test/", "bad address"},
	{"git by https", "git", "git clone -q https://other.example.test/r.git", "Could not resolve host"},
	{"ssh", "ssh", "ssh root@other.example.test echo", "Name or service not known"},
	{"bash", "bash", "bash -c 'exec 3<>/dev/tcp/other.example.test/7'", "Name or service not known"},
	{"python", "/usr/bin/python3", `/usr/bin/python3 -c 'import urllib.request as u; u.urlopen("https://other.example.test/")'`, "Name or service not known"},
	{"psql", "psql", "psql -h other.example.test -U somebody anything -c it", "Name or service not known"},
	{"redis-cli", "redis-cli", "redis-cli -h other.example.test PING", "Name or service not known"},
	{"node", "node", "node -e 'fetch(\"https://other.example.test/\").catch(e => { console.log(e.cause.code); process.exit(1) })'", "ENOTFOUND"},
	{"node's own resolver", "node", "node -e 'require(\"dns\").resolve4(\"other.example.test\", e => { console.log(e.code); process.exit(1) })'", "ENOTFOUND"},
	{"Go", "", client + " https other.example.test 443", "no such host"},
	{"a resolver of musl's", "/musl", "/musl other.example.test", "does not resolve"},
	{"curl, a port", "curl", "curl -sS https://web.example.test:8443/", "curl: ("}, // reset, which it meets while it connects or after
	{"python, a port", "/usr/bin/python3", `/usr/bin/python3 -c 'import urllib.request as u; u.urlopen("https://web.example.test:8443/")'`, "Connection reset"},
	{"node, a port", "node", "node -e 'fetch(\"https://web.example.test:8443/\").catch(e => { console.log(e.cause.code); process.exit(1) })'", "ECONNRESET"},
	{"curl, another server's name in TLS", "curl", "curl -sS -k --connect-to other.example.test:443:web.example.test:443 https://other.example.test/", "access denied"},
	{"curl, another server's name in HTTP", "curl", "curl -sSf -H 'Host: other.example.test' http://web.example.test/", "403"},
	{"curl, an address", "curl", "curl -sS -k https://" + servicesAddr + "/", "Failed to connect"},
	{"curl, IPv6", "curl", "curl -sS -6 https://web.example.test/", "curl: ("},
}

// TestClients: what people have in a jail works by name as it does in a plain container with a normal network, and nothing is set for it.
func TestClients(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	s := newServices(t, n)
	j, plain := newJail(t, n), newJail(t, n)
	env.Check(t, os.WriteFile(j.conf, []byte(clientPolicy), 0o600))
	runc, err := exec.LookPath("runc")
	if err != nil {
		t.Fatal("needs runc (hack/deps.sh installs it): ", err)
	}
	plain.c = engine.Caller{Path: runc, Args: []string{"--root", filepath.Join(plain.b.Dir, "state")}}
	// Its network is this test's.
	plain.b.Spec.Linux.Namespaces = []specs.LinuxNamespace{{Type: specs.PIDNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace}, {Type: specs.MountNamespace}}
	for _, c := range []*jail{j, plain} {
		furnish(t, c.b, s)
		c.start(t)
	}
	found := 0
	for i, c := range clients {
		if c.needs != "" && !has(plain.b.Rootfs, c.needs) {
			t.Logf("%s: there is no %s on this machine", c.name, c.needs)
			continue
		}
		found++
		script := fmt.Sprintf("mkdir /tmp/%d && cd /tmp/%[1]d && ", i) +
			strings.NewReplacer("REPO", s.dir+"/git/r.git", "FILES", s.dir+"/files").Replace(c.script)
		var got, want string
		var took [2]time.Duration
		var both sync.WaitGroup
		both.Go(func() { got, took[0] = j.output(t, script) })
		both.Go(func() { want, took[1] = plain.output(t, script) })
		both.Wait()
		t.Logf("%s: %v by name, %v in a plain container", c.name, took[0].Round(time.Millisecond), took[1].Round(time.Millisecond))
		if !strings.Contains(want, c.want) {
			t.Errorf("%s: in a plain container: %q, want %q", c.name, want, c.want)
		}
		if got != want {
			t.Errorf("%s: %q, in a plain container: %q", c.name, got, want)
		}
	}
	if found < fewestClients {
		t.Errorf("%d clients are on this machine, and with what hack/deps.sh installs there are at least %d", found, fewestClients)
	}
	for i, c := range clientRefusals {
		if c.needs != "" && !has(plain.b.Rootfs, c.needs) {
			continue
		}
		got, took := j.output(t, fmt.Sprintf("mkdir /tmp/refused%d && cd /tmp/refused%[1]d && %s", i, c.script))
		t.Logf("refused: %s: %v", c.name, took.Round(time.Millisecond))
		if !strings.Contains(got, c.want) || !strings.Contains(got, "exit status") {
			t.Errorf("refused: %s: %q, want %q", c.name, got, c.want)
		}
	}
	if out, code := j.inspect(t); code != 0 {
		t.Errorf("inspect: %d\n%s", code, out)
	}
}

// has reports whether a container that has this machine's /usr has a program or a file.
func has(rootfs, what string) bool {
	for _, at := range []string{what, rootfs + what, "/usr/local/go/bin/" + what, "/usr/local/bin/" + what, "/usr/bin/" + what} {
		if _, err := os.Stat(at); err == nil && filepath.IsAbs(at) {
			return true
		}
	}
	return false
}

// output runs a script, and returns what it prints.
func (j *jail) output(t *testing.T, script string) (string, time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	began := time.Now()
	out, err := j.b.Command(ctx, j.c, "exec", j.id, "sh", "-c", script).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s%v", out, err), time.Since(began)
	}
	return string(out), time.Since(began)
}

// furnish makes a root file system of this machine's programs, with the configuration that a person's image would have.
func furnish(t *testing.T, b *engine.Bundle, s *services) {
	t.Helper()
	env.Check(t, errors.Join(skeleton(b.Rootfs), configure(b.Rootfs, s)))
	b.Spec.Mounts = append(b.Spec.Mounts, specs.Mount{Destination: "/usr", Type: "bind", Source: "/usr", Options: []string{"rbind", "ro"}})
	b.Spec.Process.Env = []string{"PATH=/opt/bin:/usr/local/go/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}
}

// skeleton makes a root file system around /usr, in place of what is there.
func skeleton(root string) error {
	for _, name := range []string{"bin", "sbin", "lib", "lib64", "usr"} {
		if err := os.RemoveAll(filepath.Join(root, name)); err != nil {
			return err
		}
		if to, err := os.Readlink("/" + name); err == nil {
			if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
				return err
			}
		}
	}
	for _, dir := range []string{
		"usr", "opt/bin", "root/.ssh", "root/.config/go", "root/.cargo", "etc/ssl/certs", "etc/apt/apt.conf.d", "etc/apt/preferences.d", "etc/apt/sources.list.d",
		"etc/apt/trusted.gpg.d", "var/lib/dpkg", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "run",
	} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	for _, path := range []string{"/etc/alternatives", "/etc/ld.so.cache", "/etc/java-17-openjdk", "/etc/java-21-openjdk", "/etc/postgresql-common"} {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if out, err := exec.Command("cp", "-a", path, filepath.Join(root, "etc")).CombinedOutput(); err != nil {
			return fmt.Errorf("cp %s: %w: %s", path, err, out)
		}
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(root, "tmp")), os.Mkdir(filepath.Join(root, "tmp"), 0o700)); err != nil {
		return err
	}
	return os.Chmod(filepath.Join(root, "tmp"), 0o1777)
}

// configure writes what a person's image would have of settings: the authority, and where each tool finds its index.
func configure(root string, s *services) error {
	key, err := os.ReadFile(filepath.Join(s.dir, "user_key"))
	if err != nil {
		return err
	}
	hostKey, err := os.ReadFile(filepath.Join(s.dir, "host_key.pub"))
	if err != nil {
		return err
	}
	files := map[string]string{
		"ca.pem": string(s.ca), "etc/ssl/certs/ca-certificates.crt": string(s.ca), "etc/ssl/openssl.cnf": "", "Get.java": javaGet,
		"etc/resolv.conf": "nameserver " + dnsAddr + "\n", "etc/nsswitch.conf": "hosts: files dns\n", "etc/hosts": "127.0.0.1 localhost\n",
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n",
		"etc/apt/sources.list": "deb [trusted=yes] https://apt.example.test/ ./\n", "var/lib/dpkg/status": "",
		"etc/pip.conf": "[global]\nindex-url = https://pip.example.test/simple\n", "root/.npmrc": "registry=https://npm.example.test/\ncafile=/ca.pem\n",
		"root/.config/go/env":     "GOPROXY=https://goproxy.example.test\nGOSUMDB=off\nGOTOOLCHAIN=local\n",
		"root/.cargo/config.toml": "[registries.lab]\nindex = \"sparse+https://crates.example.test/index/\"\n",
		"root/.ssh/id_ed25519":    string(key), "root/.ssh/known_hosts": "ssh.example.test " + string(hostKey),
	}
	for name, text := range files {
		mode := os.FileMode(0o644)
		if strings.HasPrefix(name, "root/") {
			mode = 0o600
		}
		at := filepath.Join(root, name)
		if err := errors.Join(os.RemoveAll(at), os.WriteFile(at, []byte(text), mode)); err != nil {
			return err
		}
	}
	// A library that looks for an authority in a directory looks by this name.
	hash, err := exec.Command("openssl", "x509", "-noout", "-hash", "-in", filepath.Join(root, "ca.pem")).Output()
	if err == nil {
		err = os.Symlink("/ca.pem", filepath.Join(root, "etc/ssl/certs", strings.TrimSpace(string(hash))+".0"))
	}
	return errors.Join(err, compile(root), copyCargo(root))
}

// compile makes a client of each C library that there is.
func compile(root string) error {
	for name, compiler := range map[string][]string{"musl": {"musl-gcc", "-static"}, "glibc": {"gcc"}} {
		if _, err := exec.LookPath(compiler[0]); err != nil {
			continue
		}
		cmd := exec.Command(compiler[0], append(compiler[1:], "-o", filepath.Join(root, name), "-x", "c", "-")...)
		cmd.Stdin = strings.NewReader(cClient)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", compiler[0], err, out)
		}
	}
	return nil
}

// copyCargo copies Rust's package manager, which rustup keeps in root's home, or links to the distribution's.
func copyCargo(root string) error {
	at := filepath.Join(root, "opt/bin/cargo")
	out, err := exec.Command("rustup", "which", "cargo").Output()
	if err != nil {
		if _, err := os.Stat("/usr/bin/cargo"); err == nil {
			return os.Symlink("/usr/bin/cargo", at)
		}
		return nil
	}
	text, err := os.ReadFile(strings.TrimSpace(string(out)))
	if err != nil {
		return err
	}
	return os.WriteFile(at, text, 0o755)
}
