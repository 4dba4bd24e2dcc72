package workloads

// Reasons that several differences have.
const (
	noChown      = "container root has no CAP_CHOWN"
	noAttributes = "a jail's file systems take no attributes of its own"
	noSetuid     = "container root has no CAP_SETUID"
)

// otherUsers are the messages of what becomes another user.
var otherUsers = []Difference{
	{"1000", "sudo: PERM_SUDOERS: setresuid(-1, 1, -1): Operation not permitted", noSetuid},
	{"0", "sudo: PERM_SUDOERS: setresuid(-1, 1, -1): Operation not permitted", noSetuid},
	{"", "sudo: no valid sudoers sources found, quitting", noSetuid},
	{"", "sudo: error initializing audit plugin sudoers_audit", noSetuid},
	{"1000", `error: failed switching to "app": operation not permitted`, noSetuid},
	{"0", `error: failed switching to "root": operation not permitted`, "gosu sets the groups also where they stay"},
	{"65534", "su: cannot set groups: Operation not permitted", noSetuid},
	{"1000", "setpriv: setresuid failed: Operation not permitted", noSetuid},
	{"1000", "runuser: cannot set groups: Operation not permitted", noSetuid},
	{"1000", "chroot: cannot change root directory to '/': Function not implemented", "no jail has CAP_SYS_CHROOT"},
	{"1000", "start-stop-daemon: unable to set gid to 1000 (Operation not permitted)", noSetuid},
}

