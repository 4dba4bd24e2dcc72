package workloads

import "strings"

const pythonCore = `cat > t.py <<'EOF'
import ctypes, os, subprocess, sys, tempfile, threading, time, unittest, shutil, pathlib, json, re, hashlib, random, collections, signal, queue, zlib, glob, stat
class T(unittest.TestCase):
    def test_files(self):
        d = tempfile.mkdtemp()
        p = pathlib.Path(d, "a"); p.mkdir(); (p / "f").write_text("x" * 100000)
        shutil.copytree(p, pathlib.Path(d, "b")); shutil.move(str(p), d + "/c")
        self.assertEqual(sorted(os.listdir(d)), ["b", "c"])
        os.rename(d + "/b", d + "/e"); os.chmod(d + "/e/f", 0o600); self.assertEqual(stat.S_IMODE(os.stat(d + "/e/f").st_mode), 0o600)
        os.utime(d + "/e/f", (1, 2)); self.assertEqual(os.stat(d + "/e/f").st_mtime, 2)
        with open(d + "/e/f", "r+b") as f: f.truncate(3); f.flush(); os.fsync(f.fileno())
        self.assertEqual([r[0] for r in os.walk(d)][0], d)
        shutil.rmtree(d)
    def test_subprocess(self):
        self.assertEqual(subprocess.check_output(["sh", "-c", "echo out; exit 0"]), b"out\n")
        self.assertEqual(subprocess.run(["sh", "-c", "exit 3"]).returncode, 3)
        with self.assertRaises(subprocess.TimeoutExpired): subprocess.run(["sleep", "1000"], timeout=0.2)
        p = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE); self.assertEqual(p.communicate(b"x" * 200000)[0], b"x" * 200000)
    def test_threads(self):
        q = queue.Queue(); ts = [threading.Thread(target=q.put, args=(i,)) for i in range(20)]
        [t.start() for t in ts]; [t.join() for t in ts]
        self.assertEqual(sorted(q.get() for _ in range(20)), list(range(20)))
    def test_signal(self):
        got = []; signal.signal(signal.SIGUSR1, lambda *a: got.append(1)); os.kill(os.getpid(), signal.SIGUSR1); time.sleep(0.05); self.assertEqual(got, [1])
    def test_misc(self):
        self.assertEqual(hashlib.sha256(b"x").hexdigest()[:4], "2d71"); self.assertGreater(len(os.urandom(8)), 7)
        r, w = os.pipe(); pid = os.fork()
        if pid == 0: os.write(w, b"hi"); os._exit(4)
        self.assertEqual(os.read(r, 2), b"hi"); self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 4)
unittest.main(argv=["t", "-v"])
EOF
python3 t.py 2>&1 | sed 's/in [0-9.]*s/in TIME/'; python3 -c 'print(sum(range(10**6)))'; echo '{"a":1}' | python3 -m json.tool`

// pythonStrict is pythonCore without truncating and syncing.
var pythonStrict = strings.Replace(pythonCore, `with open(d + "/e/f", "r+b") as f: f.truncate(3); f.flush(); os.fsync(f.fileno())`, "", 1)

