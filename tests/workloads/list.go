package workloads

import "slices"

// List is what agents do all day, in small. The scripts print only what does not
// change from run to run.
var List = slices.Concat(anywhere, inImage)

// anywhere is what a host's own programs can show as well.
var anywhere = []Work{
	{
		Name: "shell", Needs: []string{"bash"}, Strict: true,
		Script: `set -eu; mkdir -p a/b; for i in $(seq 1 50); do echo "line $i" >> a/b/f; done
			sort -r a/b/f | head -3; wc -l < a/b/f; grep -c 1 a/b/f; sed -n 5p a/b/f; cut -d' ' -f2 a/b/f | paste -sd+ | cut -c1-20
			(exit 3) || echo "status $?"; echo x | tee t | cat; test -w t && echo writable; readlink -f a/../a/b
			mv t u; cp u v; cmp u v && echo same; chmod 640 u; stat -c '%a %s %F' u; ln -s u w; ls -l w | cut -c1; rm -r a; pwd; umask
			bash -c 'trap "echo got term" TERM; kill -TERM $$; wait'; bash -c 'set -m; sleep 0.1 & wait; echo job done' 2> /dev/null; echo "$(uname -s) $(id -u)"`,
	},
	{
		Name: "coreutils", Needs: []string{"bash", "timeout", "mkfifo", "split"}, Tools: true,
		Script: `set -eu; head -c 300000 /dev/zero > z; cp --reflink=auto z y; cp -a z x; cmp x y; split -b 100000 z p.; ls p.*; cat p.* | sha256sum
			mkfifo f; (echo through > f &); cat f; timeout 0.2 sleep 1000 || echo "timeout $?"; nice -n 3 nice; touch -d '2001-02-03 04:05:06 UTC' z; stat -c %Y z
			truncate -s 5 z; stat -c %s z; dd if=x of=w bs=1k count=7 conv=fsync 2>&1 | head -2; ln x h; stat -c %h x; install -m 755 x i; stat -c %a i
			du -b x | cut -f1; df . > /dev/null && echo df; env -i A=1 env; seq 3 | xargs -P3 -I{} sh -c 'exit 0'; find . -name 'p.*' -newer h | wc -l
			date -d @0 -u +%F; sleep 0.01; nproc > /dev/null; sync x || true; shuf -i 1-9 | sort | tr -d '\n'; echo; ls -l i | cut -c1-10; mktemp -d | cut -c1-9; yes | head -2; tail -n1 i | wc -c`,
	},
	{
		Name: "set-id bits", Needs: []string{"bash"}, Strict: true,
		Script: `touch f; chmod 644 f; stat -c %a f; chmod 1777 . ; stat -c %a .`,
	},
	{
		Name: "git", Needs: []string{"git"},
		Script: `set -eu; export GIT_AUTHOR_DATE='2001-01-01T00:00:00Z' GIT_COMMITTER_DATE='2001-01-01T00:00:00Z' GIT_CONFIG_GLOBAL=/tmp/gc
			git config --global user.email a@example.org; git config --global user.name A; git config --global init.defaultBranch main; git config --global protocol.file.allow always
			git init -q r; cd r; echo one > f; git add f; git commit -qm one; git branch side; echo two >> f; git commit -qam two; git checkout -q side; echo three > g; git add g; git commit -qm three
			git merge -q --no-edit main; git log --oneline | cat; git diff HEAD~1 --stat | cat; git rebase -q main 2>&1; git gc -q; git fsck 2>&1; git stash list; cd ..; git clone -q r c; cd c; git log --format=%H | head -1
			echo x > f; git stash -q; git stash pop -q; git status --short; git worktree add -q ../w; git grep -n two HEAD; git bundle create -q ../b HEAD; git daemon --base-path=/tmp --export-all --reuseaddr --listen=127.0.0.1 --port=9419 >/dev/null 2>&1 & p=$!
			for i in $(seq 400); do git ls-remote git://127.0.0.1:9419/r 2>/dev/null && break; sleep 0.1; done; kill $p`,
	},
	{
		Name: "archives", Needs: []string{"tar", "gzip", "xz", "bzip2"}, Tools: true, Packages: []string{"bzip2", "xz-utils"},
		Script: `set -eu; mkdir d; seq 20000 > d/n; ln -s n d/l; ln d/n d/h; mkfifo d/p; chmod 750 d; for z in z j J; do tar c${z}f a.$z d; mkdir o$z; tar x${z}pf a.$z -C o$z; ls -l o$z/d | awk '{print $1,$2,$5,$9}'; sha256sum < o$z/d/n; done
			gzip -kf d/n; gzip -dc d/n.gz | md5sum; xz -T2 -k d/n; xz -dc d/n.xz | md5sum; tar tf a.z | sort; cat d/h | cksum`,
	},
	{
		Name: "python", Needs: []string{"python3"}, Tools: true,
		Script: pythonCore,
	},
	{
		Name: "strict shell", Needs: []string{"bash"}, Strict: true,
		Script: `set -eu; mkdir -p a/b; for i in $(seq 1 50); do echo "line $i" >> a/b/f; done; sort -r a/b/f | head -3; wc -l < a/b/f; grep -c 1 a/b/f; sed -n 5p a/b/f; cut -d' ' -f2 a/b/f | paste -sd+ | cut -c1-20
			(exit 3) || echo "status $?"; echo x | tee t | cat; test -w t && echo writable; readlink -f a/../a/b; mv t u; cp u v; cmp u v && echo same; chmod 640 u; stat -c '%a %s %F' u; ls -l u | cut -c1-10; touch -d @5 u; stat -c %Y u; rm -r a; pwd; umask; cat < /dev/null; sleep 0.01
			bash -c 'trap "echo got term" TERM; kill -TERM $$; wait'; bash -c 'sleep 0.1 & wait; echo job done'; echo "$(uname -s) $(id -u)"; find . -type f | sort; printf '%s\n' a b | xargs -n1 echo; awk 'BEGIN{print 6*7}'; date -u -d @0 +%F; env | grep -c PATH`,
	},
	{
		Name: "strict python", Needs: []string{"python3"}, Strict: true,
		Script: pythonStrict,
	},
	{
		Name: "strict static binaries", Needs: []string{"go", "gcc"}, Strict: true, OnlyHost: true,
		Script: `set -eu; export GOPATH=/tmp/gp CGO_ENABLED=0; if ! [ -e /cache/x-static ]; then mkdir m; cd m; printf 'module m\n\ngo 1.20\n' > go.mod; printf 'package main\nimport ("fmt"; "os"; "strings"; "time")\nfunc main() { b, err := os.ReadFile("/etc/hostname"); c := make(chan int); go func() { time.Sleep(time.Millisecond); c <- len(strings.TrimSpace(string(b))) }(); fmt.Println(<-c > 0, err, os.WriteFile("/tmp/o", b, 0o600), len(os.Args)) }\n' > main.go; go build -o /cache/x-static .
			printf '#include <stdio.h>\n#include <stdlib.h>\nint main(void){FILE*f=fopen("/tmp/c","w");fputs("c\\n",f);fclose(f);void*p=malloc(9000000);free(p);puts("static c");return system("echo from system");}\n' > s.c; gcc -static s.c -o /cache/c-static; fi; /cache/x-static; /cache/c-static; if command -v busybox > /dev/null; then busybox sh -c 'cd /tmp; busybox echo b > b; busybox cat b; busybox wc -l < b; busybox ls b; busybox grep -c b b; busybox sleep 0.01; busybox seq 3 | busybox tail -n1; busybox mkdir -p q/r; busybox rm -r q; busybox mv b d; busybox stat -c %s d; busybox id -u'; fi`,
	},
	{
		Name: "python with sockets and sqlite", Needs: []string{"python3"},
		Script: pythonNet,
	},
	{
		Name: "python venv and pip", Needs: []string{"python3"}, Tools: true, OnlyHost: true, // pip without a network does more
		Script: `set -eu; python3 -m venv v 2>&1; v/bin/python -c 'import sys; print(sys.prefix)'; mkdir -p p/pkg; echo 'def f(): return 42' > p/pkg/__init__.py
			printf '[build-system]\nrequires=[]\nbuild-backend="b"\nbackend-path=["."]\n[project]\nname="pkg"\nversion="1"\n' > p/pyproject.toml
			v/bin/python -m pip --version | cut -d' ' -f1; v/bin/python -m pip list 2>/dev/null | grep -c pip`,
	},
	{
		Name: "python extension module", Needs: []string{"python3", "gcc"}, Tools: true, Packages: []string{"libpython3-dev"},
		Script: `set -eu; printf '#include <Python.h>\nstatic PyObject*f(PyObject*s,PyObject*a){return PyLong_FromLong(42);}\nstatic PyMethodDef m[]={{"f",f,METH_NOARGS,0},{0}};\nstatic struct PyModuleDef d={PyModuleDef_HEAD_INIT,"ext",0,-1,m};\nPyMODINIT_FUNC PyInit_ext(void){return PyModule_Create(&d);}\n' > ext.c
			inc=$(python3 -c 'import sysconfig;print(sysconfig.get_paths()["include"])'); if [ -f $inc/Python.h ]; then gcc -shared -fPIC -I$inc ext.c -o ext.so && python3 -c 'import ext; print(ext.f())'; else echo no headers; fi`,
	},
	{
		Name: "limits and sizes that are not changed", Needs: []string{"bash", "python3"},
		Script: `set -eu; bash -c 'ulimit -c 0; echo bash $?; ulimit -n 64; ulimit -n'; sh -c 'ulimit -c 0; echo sh $?'; python3 -X faulthandler -c 'print("faulthandler")'
			python3 -c 'import resource as r; r.setrlimit(r.RLIMIT_CORE, (0, 0)); r.setrlimit(r.RLIMIT_NOFILE, (64, 64)); print("set", r.getrlimit(r.RLIMIT_NOFILE), len(r.getrlimit(r.RLIMIT_CORE)))'
			python3 -c 'import socket as s; x = s.socket(); [x.setsockopt(s.SOL_SOCKET, o, 1 << 20) for o in (s.SO_RCVBUF, s.SO_SNDBUF)]; x.setsockopt(s.SOL_SOCKET, s.SO_KEEPALIVE, 1); print(x.getsockopt(s.SOL_SOCKET, s.SO_RCVBUF) > 0)'
			python3 -c 'import time; time.sleep(0.001); print(time.process_time() > 0, time.thread_time() > 0)'; cp --preserve=all /etc/hostname h; echo cp`,
	},
	{
		Name: "priorities that are not changed", Needs: []string{"taskset", "ionice", "chrt"}, Tools: true,
		Script: `for c in "taskset -c 0" "ionice -c2 -n7" "ionice -c3" "ionice -c1 -n0" "chrt -b 0" "chrt -i 0" "chrt -o 0" "chrt -f 10" "chrt -r 10" "nice -n 5"; do $c echo "$c" 2>&1; echo "status $?"; done
			ionice -c2 -n0 -p $$; echo $?; ionice -t -c1 echo forgiven; taskset -c -p 0 $$ > /dev/null; echo $?; chrt -b -p 0 $$; echo $?; chrt -m`,
	},
	{
		Name: "debuggers", Needs: []string{"gcc", "gdb", "strace"}, Packages: []string{"gdb", "strace"}, Debug: true,
		Script: `set -eu; printf '#include <pthread.h>\n#include <stdio.h>\n#include <string.h>\nstatic void*t(void*a){*(int*)a+=2;return 0;}\nint f(int n){return n*2;}\nint main(void){int x=f(20);pthread_t p;pthread_create(&p,0,t,&x);pthread_join(p,0);printf("%%d\\n",x);return 0;}\n' > a.c; gcc -g -O0 -pthread -o a a.c
			gdb -nx -q -batch -iex 'set disable-randomization off' -iex 'set debuginfod enabled off' -ex 'break f' -ex run -ex bt -ex 'print n' -ex 'set var n = 21' -ex stepi -ex 'set var $pc = $pc' -ex finish -ex 'break t' -ex continue -ex 'print $_thread' -ex 'delete' -ex continue ./a 2>&1 | sed '/^\[Thread .* exited\]/d; /^\[New process .*\]/d; s/0x[0-9a-f]*/ADDR/g; s/\(process\|LWP\) [0-9]*/\1 N/g'
			strace -f -e trace=write,execve -o s sh -c './a > o; echo done'; cat o; grep -c 'write(1, "42' s; grep -c 'execve(' s; strace -c -o c true; grep -c execve c
			strace -e inject=getppid:retval=7 -o i sh -c 'echo $PPID'; sleep 60 & p=$!; gdb -nx -q -batch -iex 'set debuginfod enabled off' -p $p -ex 'print $pc != 0' -ex detach 2> /dev/null | grep '^\$1'; timeout 1 strace -p $p -o a.s 2> /dev/null || echo "attached $?"; kill $p
			printf '#include <stdlib.h>\n#include <stdio.h>\nvoid*volatile p;int main(void){p=malloc(7);p=0;puts("leaks");return 0;}\n' > l.c; gcc -g -fsanitize=address -o l l.c; ./l 2> e || echo "status $?"; grep -c 'detected memory leaks' e
			printf 'import ctypes, os, time\nb = ctypes.create_string_buffer(b"found", 16); r, w = os.pipe(); pid = os.fork()\nif pid == 0: os.read(r, 1); os._exit(0)\nclass V(ctypes.Structure): _fields_ = [("p", ctypes.c_void_p), ("n", ctypes.c_size_t)]\no = ctypes.create_string_buffer(16); l = ctypes.CDLL(None)\nf = open(f"/proc/{pid}/mem", "rb"); f.seek(ctypes.addressof(b)); print(f.read(5)); os.write(w, b"x"); os.waitpid(pid, 0)\n' > m.py; python3 m.py`,
	},
	{
		Name: "git without a daemon", Needs: []string{"git"}, Tools: true,
		Script: `set -eu; export GIT_AUTHOR_DATE='2001-01-01T00:00:00Z' GIT_COMMITTER_DATE='2001-01-01T00:00:00Z' GIT_CONFIG_GLOBAL=/tmp/gc; rm -rf r c
			git config --global user.email a@example.org; git config --global user.name A; git config --global init.defaultBranch main
			git init -q r; cd r; seq 500 > f; git add f; git commit -qm one; git checkout -qb side; echo two >> f; git commit -qam two; git checkout -q main; git merge -q side; git log --oneline | cat
			git gc -q; git fsck 2>&1; cd ..; git clone -q r c; cd c; git log -1 --format=%s; git diff HEAD~1 --stat | cat; git grep -n '^two'; git blame -s f | tail -1; git archive HEAD | tar t`,
	},
	{
		Name: "node without sockets", Needs: []string{"node"}, Tools: true,
		Script: `node -e '
 const fs=require("fs"),cp=require("child_process"),{Worker}=require("worker_threads"),c=require("crypto");
 fs.writeFileSync("/tmp/n","x".repeat(1000)); fs.copyFileSync("/tmp/n","/tmp/m"); console.log(fs.statSync("/tmp/m").size, fs.readdirSync("/tmp").includes("m"));
 console.log(cp.execSync("echo child").toString().trim(), c.createHash("sha256").update("a").digest("hex").slice(0,8), c.randomBytes(4).length);
 const p=cp.spawn("cat"); p.stdout.on("data",d=>console.log("cat",d.toString())); p.stdin.end("piped"); p.on("close",n=>{ console.log("closed",n);
  new Worker("require(\"worker_threads\").parentPort.postMessage(6*7)",{eval:true}).on("message",m=>{ console.log(m); setTimeout(()=>console.log("timer"),5); }); });'`,
	},
	{
		Name: "gpg", Needs: []string{"gpg", "gpg-agent"}, OnlyHost: true,
		Script: `set -eu; mkdir -m 700 g; echo secret > f; export GNUPGHOME=/tmp/g; gpg -q --batch --pinentry-mode loopback --passphrase x -c f 2>/dev/null; rm f
			gpg -q --batch --pinentry-mode loopback --passphrase x -d f.gpg 2>/dev/null; gpg -q --batch --pinentry-mode loopback --passphrase '' --quick-gen-key a@example.org ed25519 2>/dev/null; gpg --batch --list-keys --with-colons 2>/dev/null | grep -c ^pub; gpgconf --kill all`,
	},
	{
		Name: "go profiler", Needs: []string{"go"}, OnlyHost: true,
		Script: `set -eu; export GOPATH=/tmp/gp CGO_ENABLED=0; if ! [ -e /cache/x-profile ]; then mkdir m; cd m; printf 'module m\n\ngo 1.20\n' > go.mod
			printf 'package main\nimport ("bytes"; "fmt"; "runtime/pprof"; "time")\nfunc main() { var b bytes.Buffer; err := pprof.StartCPUProfile(&b); n := 0; for t := time.Now(); time.Since(t) < 300*time.Millisecond; { n++ }; pprof.StopCPUProfile(); fmt.Println(err, n > 0, b.Len() > 400) }\n' > main.go; go build -o /cache/x-profile .; fi; /cache/x-profile`,
	},
	{
		Name: "java with large pages", Needs: []string{"java"}, Packages: []string{"openjdk-17-jdk-headless"}, Heavy: true,
		Script: `for o in UseLargePages UseTransparentHugePages; do java -XX:+$o -Xmx64m -version > o 2>&1; echo $?; grep -c Runtime o; done`,
	},
	{
		Name: "perl", Needs: []string{"perl"},
		Script: `perl -e 'use Socket; use POSIX; $SIG{ALRM}=sub{print "alarm\n"}; alarm 1; select(undef,undef,undef,1.3); pipe(R,W); if(!fork){print W "child\n"; exit 0} wait; close W; print <R>; socketpair(A,B,AF_UNIX,SOCK_STREAM,PF_UNSPEC); syswrite A,"x\n"; sysread B,$b,9; print $b;
			socket(S,PF_INET,SOCK_STREAM,6); setsockopt(S,SOL_SOCKET,SO_REUSEADDR,1); bind(S,sockaddr_in(7711,INADDR_LOOPBACK)) or print "bind $!\n"; listen(S,5); if(!fork){socket(C,PF_INET,SOCK_STREAM,6); connect(C,sockaddr_in(7711,INADDR_LOOPBACK)); print C "tcp\n"; exit} accept(X,S); print <X>; wait; print POSIX::strftime("%Y\n", gmtime 0); system("echo sys"); print -e "/proc/self/exe" ? "exe\n" : "none\n"; utime 1,1,"/tmp/x"; open F,">/tmp/q"; flock F,2; print F "1"; close F; print -s "/tmp/q","\n"'`,
	},
	{
		Name: "node", Needs: []string{"node"},
		Script: nodeWork,
	},
	{
		Name: "npm", Needs: []string{"node", "npm"}, Tools: true,
		Script: `set -eu; mkdir p q; cd p; npm init -y > /dev/null; node -e 'const p=require("./package.json"); p.scripts={test:"node -e \"console.log(6*7)\""}; p.bin={"hi":"./hi.js"}; require("fs").writeFileSync("package.json",JSON.stringify(p))'; printf '#!/usr/bin/env node\nconsole.log("hi")\n' > hi.js
			npm test --silent; npm pack --silent; cd ../q; npm init -y > /dev/null; npm install --silent --no-audit --no-fund --offline ../p/p-1.0.0.tgz; ls node_modules; node_modules/.bin/hi`,
	},
	{
		Name: "C", Needs: []string{"gcc", "make"}, Tools: true, Packages: []string{"g++"},
		Script: `set -eu; printf '#include <stdio.h>\n#include <pthread.h>\nstatic void*w(void*a){return a;}\nint main(void){pthread_t t;pthread_create(&t,0,w,(void*)7);void*r;pthread_join(t,&r);printf("%%ld\\n",(long)r);return 0;}\n' > t.c
			printf 'all: t u\nt: t.c\n\tgcc -O2 -g -pthread -o $@ $<\nu: t.c\n\tgcc -static -pthread -pipe -o $@ $<\n' > Makefile; make -j2 -s; ./t; ./u; ar rc l.a t.c; nm -D t | grep -c pthread; strip u; ./u
			printf '#include <iostream>\n#include <thread>\nint main(){std::thread([]{std::cout<<"c++\\n";}).join();}\n' > x.cc; g++ -pthread x.cc -o x && ./x; gcc -fsanitize=undefined t.c -o v -pthread && ./v`,
	},
	{
		Name: "go", Needs: []string{"go"},
		Script: goWork,
	},
	{
		Name: "curl and python's http.server", Needs: []string{"curl", "python3"},
		Script: `set -eu; mkdir s; echo served > s/f; python3 -m http.server --bind 127.0.0.1 -d s 8123 > /dev/null 2>&1 & p=$!; for i in $(seq 400); do curl -s http://127.0.0.1:8123/f && break; sleep 0.1; done
			curl -s http://localhost:8123/f; curl -s -o /dev/null -w '%{http_code}\n' http://127.0.0.1:8123/none; curl -s file:///tmp/s/f; curl -s --max-time 60 http://192.0.2.1/ || echo "curl $?"; kill $p`,
	},
	{
		Name: "terminals", Needs: []string{"script", "bash"}, Tools: true, Packages: []string{"bsdutils"},
		Script: `script -qec 'tty -s && echo terminal; stty size; stty -echo; stty sane; stty -a | head -1 | cut -d" " -f1; bash -ic "echo interactive" 2>/dev/null' /dev/null < /dev/null | tr -d '\r' | grep -v '^$'`,
	},
	{
		Name: "processes", Needs: []string{"bash", "ps"}, Tools: true,
		Script: `bash -c 'sleep 30 & p=$!; until [ $(ps -o comm= -p $p) = sleep ]; do :; done; kill -STOP $p; until [ $(ps -o stat= -p $p | cut -c1) = T ]; do :; done; echo stopped; kill -CONT $p; kill $p; wait $p; echo $?'; ulimit -n 512; ulimit -n; (ulimit -v 2000000; true) && echo limits; setsid -w echo session; su -s /bin/sh "nobody" -c 'id -u' 2>&1 | tail -1; setpriv --reuid 65534 --clear-groups id -u 2>&1; flock /tmp/l echo locked; getent hosts localhost | awk '{print $NF}'; free > /dev/null && echo free; hostname; setsid true; timeout 1 tail -f /dev/null || echo $?`,
		Differs: []Difference{
			{"65534", "su: cannot set groups: Operation not permitted", noSetuid},
			{"65534", "setpriv: setresuid failed: Operation not permitted", noSetuid},
		},
	},
	{
		Name: "rust", Needs: []string{"cargo"}, Packages: []string{"cargo", "rustc"}, Heavy: true,
		Script: `set -eu; cargo new --quiet --vcs none r; cd r; printf 'use std::{fs, io, net, process, thread, time};\nfn main() {\n let l = net::TcpListener::bind("127.0.0.1:0").unwrap(); let a = l.local_addr().unwrap();\n let t = thread::spawn(move || { let (mut c, _) = l.accept().unwrap(); let mut d = l.accept().unwrap().0; io::copy(&mut c, &mut d).unwrap() });\n { use io::Write; let mut c = net::TcpStream::connect(a).unwrap(); let d = net::TcpStream::connect(a).unwrap(); c.write_all(&[7; 70000]).unwrap(); drop(c); let mut n = vec![]; use io::Read; (&d).read_to_end(&mut n).unwrap(); println!("{} {}", n.len(), t.join().unwrap()); }\n fs::write("/tmp/a", "rust").unwrap(); println!("{:?}", fs::copy("/tmp/a", "/tmp/b").unwrap()); println!("{:?}", process::Command::new("echo").arg("child").output().unwrap().stdout.len());\n thread::sleep(time::Duration::from_millis(5)); fs::remove_file("/tmp/b").unwrap(); println!("{:?}", fs::read_dir("/tmp/r").unwrap().count() > 0);\n}\n#[test]\nfn t() {}\n' > src/main.rs; cargo run --quiet --offline; cargo test --quiet --offline 2>&1 | grep -o '[0-9]* passed'`,
	},
	{
		Name: "java", Needs: []string{"java"}, Packages: []string{"openjdk-17-jdk-headless"}, Heavy: true,
		Script: javaWork,
	},
	{
		Name: "sending to groups", Needs: []string{"node", "python3"},
		Script: groupSenders,
	},
	{
		Name: "locked memory and advice", Needs: []string{"python3", "dd"}, Tools: true,
		Script: `set -eu; python3 -c 'import ctypes; l = ctypes.CDLL(None); b = ctypes.create_string_buffer(20000); print(l.mlock(b, 20000), [x.split()[1] for x in open("/proc/self/status") if "VmLck" in x][0] != "0", l.munlock(b, 20000), l.personality(ctypes.c_ulong(0xffffffff)))'
			python3 -c 'import os; f = os.open("/etc/passwd", 0); [os.posix_fadvise(f, 0, 0, a) for a in range(6)]; print("advice")'; dd if=/etc/passwd of=/dev/null iflag=nocache 2> /dev/null; echo "dd $?"; echo x > s; sync s; echo "sync $?"`,
	},
	{
		Name: "editors and multiplexers", Needs: []string{"tmux", "vim", "jq"}, Packages: []string{"tmux", "vim", "jq"},
		Script: `tmux new -d 'sleep 9'; tmux ls | cut -c1-4; tmux kill-server; vim -es -c 'call setline(1,"vim")' -c 'w! v' -c q; cat v; echo '{"a":[1,2]}' | jq -c .a`,
	},
	{
		Name: "ruby", Needs: []string{"ruby"}, Packages: []string{"ruby"},
		Script: `ruby -e 'require "socket"; s=TCPServer.new("127.0.0.1",0); Thread.new{c=s.accept; c.puts "tcp"; c.close}; puts TCPSocket.new("127.0.0.1",s.addr[1]).read; puts %x(echo sub); IO.popen("cat","r+"){|i| i.puts 1; i.close_write; puts i.read}; fork{puts "forked"}; Process.wait'`,
	},
	{
		Name: "redis", Needs: []string{"redis-server", "redis-cli"}, Packages: []string{"redis-server"},
		Script: `redis-server --port 7001 --daemonize yes --dir /tmp > /dev/null; for i in $(seq 400); do redis-cli -p 7001 ping 2>/dev/null | grep -q PONG && break; sleep 0.1; done; redis-cli -p 7001 set a 1; redis-cli -p 7001 get a; redis-cli -p 7001 save; redis-cli -p 7001 shutdown`,
	},
	{
		Name: "nginx", Needs: []string{"nginx", "curl"}, Server: true, Packages: []string{"nginx-light"}, User: 1000,
		Script: `mkdir n; printf 'user root root; worker_processes 2; pid /tmp/n/p; error_log stderr; events {} http { access_log off; sendfile on; client_body_temp_path /tmp/n/b; proxy_temp_path /tmp/n/x; fastcgi_temp_path /tmp/n/f; uwsgi_temp_path /tmp/n/u; scgi_temp_path /tmp/n/s; server { listen 127.0.0.1:7002; root /tmp/n; } }' > n/c; echo nginx > n/i; head -c 300000 /dev/zero > n/z; nginx -c /tmp/n/c 2>/dev/null; for i in $(seq 400); do curl -s http://127.0.0.1:7002/i && break; sleep 0.1; done; curl -s http://127.0.0.1:7002/z | wc -c; nginx -c /tmp/n/c -s stop 2>/dev/null`,
	},
	{
		Name: "postgres", Needs: []string{"initdb", "pg_ctl", "psql"}, Server: true, Packages: []string{"postgresql-15"}, User: 1000,
		Script: `set -e; mkdir d; if [ $(id -u) = 0 ]; then chown 65534:65534 d; run() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }; else run() { "$@"; }; fi; run initdb -U p -D d/d > /dev/null; run pg_ctl -D d/d -o '-p 7004 -k /tmp/d' -w -l d/log start > /dev/null; run psql -U p -h /tmp/d -p 7004 -Atc 'create table t(a int); insert into t select generate_series(1,1000); select sum(a) from t' postgres; run pg_ctl -D d/d stop -m fast | tail -1`,
	},
}
