package main

import (
	"context"
	"fmt"
	"strings"
)

// workRounds is how often real work is measured: a round of it takes longer than all others.
const workRounds = 8

// A task is something that an agent does, as scripts for sh in an empty directory: what is made
// ready, once for each container, and what is timed.
type task struct{ name, prepare, work string }

var tasks = []task{
	{
		"go build", `export GOPATH=$PWD/gp GOFLAGS=-mod=mod CGO_ENABLED=0 GO111MODULE=on GOTOOLCHAIN=local
mkdir m m/p; printf 'module m\n\ngo 1.19\n' > m/go.mod
for i in 1 2 3 4; do mkdir m/p/p$i; { echo "package p$i"; for j in $(seq 120); do echo "func F$j(a []int) (n int) { for i, v := range a { if v > i*$j { n += v ^ $j } else { n -= i % ($j+1) } }; return }"; done; } > m/p/p$i/f.go; done
{ echo 'package main'; echo 'import ('; for i in 1 2 3 4; do echo "\"m/p/p$i\""; done; echo ')'; echo 'func main() {'; for i in 1 2 3 4; do echo "println(p$i.F1(nil))"; done; echo '}'; } > m/main.go
GOCACHE=$PWD/base go build -o /dev/null ./m 2>/dev/null || (cd m && GOCACHE=$PWD/../base go build -o /dev/null .)`,
		`export GOPATH=$PWD/gp CGO_ENABLED=0 GOCACHE=$PWD/base; cd m; n=$(date +%N); for i in 1 2 3 4; do echo "func G$n() {}" >> p/p$i/f.go; done; go build -o x . && ./x 2>/dev/null; rm x; for i in 1 2 3 4; do sed -i '$d' p/p$i/f.go; done`,
	},
	{
		"gcc build", `for i in $(seq 5); do { echo '#include <stdio.h>'; echo '#include <stdlib.h>'; echo '#include <string.h>'; for j in $(seq 30); do echo "int f${i}_$j(const char *s) { int n = 0; while (*s) { n = n * 31 + *s++; if (n % $j == 0) n ^= $i; } return n + (int)strlen(s); }"; done; } > f$i.c; done
echo 'int main(void) { return 0; }' > main.c`,
		`for f in *.c; do gcc -O1 -c $f || exit 1; done; gcc -o x *.o && ./x && rm x *.o`,
	},
	{
		"npm install", `mkdir pack app; for i in $(seq 300); do mkdir -p pack/package/lib/d$((i%20)); echo "module.exports = $i" > pack/package/lib/d$((i%20))/f$i.js; done
echo '{"name":"local","version":"1.0.0"}' > pack/package/package.json; tar -C pack -czf local.tgz package
echo '{"name":"app","version":"1.0.0"}' > app/package.json`,
		`cd app && npm_config_cache=$PWD/../cache npm install --offline --no-audit --no-fund --no-update-notifier ../local.tgz && rm -rf node_modules package-lock.json && echo '{"name":"app","version":"1.0.0"}' > package.json`,
	},
	{"python unittest", `cat > t.py <<'EOF'
import json, os, re, subprocess, tempfile, threading, unittest
class T(unittest.TestCase):
    def test_files(self):
        with tempfile.TemporaryDirectory() as d:
            for i in range(300):
                with open(f"{d}/{i}", "w") as f: f.write("x" * 1000)
            self.assertEqual(len(os.listdir(d)), 300)
            self.assertEqual(sum(os.stat(f"{d}/{i}").st_size for i in range(300)), 300000)
    def test_subprocess(self):
        for i in range(20): self.assertEqual(subprocess.run(["true"]).returncode, 0)
    def test_compute(self):
        d = {str(i): list(range(20)) for i in range(3000)}
        for _ in range(5): self.assertEqual(json.loads(json.dumps(d)), d)
        self.assertEqual(len(re.findall(r"\d+", json.dumps(d))), 63000)
    def test_threads(self):
        ts = [threading.Thread(target=lambda: None) for _ in range(200)]
        [t.start() for t in ts]; [t.join() for t in ts]
unittest.main()
EOF`, `python3 t.py`},
	{"sqlite inserts", `cat > s.py <<'EOF'
import os, sqlite3
c = sqlite3.connect("x.db"); c.execute("create table t(a integer primary key, b text)"); c.execute("create index i on t(b)"); c.commit()
for i in range(200):
    c.execute("insert into t(b) values(?)", (str(i) * 10,)); c.commit()
c.executemany("insert into t(b) values(?)", ((str(i * 7919 % 100003),) for i in range(60000))); c.commit()
print(c.execute("select count(*) from t where b > '5'").fetchone()); c.close(); os.unlink("x.db")
EOF`, `python3 s.py`},
	{
		"git status of 10000 files", `git init -q r; cd r; for d in $(seq 100); do mkdir d$d; for f in $(seq 100); do echo $f > d$d/f$f; done; done; git -c gc.auto=0 add . ; git -c user.email=a@example.org -c user.name=a -c gc.auto=0 commit -qm one`,
		`cd r; for i in 1 2 3 4 5; do git status --short || exit 1; done`,
	},
}

