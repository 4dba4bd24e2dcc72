package names

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"agentjail.dev/tests/env"
)

// servicesAddr is where the servers of TestClients are.
const servicesAddr = "5.5.5.20"

// sites are their names.
var sites = []string{"web", "git", "ssh", "db", "cache", "files", "rpc", "apt", "pip", "npm", "goproxy", "crates"}

func init() {
	for _, s := range sites {
		zone[s+".example.test."] = [4]byte{5, 5, 5, 20}
	}
}

// services are the servers of a network, and the files that they serve.
type services struct {
	dir  string // a directory for each site, and what belongs to the servers
	ca   []byte // PEM
	cert tls.Certificate
}

// newServices makes them.
func newServices(t *testing.T, n *internet) *services {
	t.Helper()
	s := &services{dir: t.TempDir()}
	s.certificates(t)
	for _, err := range []error{s.repositories(), s.packages(), s.sshd()} {
		env.Check(t, err)
	}
	n.do(func() error {
		if err := env.IP("addr add " + servicesAddr + "/24 dev net"); err != nil {
			return err
		}
		return s.listen(t)
	})
	return s
}

// certificates makes an authority, and a certificate for the sites as a public one would give it.
func (s *services) certificates(t *testing.T) {
	t.Helper()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the lab's authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, SubjectKeyId: []byte("authority"),
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "web.example.test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, site := range sites {
		leaf.DNSNames = append(leaf.DNSNames, site+".example.test")
	}
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	env.Check(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	env.Check(t, err)
	root, err := x509.CreateCertificate(rand.Reader, authority, authority, rootKey.Public(), rootKey)
	env.Check(t, err)
	der, err := x509.CreateCertificate(rand.Reader, leaf, authority, key.Public(), rootKey)
	env.Check(t, err)
	s.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root})
	s.cert = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// listen starts the servers in the calling thread's namespace.
func (s *services) listen(t *testing.T) error {
	open := func(port int) (net.Listener, error) {
		l, err := listen(servicesAddr, strconv.Itoa(port))
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return l, err
	}
	for port, serve := range map[int]func(net.Listener){
		80: func(l net.Listener) { _ = http.Serve(l, s) },
		443: func(l net.Listener) {
			_ = http.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{s.cert}, NextProtos: []string{"h2", "http/1.1"}}), s)
		},
		7: each(greet),
		22: inetd(func() *exec.Cmd {
			return exec.Command("/usr/sbin/sshd", "-i", "-e", "-f", filepath.Join(s.dir, "sshd_config"))
		}),
		873: inetd(func() *exec.Cmd {
			return exec.Command("rsync", "--daemon", "--config="+filepath.Join(s.dir, "rsyncd.conf"))
		}),
		9418: inetd(func() *exec.Cmd {
			return exec.Command("git", "daemon", "--inetd", "--export-all", "--base-path="+filepath.Join(s.dir, "git"))
		}),
		5432: each(postgres),
		6379: each(redis),
		50051: func(l net.Listener) {
			g := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&s.cert)))
			grpc_health_v1.RegisterHealthServer(g, health.NewServer())
			_ = g.Serve(l)
		},
	} {
		l, err := open(port)
		if err != nil {
			return err
		}
		go serve(l)
	}
	return nil
}

// ServeHTTP serves the sites' files, and at web what is no file.
func (s *services) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	site, _, _ := strings.Cut(r.Host, ".")
	switch {
	case site == "git":
		(&cgi.Handler{
			Path: "/usr/lib/git-core/git-http-backend", Root: "/",
			Env: []string{"GIT_PROJECT_ROOT=" + filepath.Join(s.dir, "git"), "GIT_HTTP_EXPORT_ALL=1"},
		}).ServeHTTP(w, r)
	case site != "web":
		http.FileServer(http.Dir(filepath.Join(s.dir, site))).ServeHTTP(w, r)
	case r.URL.Path == "/events":
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 5 {
			fmt.Fprintf(w, "data: token %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
		}
	case r.URL.Path == "/ws":
		websocket.Server{Handler: func(c *websocket.Conn) { _, _ = io.Copy(c, c) }}.ServeHTTP(w, r)
	case r.Method == http.MethodPost:
		sum := sha256.New()
		n, _ := io.Copy(sum, r.Body)
		fmt.Fprintf(w, "%d bytes, %x\n", n, sum.Sum(nil)[:4])
	default:
		fmt.Fprintf(w, "served %s %s\n", r.Host, r.Proto)
	}
}

// inetd gives each connection to a program of its own, as its standard input and output.
func inetd(program func() *exec.Cmd) func(net.Listener) {
	return each(func(c net.Conn) {
		f, err := c.(*net.TCPConn).File()
		c.Close()
		if err != nil {
			return
		}
		defer f.Close()
		cmd := program()
		cmd.Stdin, cmd.Stdout = f, f
		_ = cmd.Run()
	})
}