const pythonNet = `cat > n.py <<'EOF'
import asyncio, concurrent.futures, http.client, http.server, mmap, multiprocessing, os, select, selectors, shutil, socket, socketserver, sqlite3, ssl, subprocess, sys, tempfile, threading, time, resource, fcntl, pty, termios, struct, array
def square(x): return x * x
async def main():
    async def echo(r, w):
        w.write(await r.read(100)); await w.drain(); w.close()
    s = await asyncio.start_server(echo, "127.0.0.1", 0)
    r, w = await asyncio.open_connection(*s.sockets[0].getsockname()); w.write(b"ping"); w.write_eof(); print(await r.read())
    u = await asyncio.start_unix_server(echo, "/tmp/u.sock")
    r, w = await asyncio.open_unix_connection("/tmp/u.sock"); w.write(b"unix"); w.write_eof(); print(await r.read())
    p = await asyncio.create_subprocess_exec("echo", "child", stdout=subprocess.PIPE); print(await p.communicate())
    print(await asyncio.get_running_loop().run_in_executor(None, square, 7))
    print(sorted(t[4][0] for t in await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80, type=socket.SOCK_STREAM)))
if __name__ == "__main__":
    asyncio.run(main())
    with multiprocessing.Pool(2) as p: print(p.map(square, range(5)))
    with concurrent.futures.ProcessPoolExecutor(2) as e: print(list(e.map(square, range(3))))
    m = multiprocessing.Manager(); l = m.list([1, 2]); l.append(3); print(list(l))
    a = multiprocessing.Array("i", 3); a[0] = 5; print(a[:])
    c = sqlite3.connect("/tmp/x.db"); c.execute("pragma journal_mode=wal"); c.execute("create table t(a)"); c.executemany("insert into t values(?)", [(i,) for i in range(1000)]); c.commit(); print(c.execute("select sum(a) from t").fetchone()); c.close()
    s1, s2 = socket.socketpair(); socket.send_fds(s1, [b"fd"], [1]); print(socket.recv_fds(s2, 9, 1)[0])
    d = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); d.bind(("127.0.0.1", 0)); d.sendto(b"udp", d.getsockname()); print(d.recvfrom(9)[0])
    six = socket.socket(socket.AF_INET6, socket.SOCK_STREAM); six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1); print(six.family)
    t = socket.socket(); t.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1); t.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1); t.settimeout(1); print(t.connect_ex(("127.0.0.1", 1)))
    print([n for _, n in socket.if_nameindex()])
    h = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler); h.RequestHandlerClass.log_message = lambda *a: None
    threading.Thread(target=h.serve_forever, daemon=True).start(); k = http.client.HTTPConnection(*h.server_address); k.request("GET", "/n.py"); print(k.getresponse().status); h.shutdown()
    mm = mmap.mmap(-1, 8192); mm[:3] = b"abc"; mm.resize(16384); print(mm[:3]); f = open("/tmp/mm", "w+b"); f.truncate(4096); fm = mmap.mmap(f.fileno(), 4096); fm[0] = 65; fm.flush(); print(open("/tmp/mm", "rb").read(1))
    fcntl.lockf(f, fcntl.LOCK_EX); fcntl.flock(f, fcntl.LOCK_EX); print(resource.getrlimit(resource.RLIMIT_CORE) is not None); resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    e = select.epoll(); e.register(s2, select.EPOLLIN); s1.send(b"x"); print(len(e.poll(1))); print(len(select.select([s2], [], [], 1)[0])); po = select.poll(); po.register(s2); print(len(po.poll(100)))
    pid, fd = pty.fork()
    if pid == 0: os.write(1, b"tty %d\n" % os.isatty(0)); os._exit(0)
    print(os.read(fd, 99)); os.waitpid(pid, 0)
    open("/tmp/big", "wb").write(b"z" * 3000000); shutil.copyfile("/tmp/big", "/tmp/big2"); print(os.path.getsize("/tmp/big2")); shutil.copy2("/tmp/big", "/tmp/big3"); shutil.copystat("/tmp/big", "/tmp/big2")
    print(ssl.create_default_context() is not None, os.sched_getaffinity(0) is not None, os.cpu_count() > 0, os.getloadavg() is not None, time.get_clock_info("monotonic").monotonic)
    os.mkfifo("/tmp/ff"); os.link("/tmp/ff", "/tmp/fg"); os.symlink("ff", "/tmp/fh"); print(os.readlink("/tmp/fh")); os.setpriority(os.PRIO_PROCESS, 0, 19); print(os.getpriority(os.PRIO_PROCESS, 0)); fd = os.memfd_create("m"); os.write(fd, b"1"); os.close(fd)
    os.umask(0o77); os.mkdir("/tmp/dd"); print(oct(os.stat("/tmp/dd").st_mode)); print(os.getpgid(0) == os.getpgrp(), os.getsid(0) >= 0 if hasattr(os, "zz") else "")
EOF
python3 n.py 2>&1`

