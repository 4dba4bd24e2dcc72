package workloads

// Reasons that several differences have.
const (
	noChown  = "the file of shadow groups is to belong to group shadow, and container root has no CAP_CHOWN"
	noSetuid = "container root has no CAP_SETUID"
)

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
			for i in $(seq 100); do [ -e out ] && break; sleep 0.1; done; cat out; screen -ls | grep -c one; screen -S one -X quit; echo quit`,
	},
	{
		Name: "git over http", Needs: []string{"git", "python3"}, OnlyImage: true,
		Script: `set -eu; export GIT_AUTHOR_DATE='2001-01-01T00:00:00Z' GIT_COMMITTER_DATE='2001-01-01T00:00:00Z'; git config --global user.email a@example.org; git config --global user.name A
			git init -q -b main r; cd r; seq 1000 > f; git add f; git commit -qm one; git gc -q; git update-server-info; cd ..; python3 -m http.server --bind 127.0.0.1 8124 > /dev/null 2>&1 & p=$!
			for i in $(seq 50); do git ls-remote http://127.0.0.1:8124/r/.git 2>/dev/null && break; sleep 0.2; done; git clone -q http://127.0.0.1:8124/r/.git c; git -C c log --format='%H %s'; kill $p
			git config --global core.fsmonitor false; git -C c maintenance run --quiet; git -C c submodule status; git -C c archive HEAD | tar t; git -C c bisect start -q 2>/dev/null; git -C c rev-list --count HEAD`,
	},
	{
		Name: "tls", Needs: []string{"openssl", "python3", "curl"}, OnlyImage: true,
		Script: `set -e; openssl req -x509 -newkey rsa:2048 -nodes -keyout k -out c -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost 2>/dev/null; openssl x509 -in c -noout -subject
			printf 'import ssl, http.server\nclass H(http.server.BaseHTTPRequestHandler):\n    def do_GET(s): s.send_response(200); s.end_headers(); s.wfile.write(b"secret\\n")\n    def log_message(*a): pass\nh = http.server.HTTPServer(("127.0.0.1", 8443), H)\nx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); x.load_cert_chain("c", "k"); h.socket = x.wrap_socket(h.socket, server_side=True)\nh.serve_forever()\n' > s.py
			python3 s.py & p=$!; for i in $(seq 50); do curl -s --cacert c https://localhost:8443/ && break; sleep 0.2; done; curl -s https://localhost:8443/ || echo "untrusted $?"; kill $p; echo text | openssl enc -aes-256-cbc -pbkdf2 -pass pass:x | openssl enc -d -aes-256-cbc -pbkdf2 -pass pass:x; openssl dgst -sha512 c > /dev/null && echo digest`,
	},
	{
		Name: "pip without a network", Needs: []string{"python3"}, Packages: []string{"python3-setuptools", "python3-wheel"}, OnlyImage: true,
		Script: `set -e; python3 -m venv --system-site-packages v; mkdir -p p/pkg; echo 'def f(): return 42' > p/pkg/__init__.py
			printf 'from setuptools import setup\nsetup(name="pkg", version="1", packages=["pkg"], entry_points={"console_scripts": ["pkg-run=pkg:f"]})\n' > p/setup.py
			v/bin/pip install -q --no-index --no-build-isolation ./p 2>&1; v/bin/python -c 'import pkg; print(pkg.f())'; v/bin/pkg-run || echo "status $?"; v/bin/pip list 2>/dev/null | grep pkg; v/bin/pip wheel -q --no-index --no-build-isolation --no-deps -w w ./p 2>&1; ls w; v/bin/pip uninstall -qy pkg; v/bin/pip install -q --no-index --find-links w pkg; v/bin/pip freeze | grep -c pkg; v/bin/pip download requests 2>&1 | grep -c 'No matching' || true`,
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
		Script: `set -e; printf 'interface P { n: number }\nconst f = <T extends P>(p: T): number => p.n * 2;\nenum E { A = 1 }\nconsole.log(f({ n: 21 }), E.A);\n' > a.ts; tsc --strict --target es2020 a.ts; node a.js; echo 'const s: string = 1;' > b.ts; tsc b.ts || echo "status $?"; tsc --init > /dev/null; ls tsconfig.json`,
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
		Script: `(echo by nc | nc -l -N 127.0.0.1 7101 > got) & for i in $(seq 50); do nc -d -w 5 127.0.0.1 7101 2>/dev/null | grep . && break; sleep 0.1; done
			socat TCP-LISTEN:7102,bind=127.0.0.1,reuseaddr,fork EXEC:cat & p=$!; for i in $(seq 50); do echo by socat | socat -t 2 - TCP:127.0.0.1:7102 2>/dev/null && break; sleep 0.1; done; nc -z 127.0.0.1 7102 && echo open; nc -z 127.0.0.1 7103 || echo closed; kill $p
			socat UNIX-LISTEN:/tmp/u,fork EXEC:cat & p=$!; until [ -e u ]; do sleep 0.05; done; echo by unix | socat -t 2 - UNIX:/tmp/u; echo udp | socat -t 1 - UDP:127.0.0.1:7105 2>/dev/null; echo "status $?"; kill $p
			ip -o addr show lo | awk '{print $2, $3, $4}'; ip route | wc -l; ip link set lo down 2>&1 | tail -n 1; ss -ltn | wc -l; getent ahosts localhost | awk '{print $1}' | sort -u | head -n 1; ping -c 1 -W 1 127.0.0.1 > /dev/null 2>&1 && echo pong || echo no ping`,
		Differs: []Difference{
			{"", "lo inet6 ::1/128", "Docker turns IPv6 off in its own namespaces by kernel settings that a jail's network does not take"},
			{"", "Cannot open netlink socket: Protocol not supported", "ss asks by sock_diag; of netlink's protocols only ROUTE is listed"},
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
			{"group", "groupadd: failure while writing changes to /etc/gshadow", noChown},
			{"useradd 0", "useradd 1", noChown},
			{"3001", "", noSetuid},
			{"su 0", "su 1", noSetuid},
		},
	},
	{
		Name: "nginx without sendfile", Needs: []string{"nginx", "curl"}, Packages: []string{"nginx-light"}, User: 1000, OnlyImage: true,
		Script: `mkdir n; printf 'worker_processes 2; pid /tmp/n/p; error_log /tmp/n/log; events {} http { access_log off; gzip on; gzip_types *; client_body_temp_path /tmp/n/b; proxy_temp_path /tmp/n/x; fastcgi_temp_path /tmp/n/f; uwsgi_temp_path /tmp/n/u; scgi_temp_path /tmp/n/s; server { listen 127.0.0.1:7002; root /tmp/n; location /p { proxy_pass http://127.0.0.1:7002/i; } } }' > n/c; echo nginx > n/i; head -c 300000 /dev/zero > n/z; nginx -c /tmp/n/c 2>/dev/null; for i in $(seq 50); do curl -s http://127.0.0.1:7002/i && break; sleep 0.2; done; curl -s http://127.0.0.1:7002/z | wc -c; curl -s --compressed http://127.0.0.1:7002/z | wc -c; curl -s http://127.0.0.1:7002/p; nginx -c /tmp/n/c -s stop 2>/dev/null; echo "stop $?"`,
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
}
