#!/bin/bash
# What an agent does for a minute, in a workspace mounted at /workspace. The output is the same wherever it runs: it holds
# results, not times, ids or addresses.
set -euo pipefail
cd /workspace
export HOME=${WORK_HOME:-/tmp/home} GOFLAGS=-mod=mod GOTOOLCHAIN=local GOPROXY=off GOTELEMETRY=off
export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_DATE='2001-02-03T04:05:06Z' GIT_COMMITTER_DATE='2001-02-03T04:05:06Z'
mkdir -p "$HOME"
git config --global user.name agent
git config --global user.email agent@example.org
git config --global init.defaultBranch main
git config --global advice.detachedHead false
step() { echo "== $*"; }
# On failure say where: the test shows it.
trap 'echo "FAILED at line $LINENO: $BASH_COMMAND"' ERR

step workspace
stat -c '%U %a' . | sed "s/^$(id -un) /me /"
cat README

step git
git init -q --bare origin.git
git clone -q origin.git project 2>/dev/null
cd project
printf 'int add(int a, int b) { return a + b; }\n' >add.c
printf 'int add(int, int);\n' >add.h
cat >main.c <<'C'
#include <pthread.h>
#include <stdio.h>
#include "add.h"
static void *twice(void *p) { *(int *)p *= 2; return 0; }
int main(void) {
	int n = 21;
	pthread_t t;
	if (pthread_create(&t, 0, twice, &n) || pthread_join(t, 0)) return 1;
	printf("%d %d\n", add(1, 2), n);
	return 0;
}
C
cat >Makefile <<'MAKE'
app: main.o add.o ; $(CC) -pthread -o $@ $^
%.o: %.c add.h ; $(CC) -O2 -Wall -Werror -c $<
test: app ; test "$$(./app)" = "3 42" && echo C passes
clean: ; rm -f app *.o
MAKE
git add . && git commit -qm 'Add add' && git push -q origin main
git checkout -qb topic && sed -i 's/a + b/b + a/' add.c && git commit -qam 'Swap' && git checkout -q main
echo note >NOTES && git add NOTES && git commit -qm 'Note' && git rebase -q main topic && git checkout -q main && git merge -q --no-ff -m 'Merge topic' topic
git stash list; echo change >>NOTES; git stash -q; git stash pop -q; git checkout -q NOTES
git worktree add -q ../tree topic && git worktree remove ../tree
git gc -q && git fsck --no-progress && git log --format='%s %an %H' && git push -q origin main && git status --short --branch

step build C
make -s -j2 test
file -b app | cut -d, -f1
make -s clean

step build Go
mkdir -p cmd/hello && cat >go.mod <<'MOD'
module example.org/project

go 1.19
MOD
cat >cmd/hello/main.go <<'GO'
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
)

func sum(n int) (s int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := 1; i <= n; i++ {
		wg.Add(1)
		go func(i int) { defer wg.Done(); mu.Lock(); s += i; mu.Unlock() }(i)
	}
	wg.Wait()
	return s
}

func main() {
	out, err := exec.Command("echo", "child").Output()
	fmt.Print(sum(100), " ", string(out))
	l, lerr := net.Listen("tcp", "127.0.0.1:0")
	if err != nil || lerr != nil {
		fmt.Println(err, lerr)
		os.Exit(1)
	}
	// A proxy: copies from one connection to another.
	go func() {
		c, _ := l.Accept()
		io.Copy(c, c)
		c.Close()
	}()
	c, _ := net.Dial("tcp", l.Addr().String())
	fmt.Fprint(c, "proxied\n")
	c.(*net.TCPConn).CloseWrite()
	io.Copy(os.Stdout, c)
}
GO
cat >cmd/hello/main_test.go <<'GO'
package main

import "testing"

func TestSum(t *testing.T) {
	if sum(10) != 55 {
		t.Fatal(sum(10))
	}
}
GO
export GOCACHE=/tmp/gocache
go vet ./... && go test -vet=off ./... | sed 's/\t[0-9.]*s$//' && go build -o hello ./cmd/hello && ./hello

step python
cat >test_work.py <<'PY'
import asyncio, multiprocessing, os, sqlite3, subprocess, tempfile, threading

def square(x):
    return x * x

def test_sqlite(tmp_path):
    db = sqlite3.connect(tmp_path / "x.db")
    db.execute("pragma journal_mode=wal")
    db.execute("create table t(a)")
    db.executemany("insert into t values (?)", [(i,) for i in range(1000)])
    db.commit()
    assert db.execute("select sum(a) from t").fetchone() == (499500,)

def test_processes():
    with multiprocessing.Pool(2) as pool:
        assert pool.map(square, range(5)) == [0, 1, 4, 9, 16]