const nodeWork = `cat > n.js <<'EOF'
const fs=require("fs"),http=require("http"),net=require("net"),os=require("os"),path=require("path"),cp=require("child_process"),zlib=require("zlib"),crypto=require("crypto"),dgram=require("dgram"),{Worker,isMainThread,parentPort}=require("worker_threads");
if(!isMainThread){parentPort.postMessage("worker");}else{(async()=>{
 const p=fs.promises; await p.mkdir("/tmp/d/e",{recursive:true}); await p.writeFile("/tmp/d/f","x".repeat(100000)); await p.copyFile("/tmp/d/f","/tmp/d/g"); await p.cp("/tmp/d","/tmp/h",{recursive:true}); console.log((await p.readdir("/tmp/h")).sort());
 await p.rename("/tmp/d/g","/tmp/d/i"); await p.chmod("/tmp/d/i",0o600); console.log(((await p.stat("/tmp/d/i")).mode&0o777).toString(8)); await p.truncate("/tmp/d/i",5); await p.symlink("i","/tmp/d/l"); console.log(await p.readlink("/tmp/d/l"),await p.realpath("/tmp/d/l")); await p.utimes("/tmp/d/i",1,2); fs.fsyncSync(fs.openSync("/tmp/d/i","r+"));
 fs.writevSync(fs.openSync("/tmp/d/v","w"),[Buffer.from("a"),Buffer.from("b")]); console.log(fs.readFileSync("/tmp/d/v","utf8")); await p.rm("/tmp/h",{recursive:true}); console.log(fs.existsSync("/tmp/h"));
 await new Promise(r=>{const w=fs.watch("/tmp/d",(e,n)=>{console.log("watch",n);w.close();r()}); setTimeout(()=>fs.writeFileSync("/tmp/d/w","1"),50)});
 await new Promise(r=>new Worker(__filename).on("message",m=>{console.log(m)}).on("exit",r));
 console.log(cp.execSync("echo sync").toString().trim(),cp.spawnSync("sh",["-c","exit 5"]).status); await new Promise(r=>cp.exec("cat /proc/self/comm",(e,o)=>{console.log(o.trim());r()}));
 await new Promise(r=>{const c=cp.fork("-e",["process.send(1)"],{execArgv:[]}); c.on("error",()=>{}); c.on("exit",()=>r())}).catch(()=>{});
 const s=http.createServer((q,a)=>{q.pipe(a)}).listen(0,"127.0.0.1",async()=>{
  const f=await fetch("http://127.0.0.1:"+s.address().port,{method:"POST",body:"body"}); console.log(f.status,await f.text()); s.close(); s.closeAllConnections&&s.closeAllConnections();
  const u=net.createServer(c=>c.end("unix")).listen("/tmp/n.sock",()=>net.connect("/tmp/n.sock").on("data",d=>{console.log(d.toString());u.close();
   const d1=dgram.createSocket("udp4"); d1.on("message",m=>{console.log(m.toString());d1.close();}); d1.bind(0,"127.0.0.1",()=>d1.send("udp",d1.address().port,"127.0.0.1"));
  }));
 });
 console.log(Object.keys(os.networkInterfaces()),os.cpus().length>0,os.hostname(),os.getPriority(),zlib.gunzipSync(zlib.gzipSync("z")).toString(),crypto.createHash("md5").update("x").digest("hex"),process.memoryUsage().rss>0,process.resourceUsage().userCPUTime>=0); os.setPriority(1); 
 fs.createReadStream("/tmp/d/f").pipe(zlib.createGzip()).pipe(fs.createWriteStream("/tmp/d/z")).on("finish",()=>console.log("piped"));
 require("dns").lookup("localhost",{family:4},(e,a)=>console.log("dns",e&&e.code,a));
 console.log(await p.statfs("/tmp").then(x=>x.bsize>0)); process.title="t"; console.log(process.getuid(),process.umask().toString(8));
})()}
EOF
node n.js 2>&1 | sort; echo 'const t=require("node:test");t("a",()=>{})' > a.test.js; node --test a.test.js 2>&1 | grep -E '^(#|ℹ) (pass|fail)'`