// inImage is further work, for a Debian image with its packages.
var inImage = []Work{
	{
		Name: "editors on a terminal", Needs: []string{"nano", "ed", "expect"}, Packages: []string{"nano", "ed", "expect"}, OnlyImage: true,
		Script: `set -e; printf 'a\none\ntwo\n.\n1,$s/o/0/g\nw f\nq\n' | ed -s; cat f
			export TERM=xterm; expect -c 'set timeout 20; spawn nano g; expect "GNU nano"; send "hello"; send "\x0f"; expect "Write"; send "\r"; expect "Wrote"; send "\x18"; expect eof; exit [lindex [wait] 3]' > /dev/null; echo "nano $?"; cat g`,
	},
	{
		Name: "screen", Needs: []string{"screen"}, Packages: []string{"screen"}, OnlyImage: true,
		Script: `set -e; mkdir -m 700 s; export SCREENDIR=/tmp/s; screen -dmS one sh -c 'tty -s && echo terminal > out.new; mv out.new out; sleep 60'
			for i in $(seq 400); do [ -e out ] && break; sleep 0.1; done; cat out; screen -ls | grep -c one; screen -S one -X quit; echo quit`,
	},
	{
		Name: "git over http", Needs: []string{"git", "python3"}, OnlyImage: true,
		Script: `set -eu; export GIT_AUTHOR_DATE='2001-01-01T00:00:00Z' GIT_COMMITTER_DATE='2001-01-01T00:00:00Z'; git config --global user.email a@example.org; git config --global user.name A
			git init -q -b main r; cd r; seq 1000 > f; git add f; git commit -qm one; git gc -q; git update-server-info; cd ..; python3 -m http.server --bind 127.0.0.1 8124 > /dev/null 2>&1 & p=$!
			for i in $(seq 400); do git ls-remote http://127.0.0.1:8124/r/.git 2>/dev/null && break; sleep 0.1; done; git clone -q http://127.0.0.1:8124/r/.git c; git -C c log --format='%H %s'; kill $p
			git config --global core.fsmonitor false; git -C c maintenance run --quiet; git -C c submodule status; git -C c archive HEAD | tar t; git -C c bisect start -q 2>/dev/null; git -C c rev-list --count HEAD`,
	},
	{
		Name: "tls", Needs: []string{"openssl", "python3", "curl"}, OnlyImage: true,
		Script: `set -e; openssl req -x509 -newkey rsa:2048 -nodes -keyout k -out c -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost 2>/dev/null; openssl x509 -in c -noout -subject
			printf 'import ssl, http.server\nclass H(http.server.BaseHTTPRequestHandler):\n    def do_GET(s): s.send_response(200); s.end_headers(); s.wfile.write(b"secret\\n")\n    def log_message(*a): pass\nh = http.server.HTTPServer(("127.0.0.1", 8443), H)\nx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); x.load_cert_chain("c", "k"); h.socket = x.wrap_socket(h.socket, server_side=True)\nh.serve_forever()\n' > s.py
			python3 s.py & p=$!; for i in $(seq 400); do curl -s --cacert c https://localhost:8443/ && break; sleep 0.1; done; curl -s https://localhost:8443/ || echo "untrusted $?"; kill $p; echo text | openssl enc -aes-256-cbc -pbkdf2 -pass pass:x | openssl enc -d -aes-256-cbc -pbkdf2 -pass pass:x; openssl dgst -sha512 c > /dev/null && echo digest`,
	},
	{
		Name: "pip without a network", Needs: []string{"python3"}, Packages: []string{"python3-setuptools", "python3-wheel"}, OnlyImage: true,
		Script: `set -e; python3 -m venv --system-site-packages v; mkdir -p p/pkg; echo 'def f(): return 42' > p/pkg/__init__.py
			printf 'from setuptools import setup\nsetup(name="pkg", version="1", packages=["pkg"], entry_points={"console_scripts": ["pkg-run=pkg:f"]})\n' > p/setup.py
			v/bin/pip install -q --no-index --no-build-isolation ./p 2>&1; v/bin/python -c 'import pkg, sys; print(pkg.f(), sys.prefix)'; v/bin/pkg-run || echo "status $?"; v/bin/pip list 2>/dev/null | grep pkg; v/bin/pip wheel -q --no-index --no-build-isolation --no-deps -w w ./p 2>&1; ls w; v/bin/pip uninstall -qy pkg; v/bin/pip install -q --no-index --find-links w pkg; v/bin/pip freeze | grep -c pkg; v/bin/pip download requests 2>&1 | grep -c 'No matching' || true`,
	},
	{
		Name: "pytest", Needs: []string{"python3"}, OnlyImage: true,
		Script: `set -e; printf 'import os, subprocess, pytest\n@pytest.fixture\ndef d(tmp_path): (tmp_path / "f").write_text("x"); return tmp_path\ndef test_a(d): assert (d / "f").read_text() == "x"\n@pytest.mark.parametrize("n", range(5))\ndef test_b(n, monkeypatch, capfd): monkeypatch.setenv("A", str(n)); subprocess.run(["sh", "-c", "echo $A"]); assert capfd.readouterr().out == f"{n}\\n"\ndef test_fails(): assert 1 == 2\n@pytest.mark.skip\ndef test_skipped(): pass\n' > test_x.py
			python3 -m pytest -q -p no:cacheprovider test_x.py 2>&1 | sed 's/ in [0-9.]*s//'`,
	},
	{
		Name: "numpy", Needs: []string{"python3"}, Packages: []string{"python3-numpy"}, OnlyImage: true,
		Script: `python3 -c 'import numpy as np; a = np.arange(250000.0).reshape(500, 500); print((a @ a.T).sum(), np.linalg.matrix_rank(np.eye(50)), np.fft.fft(a[0]).real.sum().round(3), np.linalg.svd(np.ones((3, 3)))[1].round(3)); np.save("/tmp/a", a); print(np.load("/tmp/a.npy", mmap_mode="r")[3, 4])'`,
	},
	{
		Name: "typescript", Needs: []string{"node", "tsc"}, Packages: []string{"node-typescript"}, OnlyImage: true,
		Script: `set -e; printf 'interface P { n: number }\nconst f = <T extends P>(p: T): number => p.n * 2;\nenum E { A = 1 }\nconsole.log(f({ n: 21 }), E.A);\n' > a.ts; echo 'const s: string = 1;' > b.ts; tsc --strict --target es2020 a.ts b.ts || echo "status $?"; node a.js; tsc --init > /dev/null; ls tsconfig.json`,
	},
	{
		Name: "mocha", Needs: []string{"mocha"}, Packages: []string{"mocha"}, OnlyImage: true,
		Script: `mkdir test; printf 'const a = require("assert"), cp = require("child_process");\ndescribe("x", () => { it("works", () => a.equal(1, 1)); it("waits", (d) => setTimeout(d, 20)); it("forks", () => a.equal(cp.execSync("echo 1").toString(), "1\\n")); it("fails", () => a.equal(1, 2)); });\n' > test/t.js; mocha --reporter dot test/t.js 2>&1 | sed 's/([0-9]*ms)//' | grep -E 'passing|failing|AssertionError'; mocha --parallel test/t.js > /dev/null; echo "status $?"`,
	},
	{
		Name: "cmake", Needs: []string{"cmake", "g++"}, Packages: []string{"cmake", "g++"}, OnlyImage: true,
		Script: `set -e; printf 'cmake_minimum_required(VERSION 3.10)\nproject(p CXX)\nenable_testing()\nfind_package(Threads REQUIRED)\nadd_library(l SHARED l.cc)\nadd_executable(e e.cc)\ntarget_link_libraries(e l Threads::Threads)\nadd_test(NAME runs COMMAND e)\ninstall(TARGETS e l DESTINATION /tmp/out)\n' > CMakeLists.txt
			printf '#include <string>\nstd::string name() { return "cmake"; }\n' > l.cc; printf '#include <iostream>\n#include <thread>\nstd::string name();\nint main() { std::thread([] { std::cout << name() << "\\n"; }).join(); }\n' > e.cc
			cmake -S . -B b > /dev/null; cmake --build b -j2 > /dev/null; b/e; (cd b && ctest 2>&1 | grep 'tests passed'); cmake --install b > /dev/null; ls out`,
	},
	{
		Name: "network tools", Needs: []string{"nc", "socat", "ip", "ss"}, Packages: []string{"netcat-openbsd", "socat", "iputils-ping"}, OnlyImage: true,
		Script: `(echo by nc | nc -l -N 127.0.0.1 7101 > got) & for i in $(seq 400); do nc -d -w 60 127.0.0.1 7101 2>/dev/null | grep . && break; sleep 0.1; done
			socat -t 60 TCP-LISTEN:7102,bind=127.0.0.1,reuseaddr,fork EXEC:cat & p=$!; for i in $(seq 400); do echo by socat | socat -t 60 - TCP:127.0.0.1:7102 2>/dev/null | grep . && break; sleep 0.1; done; nc -z 127.0.0.1 7102 && echo open; nc -z 127.0.0.1 7103 || echo closed; kill $p
			socat -t 60 UNIX-LISTEN:/tmp/u,fork EXEC:cat & p=$!; for i in $(seq 400); do echo by unix | socat -t 60 - UNIX:/tmp/u 2>/dev/null | grep . && break; sleep 0.1; done; echo udp | socat -t 1 - UDP:127.0.0.1:7105 2>/dev/null; echo "status $?"; kill $p
			ip -o addr show lo | awk '{print $2, $3, $4}'; ip route | wc -l; ip link set lo down 2>&1 | tail -n 1; ss -ltn | wc -l; getent ahosts localhost | awk '{print $1}' | sort -u | head -n 1; ping -c 1 -W 1 127.0.0.1 > /dev/null 2>&1 && echo pong || echo no ping`,
		Differs: []Difference{
			{"", "lo inet6 ::1/128", "Docker turns IPv6 off in its own namespaces by kernel settings that a jail's network does not take"},
			{"", "Cannot open netlink socket: Protocol not supported", "ss uses sock_diag; of netlink's protocols only ROUTE is listed"},
			{"pong", "no ping", "no raw sockets, and ping's own kind is for groups that the engine names"},
		},
	},
	{
		Name: "rsync, bc, jq, busybox tools", Needs: []string{"rsync", "bc", "jq"}, Packages: []string{"rsync", "bc", "jq"}, OnlyImage: true,
		Script: `set -e; mkdir -p a/b; seq 100 > a/b/f; ln -s f a/b/l; chmod 640 a/b/f; rsync -a --checksum a/ c; echo more >> a/b/f; rsync -ai a/ c | cut -c1-4; diff -r a c && echo same; rsync -a --delete --exclude f a/ d; find d | sort; echo '2^100' | bc; echo '[{"a":1},{"a":2}]' | jq -c 'map(.a) | add'; find a -type f -print0 | xargs -0 -n1 sha256sum | cut -c1-8; comm -12 a/b/f c/b/f | wc -l; tac a/b/f | head -n 1; column -t < /dev/null; env -i sh -c 'echo $PATH' > /dev/null; stat -f -c %T . > /dev/null; getconf PAGESIZE`,
	},
	{
		// Without the setting apt changes to a user of its own, which a jail's root cannot.
		Name: "apt without a network", Needs: []string{"apt-get", "dpkg-deb"}, OnlyImage: true,
		Script: `set -e; mkdir -p h/DEBIAN h/usr/bin repo; printf '#!/bin/sh\necho hello from a package\n' > h/usr/bin/hello-jail; chmod 755 h/usr/bin/hello-jail
			printf 'Package: hello-jail\nVersion: 1.0\nArchitecture: all\nMaintainer: A <a@example.org>\nDescription: test\n' > h/DEBIAN/control; printf '#!/bin/sh\necho configured\n' > h/DEBIAN/postinst; chmod 755 h/DEBIAN/postinst
			dpkg-deb --root-owner-group -b h repo/h.deb > /dev/null; (dpkg-deb -f repo/h.deb; echo "Filename: ./h.deb"; echo "Size: $(stat -c %s repo/h.deb)"; echo "SHA256: $(sha256sum repo/h.deb | cut -d' ' -f1)"; echo) > repo/Packages
			echo 'deb [trusted=yes] file:/tmp/repo ./' > /etc/apt/sources.list; rm -f /etc/apt/sources.list.d/*; apt-get -qq update; apt-cache policy hello-jail | grep Candidate; apt-get -qq -o Dpkg::Use-Pty=0 install -y hello-jail 2>/dev/null | grep -v Reading; hello-jail; dpkg -s hello-jail | grep Status; dpkg -L hello-jail | tail -n 1; apt-get -qq remove -y hello-jail > /dev/null 2>&1; command -v hello-jail || echo removed`,
	},
	{
		Name: "user management", Needs: []string{"useradd"}, Packages: []string{"adduser", "passwd"}, OnlyImage: true,
		Script: `groupadd -g 3000 devs && echo group; useradd -M -u 3001 -g devs -s /bin/sh dev 2>/dev/null; echo "useradd $?"; id dev 2>/dev/null || echo no dev; getent group devs; usermod -c comment dev 2>/dev/null; echo "usermod $?"; su dev -c 'id -u' 2>/dev/null; echo "su $?"; userdel dev 2>/dev/null; echo "userdel $?"; groupdel devs; echo "groupdel $?"; whoami; id -un 1000; getent passwd app | cut -d: -f1,3`,
		Differs: []Difference{
			{"3001", "", noSetuid},
			{"su 0", "su 1", noSetuid},
		},
	},
	{
		Name: "nginx without sendfile", Needs: []string{"nginx", "curl"}, Packages: []string{"nginx-light"}, User: 1000, OnlyImage: true,
		Script: `mkdir n; printf 'worker_processes 2; pid /tmp/n/p; error_log /tmp/n/log; events {} http { access_log off; gzip on; gzip_types *; client_body_temp_path /tmp/n/b; proxy_temp_path /tmp/n/x; fastcgi_temp_path /tmp/n/f; uwsgi_temp_path /tmp/n/u; scgi_temp_path /tmp/n/s; server { listen 127.0.0.1:7002; root /tmp/n; location /p { proxy_pass http://127.0.0.1:7002/i; } } }' > n/c; echo nginx > n/i; head -c 300000 /dev/zero > n/z; nginx -c /tmp/n/c 2>/dev/null; for i in $(seq 400); do curl -s http://127.0.0.1:7002/i && break; sleep 0.1; done; curl -s http://127.0.0.1:7002/z | wc -c; curl -s --compressed http://127.0.0.1:7002/z | wc -c; curl -s http://127.0.0.1:7002/p; nginx -c /tmp/n/c -s stop 2>/dev/null; echo "stop $?"`,
	},
	{
		Name: "sanitizers", Needs: []string{"gcc"}, User: 1000, OnlyImage: true,
		Script: `printf '#include <stdio.h>\n#include <stdlib.h>\nint main(int c,char**v){char*p=malloc(c);p[c-1]=7;printf("%%d\n",p[c-1]);if(c>1)p[c]=1;free(p);return 0;}\n' > s.c; for s in address leak address,undefined thread; do gcc -g -fsanitize=$s s.c -o s 2>&1 && ./s; echo "$s $?"; done; gcc -g -fsanitize=address s.c -o s && ./s too much 2>&1 | grep -o 'heap-buffer-overflow' | head -n 1; ASAN_OPTIONS=abort_on_error=0 ./s; echo "with options $?"`,
	},
	{
		Name: "tar of others' files as root", Needs: []string{"tar"}, OnlyImage: true,
		Script: `mkdir d; echo x > d/f; tar --owner=1234 --group=1234 -czf a.tgz d; mkdir o p q; tar xzf a.tgz -C o; echo "extract $?"; tar -xzpf a.tgz -C p; echo "-p $?"; tar --extract --gzip --file a.tgz --directory q; echo "long $?"; cat o/d/f; tar tzf a.tgz; tar -cf b.tar d; echo "create $?"; tar rf b.tar d/f; echo "append $?"; tar -df b.tar; echo "compare $?"; tar --delete -f b.tar d/f; echo "delete $?"; tar cf - d | tar xf - -C o; echo "pipe $?"`,
	},
	{
		Name: "go with the race detector", Needs: []string{"go", "gcc"}, OnlyImage: true, Heavy: true,
		Script: `mkdir m; cd m; printf 'module m\n\ngo 1.19\n' > go.mod; printf 'package main\nimport "testing"\nfunc TestRace(t *testing.T) { n := 0; c := make(chan bool); go func() { n++; c <- true }(); n++; <-c; if n > 2 { t.Fatal() } }\n' > a_test.go; go test -race . 2>&1 | grep -c 'WARNING: DATA RACE'; printf 'package main\nimport "testing"\nfunc TestFine(t *testing.T) { c := make(chan int); go func() { c <- 1 }(); <-c }\n' > a_test.go; go test -race . 2>&1 | cut -f1,2`,
	},
	{
		Name: "chromium without a screen", Needs: []string{"chromium"}, Packages: []string{"chromium"}, OnlyImage: true, Heavy: true, User: 1000,
		Script: `echo '<title>x</title><p id=a></p><script>document.getElementById("a").textContent = [1, 2, 3].map((n) => n * 2).join(); new Worker(URL.createObjectURL(new Blob([""])))</script>' > p.html; chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir=/tmp/profile --dump-dom file:///tmp/p.html 2>/dev/null; echo "status $?"; chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir=/tmp/profile --print-to-pdf=/tmp/p.pdf file:///tmp/p.html 2>/dev/null; head -c 5 p.pdf; echo`,
	},
	{
		Name: "copies with owners", Needs: []string{"rsync"}, Packages: []string{"rsync"}, OnlyImage: true, Workspace: true, User: 1000,
		Script: `mkdir t t/temp s; echo x > s/f; ln -s f s/l; ln s/f s/h; for c in "cp -a s c1" "cp -rp s c2" "cp -r --preserve=all s c3" "cp --preserve=ownership s/f c4" "cp -p /etc/passwd c5" "install s/f i1" "install -m 640 -D s/f i/i2" "install -p s/f i3" "mv s/f s/g" "rsync -a s/ r1" "rsync -rlptD --chmod=u+w /etc/alternatives/ r2"; do $c 2>&1; echo "$c: $?"; done
			stat -c '%n %a %h %u:%g' c1/f c5 i1 i/i2 r1/g; tar cf own.tar s; mkdir x; tar xpf own.tar -C x; echo "tar $?"; tar c --owner=4321 --group=4321 s | tar x -C x; echo "another's archive $?"; tar c --owner=4321 --group=4321 s | tar x --no-same-owner -C x; echo "not the same owner $?"; zip -qr z.zip s && unzip -qo z.zip -d z; echo "unzip $?"; ls -A s z/s`,
	},
	{
		Name: "owners as root", Needs: []string{"bash"}, OnlyImage: true,
		Script: `mkdir s; echo x > s/f; cp -a s c; echo "cp -a $?"; cp -p /etc/shadow h 2>&1; echo "cp -p of another group's $?"; tar c s | tar x -C c; echo "own archive $?"; tar c --owner=4321 --group=4321 s | tar x -C c 2>&1; echo "another's $?"; tar c --owner=4321 --group=4321 s | tar x --no-same-owner -C c; echo "not the same owner $?"; install -o root -g root s/f i; echo "install -o root $?"; install -o 1000 s/f j 2>&1; echo "install -o 1000 $?"; chown root:root s/f; echo "chown root $?"; chown 1000 s/f 2>&1; echo "chown 1000 $?"`,
		Differs: []Difference{
			{"", "install: cannot change ownership of 'j': Operation not permitted", noChown},
			{"install -o 1000 0", "install -o 1000 1", noChown},
			{"", "chown: changing ownership of 's/f': Operation not permitted", noChown},
			{"chown 1000 0", "chown 1000 1", noChown},
		},
	},
	{
		Name: "what is so already", Needs: []string{"python3", "node", "perl"}, OnlyImage: true,
		Script: `python3 -c 'import os; u, g = os.getuid(), os.getgid(); os.setgid(g); os.setuid(u); os.setresuid(u, u, u); os.setresgid(g, g, g); os.seteuid(u); os.chown("/tmp", -1, -1); print("python")'
			node -e 'process.setgid(process.getgid()); process.setuid(process.getuid()); const u = process.getuid(), g = process.getgid(); console.log(require("child_process").spawnSync("id", ["-u"], { uid: u, gid: g }).stdout.toString().trim())'
			perl -e '$) = $(; $> = $<; print "perl\n"'; touch f; chown "$(id -u):$(id -g)" f; echo "chown $?"; chmod 644 f; setpriv --reuid "$(id -u)" --regid "$(id -g)" --keep-groups echo setpriv; env -S echo env; runuser --version > /dev/null; echo "runuser $?"`,
	},
	{
		Name: "address sanitizer", Needs: []string{"gcc"}, OnlyImage: true,
		Script: `printf '#include <stdlib.h>\n#include <stdio.h>\nint main(int c, char **v) { char *p = malloc(8); p[c > 1 ? 8 : 0] = 1; printf("ran %%d\\n", p[0] == 1); free(p); return 0; }\n' > a.c; gcc -g -fsanitize=address a.c -o a
			./a; echo "clean $?"; ./a x 2>&1 | grep -o 'heap-buffer-overflow' | head -n 1; gcc -fsanitize=thread a.c -o t 2>/dev/null && ./t; echo "thread $?"; gcc -O1 --coverage a.c -o c && ./c && gcov -n c-a.gcda 2>/dev/null | grep -o 'Lines executed:[0-9.]*'`,
	},
	{
		Name: "the workspace's tools", Needs: []string{"git", "make", "sqlite3", "npm", "node", "python3"}, OnlyImage: true, Workspace: true, User: 1000,
		Script: workspaceWork,
	},
	{
		Name: "go with its caches in the workspace", Needs: []string{"go"}, OnlyImage: true, Workspace: true, User: 1000, Heavy: true,
		Script: `w=$PWD; mkdir g; cd g; export GOCACHE=$w/gocache GOMODCACHE=$w/gomod CGO_ENABLED=0; printf 'module m\n\ngo 1.19\n' > go.mod; printf 'package main\n\nfunc main() { println("go") }\n' > main.go; go build -o app . && ./app 2>&1; go vet .; go clean -cache; echo "clean $?"`,
	},
	{
		Name: "a dev server on localhost", Needs: []string{"node", "curl"}, OnlyImage: true, Workspace: true,
		Script: `cat > s.js <<'EOF'
const fs = require("fs"), http = require("http");
let seen = "first";
fs.watch(".", (e, n) => { if (n === "page") { try { seen = fs.readFileSync("page", "utf8").trim(); } catch {} } });
http.createServer((q, a) => a.end(seen + "\n")).listen(5173, "localhost", () => fs.writeFileSync("ready", ""));
EOF
			node s.js & p=$!; for i in $(seq 400); do [ -e ready ] && break; sleep 0.05; done; curl -s http://localhost:5173/; echo changed > page; for i in $(seq 400); do [ "$(curl -s http://localhost:5173/)" = changed ] && break; sleep 0.05; done; curl -s http://localhost:5173/; kill $p`,
	},
	{
		Name: "watching files", Needs: []string{"inotifywait"}, Packages: []string{"inotify-tools"}, OnlyImage: true, Workspace: true, User: 1000,
		Script: `mkdir w; : > log; inotifywait -q -m -r -e create,delete,move,close_write --format '%e %f' w > log 2> err & p=$!; for i in $(seq 400); do touch w/ready; [ -s log ] && break; sleep 0.05; done; echo x > w/a; mv w/a w/b; rm w/b; for i in $(seq 400); do grep -q 'DELETE b' log && break; sleep 0.05; done; kill $p; grep -v ready log | sort -u; touch -d '2001-01-01' old; touch -d '2002-01-01' new; find . -maxdepth 1 -newer old -name new; find . -maxdepth 1 -newermt 2001-06-01 -name 'ol*' | wc -l; tail -n 0 -F grow > out 2>/dev/null & p=$!; for i in $(seq 400); do echo line >> grow; [ -s out ] && break; sleep 0.05; done; head -n 1 out; kill $p`,
	},
	{
		Name: "search and batch tools", Needs: []string{"rg", "parallel"}, Packages: []string{"ripgrep", "parallel", "zstd", "wget", "tree", "lsof", "psmisc"}, OnlyImage: true, Workspace: true, User: 1000,
		Script: `mkdir -p d/e; for i in $(seq 20); do echo "needle $i" > d/e/f$i; done; rg -c needle d | wc -l; rg -l --sort path 'needle 1$' d; seq 5 | parallel -k -j2 echo; parallel -k echo ::: a b 2>&1; tar c d | zstd -q -T2 > d.zst; zstd -dcq d.zst | tar t | wc -l; tree -i d | tail -n 1; sleep 30 & p=$!; lsof -p $p -a -d cwd -Fn 2>/dev/null | grep -c "^n$(pwd)"; killall sleep; wait $p 2> /dev/null; echo "killed $?"; pstree -V 2>/dev/null; fuser -V > /dev/null 2>&1; echo "fuser $?"; wget -q -T 1 -t 1 http://127.0.0.1:1/; echo "wget $?"; split -n 3 d.zst s.; ls s.* | wc -l; flock -n l sh -c 'echo locked'; xxd -v > /dev/null 2>&1; od -c /dev/null; time -p true 2> /dev/null; watch -v > /dev/null; echo "watch $?"`,
	},
	{
		Name: "ninja", Needs: []string{"ninja"}, Packages: []string{"ninja-build", "cmake", "g++"}, OnlyImage: true, Workspace: true, User: 1000,
		Script: `set -e; printf 'cmake_minimum_required(VERSION 3.10)\nproject(p C)\nadd_library(l STATIC l.c)\nadd_executable(e e.c)\ntarget_link_libraries(e l)\ninstall(TARGETS e DESTINATION bin)\n' > CMakeLists.txt; printf 'int f(void) { return 42; }\n' > l.c; printf '#include <stdio.h>\nint f(void);\nint main(void) { printf("%%d\\n", f()); }\n' > e.c; cmake -G Ninja -S . -B b > /dev/null; ninja -C b | tail -n 1 | cut -c1-5; b/e; touch e.c; ninja -C b | grep -c Linking; ninja -C b | grep -o 'no work to do'; cmake --install b --prefix "$PWD/out" > /dev/null; out/bin/e`,
	},
	{
		Name: "service managers", Needs: []string{"supervisord", "cron"}, Packages: []string{"supervisor", "cron"}, OnlyImage: true,
		Script: `printf '[supervisord]\nnodaemon=false\nlogfile=/tmp/log\npidfile=/tmp/pid\n[unix_http_server]\nfile=/tmp/sock\n[rpcinterface:supervisor]\nsupervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface\n[supervisorctl]\nserverurl=unix:///tmp/sock\n[program:one]\ncommand=sleep 60\nstartsecs=0\n[program:two]\ncommand=sh -c "echo two; sleep 60"\nstdout_logfile=/tmp/two\nstartsecs=0\n' > c; supervisord -c c 2>/dev/null; for i in $(seq 400); do supervisorctl -c c status 2>/dev/null | grep -q 'two *RUNNING' && [ -s two ] && break; sleep 0.1; done; supervisorctl -c c status | awk '{print $1, $2}'; cat two; supervisorctl -c c stop one; supervisorctl -c c shutdown; cron -f -L 15 > /dev/null 2>&1 & p=$!; for i in $(seq 400); do [ -s /run/crond.pid ] && break; sleep 0.05; done; [ -s /run/crond.pid ] && echo cron; kill $p; service --status-all 2>/dev/null | wc -l | grep -vc '^0'; crontab -l 2>&1; printf '* * * * * true\n' | crontab - 2>&1; echo "crontab $?"`,
	},
	{
		Name: "manuals", Needs: []string{"man", "less"}, Packages: []string{"less", "locales", "man-db"}, OnlyImage: true,
		Script: `printf '.TH X 1\n.SH NAME\nx \\- a page\n' > x.1; man ./x.1 2>/dev/null | grep -c 'a page'; man -P cat ./x.1 2>&1 | grep -c NAME; seq 200 > f; less -FX f < /dev/null | tail -n 1; less f | wc -l; script -qec 'printf q | less f > /dev/null; echo "less $?"' /dev/null < /dev/null | tr -d '\r'; TZ=Asia/Tokyo date -d @0 +%H`,
	},
	{
		Name: "locales", Needs: []string{"locale-gen"}, Packages: []string{"locales"}, OnlyImage: true, Heavy: true, Root: true,
		Script: `echo 'de_DE.UTF-8 UTF-8' > /etc/locale.gen; locale-gen > /dev/null 2>&1; echo "locale-gen $?"; LC_ALL=de_DE.UTF-8 date -u -d @0 +%B; TZ=Asia/Tokyo date -d @0 +%H`,
	},
	{
		Name: "keys", Needs: []string{"ssh-keygen", "gpg"}, Packages: []string{"openssh-client", "gnupg"}, OnlyImage: true, Workspace: true,
		Script: `mkdir -m 700 k g; ssh-keygen -q -t ed25519 -N '' -C me -f k/id && stat -c %a k/id; eval "$(ssh-agent -s)" > /dev/null; ssh-add -q k/id 2>&1; ssh-add -l | awk '{print $3}'; echo text > t; ssh-keygen -q -Y sign -f k/id -n file t 2>/dev/null; echo "me $(cat k/id.pub)" > a; ssh-keygen -Y verify -f a -I me -n file -s t.sig < t | cut -d' ' -f1-4; ssh-agent -k > /dev/null; ssh -o BatchMode=yes -o ConnectTimeout=2 -p 1 127.0.0.1 true 2>&1 | tail -n 1 | tr -d '\r'; ssh -V 2>&1 | cut -c1-7
			export GNUPGHOME="$PWD/g"; gpg -q --batch --pinentry-mode loopback --passphrase '' --quick-gen-key a@example.org ed25519 2>/dev/null; echo "gpg $?"; gpg -q --batch --list-secret-keys --with-colons 2>/dev/null | grep -c ^sec; gpg -q --batch --clearsign t && gpg -q --batch --verify t.asc 2> /dev/null; echo "verify $?"; gpgconf --kill all`,
	},
	{
		Name: "service discovery", Needs: []string{"python3"}, Packages: []string{"python3-zeroconf"}, OnlyImage: true,
		Script: serviceDiscovery,
		Differs: []Difference{
			{"joined", "[Errno 92] Protocol not available", "a join takes memory that nothing counts"},
		},
	},
	{
		Name: "gradle", Needs: []string{"gradle"}, Packages: []string{"gradle", "openjdk-17-jdk-headless"}, OnlyImage: true, Heavy: true,
		Script: `mkdir -p src/main/java; printf "apply plugin: 'java'\napply plugin: 'application'\nmainClassName = 'A'\n" > build.gradle
			printf 'public class A { public static void main(String[] a) { System.out.println("built by gradle"); } }\n' > src/main/java/A.java; gradle --offline -q run 2>&1 | tail -n 1`,
	},
	{
		Name: "other users", Needs: []string{"sudo", "gosu", "su", "setpriv", "runuser"}, Packages: []string{"sudo"}, OnlyImage: true,
		Script:  `for c in "sudo -n -u app id -u" "sudo -n id -u" "gosu app id -u" "gosu root id -u" "su -s /bin/sh -c 'id -u' ` + "nobody" + `" "setpriv --reuid app --regid app --clear-groups id -u" "runuser -u app -- id -u" "chroot --userspec=app / id -u" "start-stop-daemon --start --chuid app --exec /usr/bin/id -- -u"; do echo "# $c"; sh -c "$c" 2>&1 | grep -v 'resolve host'; done; echo end`,
		Differs: otherUsers,
	},
	{
		Name: "attributes of files", Needs: []string{"setfattr"}, Packages: []string{"attr"}, OnlyImage: true,
		Script: `touch f; setfattr -n user.a -v b f 2>&1; echo "$(getfattr --only-values -n user.a f 2>&1)"; cp -a f g; echo "cp -a $?"; cp --preserve=xattr f h 2>&1; echo "cp $?"; tar --xattrs -cf x.tar f 2>&1; echo "tar $?"; rsync -aX f i 2>&1; echo "rsync $?"`,
		Differs: []Difference{
			{"", "setfattr: f: Operation not supported", noAttributes},
			{"b", "f: user.a: No such attribute", noAttributes},
			{"", "tar: f: Warning: Cannot llistxattrat: Operation not supported", noAttributes},
		},
	},
	{
		Name: "ffmpeg", Needs: []string{"ffmpeg"}, Packages: []string{"ffmpeg"}, OnlyImage: true, Heavy: true,
		Script: `ffmpeg -v error -f lavfi -i testsrc=size=320x240:rate=10:duration=2 -c:v libx264 -threads 2 o.mp4 2>&1; echo "ffmpeg $?"; ffprobe -v error -show_entries stream=width,nb_frames -of csv=p=0 o.mp4; ffmpeg -v error -i o.mp4 -vf scale=160:-1 -frames:v 1 o.png; head -c 4 o.png | tail -c 3; echo`,
	},
	{
		Name: "a Docker in the jail", Needs: []string{"dockerd"}, Packages: []string{"docker.io"}, OnlyImage: true, Heavy: true,
		Script: `timeout 20 dockerd > log 2>&1; echo "dockerd $?" > /dev/null; docker ps 2>&1 | grep -o 'Is the docker daemon running'`,
	},
}