// script is what runs a task in a directory, for bash: its output is dropped, and the time that it
// took is printed in milliseconds, and what of it the processors worked, which other programs on
// the machine change less.
func (t task) script(in string, prepare bool) string {
	dir := in + "/bench-" + strings.ReplaceAll(t.name, " ", "-")
	if prepare {
		return fmt.Sprintf("set -e; export HOME=/tmp; mkdir %s; cd %s\n%s", dir, dir, t.prepare)
	}
	return fmt.Sprintf(`export HOME=/tmp; cd %s || exit 1
work() {
%s
}
TIMEFORMAT='%%R %%U %%S'
{ time { (work) > /tmp/bench-out 2>&1; }; } 2> /tmp/bench-took || { cat /tmp/bench-out; exit 1; }
awk '{ printf "%%.1f\t%s\n%%.1f\t%s, processor time\n", $1 * 1000, ($2 + $3) * 1000 }' /tmp/bench-took`, dir, t.work, t.name, t.name)
}

// work measures what agents do.
func (b *bench) work(ctx context.Context) error {
	root, err := b.workRoot()
	if err != nil {
		b.res.leftOut("real work", err)
		return nil
	}
	// Over one delegate: none has a part in what a container does once it runs, but for the shape
	// of its filter.
	all := b.found
	b.found = all[:1]
	defer func() { b.found = all }()
	return b.running(root, "", []kind{bare, bareDocker, jailedDocker}, func(subjects []*subject) error {
		for _, s := range subjects {
			if err := b.makeReady(s, "/tmp", tasks); err != nil {
				return err
			}
		}
		return b.steadyRounds(ctx, "work", "ms", min(b.rounds, workRounds), subjects, func(s *subject) ([]reading, error) {
			return b.doTasks(s, "/tmp", tasks)
		})
	})
}

// makeReady prepares tasks in a directory of a container.
func (b *bench) makeReady(s *subject, in string, tasks []task) error {
	for _, t := range tasks {
		if _, err := b.output(s, "/bin/bash", "-c", t.script(in, true)); err != nil {
			return fmt.Errorf("make %s ready: %w", t.name, err)
		}
	}
	return nil
}

// doTasks measures tasks in a directory of a container.
func (b *bench) doTasks(s *subject, in string, tasks []task) (out []reading, err error) {
	for _, t := range tasks {
		text, err := b.output(s, "/bin/bash", "-c", t.script(in, false))
		if err != nil {
			return nil, err
		}
		got, err := readings(text)
		if err != nil {
			return nil, err
		}
		out = append(out, got...)
	}
	return out, nil
}