// goWork vets a package that imports nothing: of one that does, go vet reads every package below.
const goWork = `set -eu; export GOPATH=/tmp/gp CGO_ENABLED=0; mkdir m; cd m; printf 'module m\n\ngo 1.20\n' > go.mod; cat > main.go <<'EOF'
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

func main() {
	var wg sync.WaitGroup
	for i := 0; i < 50; i++ {
		wg.Add(1)
		go func() { defer wg.Done(); os.ReadFile("/proc/self/stat") }()
	}
	wg.Wait()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }))
	r, err := http.Post(s.URL, "text/plain", bytes.NewReader([]byte("body")))
	if err != nil { panic(err) }
	b, _ := io.ReadAll(r.Body)
	fmt.Println(string(b))
	os.WriteFile("/tmp/f", bytes.Repeat([]byte("f"), 1<<20), 0o644)
	r2, err := http.Get(func() string { return httptest.NewServer(http.FileServer(http.Dir("/tmp"))).URL + "/f" }())
	if err != nil { panic(err) }
	n, err := io.Copy(io.Discard, r2.Body)
	fmt.Println(n, err)
	// TCP to TCP: splice on Linux.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil { panic(err) }
	go func() { c, _ := l.Accept(); d, _ := l.Accept(); io.Copy(d, c); d.Close() }()
	c, _ := net.Dial("tcp", l.Addr().String())
	d, _ := net.Dial("tcp", l.Addr().String())
	go func() { c.Write(bytes.Repeat([]byte("x"), 100000)); c.Close() }()
	n, err = io.Copy(io.Discard, d)
	fmt.Println(n, err)
	os.Remove("/tmp/gu") // it runs twice
	u, err := net.Listen("unix", "/tmp/gu")
	if err != nil { panic(err) }
	go func() { c, _ := u.Accept(); io.Copy(c, c); c.Close() }()
	uc, _ := net.Dial("unix", "/tmp/gu")
	uc.Write([]byte("unix")); uc.(*net.UnixConn).CloseWrite()
	b, _ = io.ReadAll(uc)
	fmt.Println(string(b))
	p, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil { panic(err) }
	p.WriteTo([]byte("udp"), p.LocalAddr()); buf := make([]byte, 9); n2, _, _ := p.ReadFrom(buf); fmt.Println(string(buf[:n2]))
	ifs, err := net.Interfaces()
	fmt.Println(len(ifs), err)
	a, err := net.DefaultResolver.LookupHost(context.Background(), "localhost")
	fmt.Println(len(a) > 0, err)
	out, err := exec.Command("sh", "-c", "echo child; exit 2").Output()
	fmt.Println(string(out), err)
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	fmt.Println(exec.CommandContext(ctx, "sleep", "1000").Run())
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGUSR1)
	syscall.Kill(os.Getpid(), syscall.SIGUSR1)
	fmt.Println(<-ch)
	src, _ := os.Open("/tmp/f"); dst, _ := os.Create("/tmp/g"); n, err = io.Copy(dst, src); fmt.Println(n, err)
	filepath.WalkDir("/tmp/m", func(p string, d os.DirEntry, err error) error { fmt.Println(p); return err })
	fmt.Println(os.Chmod("/tmp/g", 0o600), os.Rename("/tmp/g", "/tmp/h"), os.RemoveAll("/tmp/h"), os.Mkdir("/tmp/k", 0o700), os.Truncate("/tmp/f", 3), os.Chtimes("/tmp/f", time.Unix(1, 0), time.Unix(1, 0)), os.Link("/tmp/f", "/tmp/ln"), os.Symlink("f", "/tmp/sl"))
	proc, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
	if err != nil { panic(err) }
	st, err := proc.Wait()
	fmt.Println(st, err)
}
EOF
printf 'package main\nimport "testing"\nfunc TestA(t *testing.T) { t.TempDir() }\n' > a_test.go; mkdir -p v; printf 'package v\n\nfunc f(x int) { x = x }\n' > v/v.go; go vet ./v 2>&1 || echo "vet $?"; go build -o x . && ./x; go test -vet=off -count=1 . 2>&1 | sed 's/[0-9.]*s$//'; gofmt -l main.go; go run . | tail -1; go list -deps . | grep -c net`

