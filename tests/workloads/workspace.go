package workloads

// workspaceWork is what is done in a project's directory all day, with everything it writes kept there: caches,
// databases, links between directories, hooks and filters.
const workspaceWork = `set -eu; w=$PWD
export GIT_AUTHOR_DATE='2001-01-01T00:00:00Z' GIT_COMMITTER_DATE='2001-01-01T00:00:00Z' GIT_CONFIG_GLOBAL=$w/gc
git config --global user.email a@example.org; git config --global user.name A; git config --global init.defaultBranch main; git config --global protocol.file.allow always; git config --global core.fsync none
git init -q lib; cd lib; echo lib > l; git add l; git commit -qm lib; cd ..
git init -q r; cd r
git config filter.up.clean 'tr a-z A-Z'; git config filter.up.smudge 'tr A-Z a-z'; echo '*.big filter=up' > .gitattributes; echo pointer > x.big; git add .; git commit -qm filtered; git cat-file -p HEAD:x.big; rm x.big; git checkout -q x.big; cat x.big
git submodule --quiet add "$w/lib" sub 2>/dev/null; git commit -qm sub; git submodule status | cut -c1-8 | wc -l
git worktree add -q ../tree -b side 2>/dev/null; echo tree > ../tree/t; git -C ../tree add t; git -C ../tree commit -qm tree; git merge -q side; git worktree remove ../tree; git log --format=%s | paste -sd, -
printf '#!/bin/sh\necho hook ran\n' > hook; chmod 755 hook; mkdir hooks; mv hook hooks/post-commit; git -c core.hooksPath=hooks commit -q --allow-empty -m hooked; git clone -q --recurse-submodules . ../clone 2>/dev/null; ls ../clone/sub; git gc -q; git fsck --no-progress; cd ..
sqlite3 d.db 'pragma journal_mode=wal; pragma synchronous=off; create table t(a); insert into t values (1), (2);'; sqlite3 d.db 'select sum(a) from t; pragma wal_checkpoint(truncate);'
python3 - <<'EOF'
import sqlite3, threading
def add():
    c = sqlite3.connect("d.db", timeout=60); c.execute("pragma synchronous=off")
    for i in range(5):
        with c: c.execute("insert into t values (1)")
ts = [threading.Thread(target=add) for _ in range(3)]; [t.start() for t in ts]; [t.join() for t in ts]
print(sqlite3.connect("d.db").execute("select sum(a) from t").fetchone()[0])
EOF
mkdir m; cd m; for i in 1 2 3 4 5 6; do printf 'int f%d(void) { return %d; }\n' $i $i > f$i.c; done; printf '#include <stdio.h>\nint f1(void), f6(void);\nint main(void) { printf("%%d\\n", f1() + f6()); }\n' > main.c
printf 'o = $(patsubst %%.c,%%.o,$(wildcard *.c))\napp: $o\n\t@$(CC) -o $@ $^\n%%.o: %%.c\n\t@$(CC) -c $<\n' > Makefile; make -s -j4; ./app; touch f3.c; make -n | grep -c f3.o; cd ..
mkdir -p store/a@1/node_modules/a store/b@1/node_modules/b p/node_modules; echo 'module.exports = require("b") + 1' > store/a@1/node_modules/a/index.js; echo 'module.exports = 41' > store/b@1/node_modules/b/index.js; ln -s ../../b@1/node_modules/b store/a@1/node_modules/b; mkdir p/node_modules/.store; cp -rl store/. p/node_modules/.store; ln -s .store/a@1/node_modules/a p/node_modules/a; (cd p; node -e 'console.log(require("a"))'); stat -c %h p/node_modules/.store/b@1/node_modules/b/index.js
mkdir n package; printf '{ "name": "n", "version": "1.0.0" }\n' > n/package.json; printf '{ "name": "dep", "version": "1.0.0", "scripts": { "install": "id -u > built" } }\n' > package/package.json; tar czf dep.tgz package; (cd n; npm install --cache "$w/npm" --silent --no-audit --no-fund --offline ../dep.tgz > /dev/null; ls node_modules/dep; [ "$(cat node_modules/dep/built)" = "$(id -u)" ] && echo as who runs it)
python3 -m venv --without-pip v; v/bin/python -c 'import sys; print(sys.prefix != sys.base_prefix)'; prove -V > /dev/null; mkdir t; printf 'use Test::More tests => 2; ok(1); is(6 * 7, 42);\n' > t/a.t; prove -j2 t 2>&1 | grep Result
mkfifo ff; (echo pipe > ff &); cat ff; python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.bind("s.sock"); print("socket")'; rm s.sock; chmod 600 d.db; stat -c %a d.db; touch -d @5 d.db; stat -c %Y d.db; truncate -s 1M big; fallocate -l 2M big2; stat -c %s big big2; dd if=/dev/zero of=direct bs=4096 count=2 2>/dev/null; cp --reflink=auto big big3; cmp big big3; mv big3 t/; ln -f big t/big3; python3 -c 'import mmap; f = open("big", "r+b"); m = mmap.mmap(f.fileno(), 0); m[:2] = b"mm"; m.flush(); print(open("big", "rb").read(2))'; find . -type l | wc -l`