// each serves each connection.
func each(serve func(net.Conn)) func(net.Listener) {
	return func(l net.Listener) { env.Serve(l, serve) }
}

// postgres is as much of PostgreSQL's protocol 3.0 as a client needs for one row: it refuses encryption, and lets everybody in.
func postgres(c net.Conn) {
	r := bufio.NewReader(c)
	message := func(kind byte, body string) {
		_, _ = c.Write(append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4)), body...))
	}
	read := func() ([]byte, error) {
		var size [4]byte
		if _, err := io.ReadFull(r, size[:]); err != nil {
			return nil, err
		}
		n := binary.BigEndian.Uint32(size[:])
		if n < 4 || n > 1<<16 {
			return nil, errors.New("no message")
		}
		body := make([]byte, n-4)
		_, err := io.ReadFull(r, body)
		return body, err
	}
	for {
		body, err := read()
		if err != nil || len(body) < 4 {
			return
		}
		if binary.BigEndian.Uint32(body) == 3<<16 {
			break
		}
		_, _ = c.Write([]byte{'N'}) // neither TLS nor GSSAPI
	}
	message('R', "\x00\x00\x00\x00")
	message('S', "server_version\x0015.0\x00")
	message('S', "client_encoding\x00UTF8\x00")
	message('Z', "I")
	for {
		kind, err := r.ReadByte()
		if err != nil || kind != 'Q' {
			return
		}
		if _, err := read(); err != nil {
			return
		}
		message('T', "\x00\x01answer\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x19\xff\xff\xff\xff\xff\xff\x00\x00")
		message('D', "\x00\x01\x00\x00\x00\x08a row it")
		message('C', "SELECT 1\x00")
		message('Z', "I")
	}
}

// redis answers PING, and the length of what is to be kept.
func redis(c net.Conn) {
	r := bufio.NewReader(c)
	line := func() (int, error) {
		text, err := r.ReadString('\n')
		if err != nil || len(text) < 2 {
			return 0, errors.New("no line")
		}
		return strconv.Atoi(strings.TrimSpace(text[1:]))
	}
	for {
		n, err := line()
		if err != nil || n < 1 || n > 100 {
			return
		}
		words := make([]string, n)
		for i := range words {
			size, err := line()
			if err != nil || size < 0 || size > 1<<20 {
				return
			}
			word := make([]byte, size+2)
			if _, err := io.ReadFull(r, word); err != nil {
				return
			}
			words[i] = string(word[:size])
		}
		switch strings.ToUpper(words[0]) {
		case "PING":
			_, err = io.WriteString(c, "+PONG\r\n")
		case "SET":
			_, err = fmt.Fprintf(c, ":%d\r\n", len(words[len(words)-1]))
		default:
			_, err = io.WriteString(c, "-ERR unknown command\r\n")
		}
		if err != nil {
			return
		}
	}
}

// repositories makes a repository of git's and a directory for rsync.
func (s *services) repositories() error {
	script := `set -eu
		export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.test GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.test
		export GIT_AUTHOR_DATE=2001-01-01T00:00:00Z GIT_COMMITTER_DATE=2001-01-01T00:00:00Z
		git init -q -b main work; cd work; seq 2000 > numbers; git add .; git commit -qm first; cd ..
		git clone -q --bare work git/r.git; git -C git/r.git config uploadpack.allowFilter true
		mkdir files; seq 3000 > files/numbers`
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = s.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make a repository: %w: %s", err, out)
	}
	conf := "use chroot = no\n[files]\npath = " + filepath.Join(s.dir, "files") + "\nread only = yes\nuid = 0\ngid = 0\n"
	return os.WriteFile(filepath.Join(s.dir, "rsyncd.conf"), []byte(conf), 0o600)
}

// sshd makes keys, and a configuration of a server that lets root in with one of them.
func (s *services) sshd() error {
	for _, name := range []string{"host_key", "user_key"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(s.dir, name)).CombinedOutput(); err != nil {
			return fmt.Errorf("ssh-keygen: %w: %s", err, out)
		}
	}
	conf := fmt.Sprintf("HostKey %[1]s/host_key\nAuthorizedKeysFile %[1]s/user_key.pub\nStrictModes no\nUsePAM no\nUseDNS no\nPermitRootLogin yes\nPrintMotd no\nSubsystem sftp internal-sftp\n", s.dir)
	return errors.Join(os.MkdirAll("/run/sshd", 0o755), os.WriteFile(filepath.Join(s.dir, "sshd_config"), []byte(conf), 0o600))
}