def test_threads():
    got = []
    threads = [threading.Thread(target=got.append, args=(i,)) for i in range(20)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert sorted(got) == list(range(20))

def test_asyncio():
    async def main():
        async def echo(r, w):
            w.write(await r.readline())
            await w.drain()
            w.close()
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        r, w = await asyncio.open_connection(*server.sockets[0].getsockname())
        w.write(b"hello\n")
        return await r.readline()
    assert asyncio.run(main()) == b"hello\n"

def test_subprocess():
    assert subprocess.run(["sh", "-c", "echo $((6*7))"], capture_output=True, text=True).stdout == "42\n"

def test_files():
    with tempfile.TemporaryDirectory() as d:
        p = os.path.join(d, "f")
        open(p, "w").write("x")
        os.chmod(p, 0o600)
        os.link(p, p + "2")
        os.symlink(p, p + "3")
        assert os.stat(p).st_nlink == 2 and oct(os.stat(p).st_mode) == "0o100600"
PY
python3 -m pytest -q -p no:cacheprovider test_work.py | sed 's/ in [0-9.]*s//'
python3 -m venv /tmp/venv && /tmp/venv/bin/python -c 'import sys; print("venv", sys.prefix)' && /tmp/venv/bin/pip --version | cut -d' ' -f1
python3 -c 'import ssl, hashlib, ctypes, readline, zlib; print(hashlib.sha256(b"x").hexdigest()[:8])'

step node
cat >package.json <<'JSON'
{ "name": "project", "version": "1.0.0", "private": true, "scripts": { "test": "node test.js" } }
JSON
cat >test.js <<'JS'
const assert = require('assert'), cp = require('child_process'), http = require('http'), fs = require('fs');
const { Worker } = require('worker_threads');
const wait = (f) => new Promise(f);
(async () => {
  assert.strictEqual(cp.execFileSync('echo', ['child']).toString(), 'child\n');
  const n = await wait((r) => new Worker('require("worker_threads").parentPort.postMessage(6*7)', { eval: true }).on('message', r));
  assert.strictEqual(n, 42);
  const s = http.createServer((q, r) => r.end('served ' + q.url)).listen(0, '127.0.0.1');
  await wait((r) => s.on('listening', r));
  const body = await wait((r) => http.get({ port: s.address().port, host: '127.0.0.1', path: '/x' }, (m) => { let b = ''; m.on('data', (d) => (b += d)); m.on('end', () => r(b)); }));
  s.close();
  assert.strictEqual(body, 'served /x');
  fs.writeFileSync('node.out', 'x'.repeat(1 << 20));
  fs.copyFileSync('node.out', 'node.copy');
  assert.strictEqual(fs.statSync('node.copy').size, 1 << 20);
  fs.unlinkSync('node.out'); fs.unlinkSync('node.copy');
  const w = fs.watch('.'); w.close();
  console.log('node passes');
})().catch((e) => { console.error(e); process.exit(1); });
JS
npm test --silent
npm pack --silent --dry-run >/dev/null && echo npm packs

step server
python3 -m http.server -b 127.0.0.1 8123 >/dev/null 2>&1 &
server=$!
curl -sf --retry 50 --retry-connrefused --retry-delay 1 http://127.0.0.1:8123/NOTES
kill $server
wait $server || true
if curl -s -m 5 http://192.0.2.1/ ; then echo reached; else echo no way out; fi

step tools
printf 'b\na\nc\n' | sort | xargs -n 1 echo | tr a-z A-Z | paste -sd, -
find . -name '*.c' -newermt 2001-01-01 -printf '%f\n' | sort
awk 'BEGIN { for (i = 0; i < 3; i++) print i | "sort -r" }'
diff -u add.h NOTES | tail -n 3 || true
patch -s -p1 <<'DIFF'
--- a/NOTES
+++ b/NOTES
@@ -1 +1 @@
-note
+patched
DIFF
cat NOTES
timeout 0.1 sleep 10 || echo timeout $?
mkfifo /tmp/fifo && { echo through fifo >/tmp/fifo & } && cat /tmp/fifo
sqlite3 /tmp/x.db 'create table t(a); insert into t values (1),(2); select sum(a) from t;'
cp -a project.none . 2>/dev/null || echo no such file
ps -o comm= -p $$
strace -V >/dev/null && echo strace is there

step archive
cd ..
tar --sort=name --mtime=2001-01-01 --owner=0 --group=0 --numeric-owner --exclude=.git --exclude=__pycache__ --exclude=hello -cf - project | sha256sum | cut -c1-16
tar -czf out.tgz project && tar -xzf out.tgz -C /tmp && diff -r project /tmp/project && echo same
tar -cJf out.txz project/NOTES && tar -xJOf out.txz
(cd project && zip -qr ../out.zip add.c) && unzip -p out.zip add.c
rm -rf project/__pycache__
step done