// javaWork has the datagrams by which Gradle's daemon and its clients find one another, and multicasts.
const javaWork = `set -eu; cat > A.java <<'EOF'
import java.net.*; import java.nio.channels.*; import java.nio.file.*; import java.util.concurrent.*;
public class A { public static void main(String[] a) throws Exception {
 ServerSocket s = new ServerSocket(0); new Thread(() -> { try { Socket c = s.accept(); c.getOutputStream().write("tcp\n".getBytes()); c.close(); } catch (Exception e) { } }).start();
 System.out.print(new String(new Socket("127.0.0.1", s.getLocalPort()).getInputStream().readAllBytes()));
 Files.writeString(Path.of("/tmp/j"), "x"); Files.copy(Path.of("/tmp/j"), Path.of("/tmp/k")); System.out.println(FileSystems.getDefault().newWatchService() != null);
 System.out.print(new String(new ProcessBuilder("echo", "child").start().getInputStream().readAllBytes()));
 ExecutorService e = Executors.newFixedThreadPool(4); System.out.println(e.submit(() -> 6 * 7).get()); e.shutdown(); System.gc();
 byte[] b = "datagram".getBytes(); InetAddress here = InetAddress.getLoopbackAddress(), group = InetAddress.getByName("224.0.0.251"); NetworkInterface lo = NetworkInterface.getByName("lo");
 DatagramSocket to = new DatagramSocket(0, here); new DatagramSocket().send(new DatagramPacket(b, b.length, here, to.getLocalPort())); DatagramPacket p = new DatagramPacket(new byte[99], 99); to.receive(p); System.out.println(new String(p.getData(), 0, p.getLength()));
 MulticastSocket m = new MulticastSocket(); m.setTimeToLive(3); m.setNetworkInterface(lo); m.setOption(StandardSocketOptions.IP_MULTICAST_LOOP, true); m.send(new DatagramPacket(b, b.length, group, 5353)); System.out.println(m.getTimeToLive());
 for (ProtocolFamily f : new ProtocolFamily[] { StandardProtocolFamily.INET, StandardProtocolFamily.INET6 }) { DatagramChannel c = DatagramChannel.open(f); c.setOption(StandardSocketOptions.IP_MULTICAST_IF, lo).setOption(StandardSocketOptions.IP_MULTICAST_TTL, 4); System.out.println(f + " " + c.getOption(StandardSocketOptions.IP_MULTICAST_TTL)); }
} }
EOF
java A.java`

// groupSenders sets each option of a sender of multicasts, by name in node and by number in python.
const groupSenders = `set -eu; cat > g.js <<'EOF'
const dgram = require("dgram");
for (const [type, lo] of [["udp4", "127.0.0.1"], ["udp6", "::%lo"]]) { const s = dgram.createSocket({ type, reuseAddr: true }); s.bind(0, () => { s.setMulticastInterface(lo); s.setMulticastTTL(255); s.setMulticastLoopback(true); s.setTTL(9); s.setBroadcast(true); console.log(type); s.close(); }); }
const s = dgram.createSocket("udp4"); s.bind(0, () => { s.setMulticastInterface("127.0.0.1"); s.send("x", 5353, "224.0.0.251", (e, n) => { console.log(e, n); s.close(); }); });
EOF
node g.js | sort; python3 -c '
import socket as s
for family, level, options in (s.AF_INET, s.IPPROTO_IP, (32, 33, 34, 49, 50)), (s.AF_INET6, s.IPPROTO_IPV6, (16, 17, 18, 19, 29, 62, 76)):
    x = s.socket(family, s.SOCK_DGRAM)
    for o in options: x.setsockopt(level, o, x.getsockopt(level, o, 4))
    print(family.name, len(options))'`

// serviceDiscovery announces a service. What is found depends on joining the group.
const serviceDiscovery = `cat > z.py <<'EOF'
import socket, zeroconf
z = zeroconf.Zeroconf(interfaces=["127.0.0.1"]); z.register_service(zeroconf.ServiceInfo("_http._tcp.local.", "a._http._tcp.local.", addresses=[socket.inet_aton("127.0.0.1")], port=80)); print("registered"); z.close()
try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("224.0.0.251") + socket.inet_aton("127.0.0.1")); print("joined")
except OSError as e: print(e)
EOF
python3 z.py 2>&1`