// packages makes a package for each index, and the index.
func (s *services) packages() error {
	wheel := zipped("hello.py", "print('hello from a wheel')\n",
		"hello-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n",
		"hello-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: lab\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"hello-1.0.dist-info/RECORD", "hello.py,,\nhello-1.0.dist-info/METADATA,,\nhello-1.0.dist-info/WHEEL,,\nhello-1.0.dist-info/RECORD,,\n")
	module := zipped("example.test/hello@v1.0.0/go.mod", "module example.test/hello\n", "example.test/hello@v1.0.0/hello.go", "package hello\n")
	node := tarred("package/package.json", `{"name":"hello","version":"1.0.0"}`, "package/index.js", "console.log('hello from a package')\n")
	crate := tarred("hello-1.0.0/Cargo.toml", "[package]\nname = \"hello\"\nversion = \"1.0.0\"\n", "hello-1.0.0/src/lib.rs", "")
	sum := sha256.Sum256(crate)
	integrity := sha256.Sum256(node)
	deb := []byte("not looked into")
	debSum := sha256.Sum256(deb)
	for name, text := range map[string][]byte{
		"pip/simple/hello/index.html":               []byte(`<a href="/hello-1.0-py3-none-any.whl">hello-1.0-py3-none-any.whl</a>`),
		"pip/hello-1.0-py3-none-any.whl":            wheel,
		"goproxy/example.test/hello/@v/list":        []byte("v1.0.0\n"),
		"goproxy/example.test/hello/@v/v1.0.0.info": []byte(`{"Version":"v1.0.0","Time":"2001-01-01T00:00:00Z"}`),
		"goproxy/example.test/hello/@v/v1.0.0.mod":  []byte("module example.test/hello\n"),
		"goproxy/example.test/hello/@v/v1.0.0.zip":  module,
		"npm/hello": fmt.Appendf(nil, `{"name":"hello","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"hello","version":"1.0.0","dist":{"tarball":"https://npm.example.test/files/hello-1.0.0.tgz","integrity":"sha256-%s"}}}}`,
			base64.StdEncoding.EncodeToString(integrity[:])),
		"npm/files/hello-1.0.0.tgz":   node,
		"crates/index/config.json":    []byte(`{"dl":"https://crates.example.test/dl/{crate}-{version}.crate"}`),
		"crates/index/he/ll/hello":    fmt.Appendf(nil, `{"name":"hello","vers":"1.0.0","deps":[],"cksum":"%s","features":{},"yanked":false}`+"\n", hex.EncodeToString(sum[:])),
		"crates/dl/hello-1.0.0.crate": crate,
		"apt/Packages":                fmt.Appendf(nil, "Package: hello-lab\nVersion: 1.0\nArchitecture: all\nMaintainer: tests\nFilename: ./hello.deb\nSize: %d\nSHA256: %x\nDescription: x\n", len(deb), debSum),
		"apt/hello.deb":               deb,
	} {
		at := filepath.Join(s.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, text, 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// zipped is a zip file of names and texts, in turns.
func zipped(files ...string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		if f, err := z.Create(files[i]); err == nil {
			_, _ = io.WriteString(f, files[i+1])
		}
	}
	_ = z.Close()
	return b.Bytes()
}

// tarred is a compressed tar file of names and texts, in turns.
func tarred(files ...string) []byte {
	var b bytes.Buffer
	g := gzip.NewWriter(&b)
	a := tar.NewWriter(g)
	for i := 0; i < len(files); i += 2 {
		_ = a.WriteHeader(&tar.Header{Name: files[i], Mode: 0o644, Size: int64(len(files[i+1])), Typeflag: tar.TypeReg})
		_, _ = io.WriteString(a, files[i+1])
	}
	_ = errors.Join(a.Close(), g.Close())
	return b.Bytes()
}

// programs are clients that are part of this test, in Go and so with its own resolver: WHAT.
var programs = map[string]func() (string, error){
	"hold": func() (string, error) { // reports what it was greeted with, and when the connection ends
		c, err := net.Dial("tcp", "api.example.test:22")
		if err != nil {
			return "", err
		}
		defer c.Close()
		r := bufio.NewReader(c)
		greeting, err := r.ReadString('\n')
		if err != nil {
			return "", err
		}
		fmt.Print(greeting)
		_, err = r.ReadByte()
		return fmt.Sprint("ended: ", err), nil
	},
	"go http": func() (string, error) {
		a, err := http.Get("https://web.example.test/")
		if err != nil {
			return "", err
		}
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		return strings.TrimSpace(string(text)), err
	},
	"go grpc": func() (string, error) {
		c, err := grpc.NewClient("rpc.example.test:50051", grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{})))
		if err != nil {
			return "", err
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), clientTime)
		defer cancel()
		a, err := grpc_health_v1.NewHealthClient(c).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		return a.GetStatus().String(), err
	},
	"go websocket": func() (string, error) {
		c, err := websocket.Dial("wss://web.example.test/ws", "", "https://web.example.test/")
		if err != nil {
			return "", err
		}
		defer c.Close()
		if _, err := io.WriteString(c, "echo"); err != nil {
			return "", err
		}
		buf := make([]byte, 16)
		n, err := c.Read(buf)
		return string(buf[:n]), err
	},
}
