package check

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"agentjail.dev/runtime/kernel/hostfacts"
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/state"
)

func TestIDPool(t *testing.T) {
	pool := idmap.Pool{First: 1 << 20, Count: 2 * idmap.RangeSize}
	in := strconv.Itoa(int(pool.First) + 70000)
	for _, c := range []struct {
		name  string
		files map[string]string
		used  []string
		ok    bool
		warn  bool
		has   string
	}{
		{"untouched host", map[string]string{"passwd": "root:x:0:0::/:/bin/sh\n", "group": "root:x:0:\n"}, nil, true, false, "2 of 2 blocks free"},
		{"no files at all", nil, nil, true, false, "2 of 2"},
		{"a user in the pool", map[string]string{"passwd": "ann:x:" + in + ":100::/:/bin/sh\n"}, nil, false, false, "user ann"},
		{"a group in the pool", map[string]string{"group": "devs:x:" + in + ":\n"}, nil, false, false, "group devs"},
		{"beside the pool", map[string]string{"passwd": "a:x:" + strconv.Itoa(1<<20-1) + ":0::/:\nb:x:" + strconv.Itoa(1<<20+2*idmap.RangeSize) + ":0::/:\n"}, nil, true, false, "2 of 2"},
		{"sub-ids inside", map[string]string{"subuid": "ann:" + in + ":10\n"}, nil, false, true, "sub-uids of ann"},
		{"sub-ids around", map[string]string{"subgid": "ann:1:4000000000\n"}, nil, false, true, "sub-gids of ann"},
		{"our own sub-ids", map[string]string{"subuid": "agentjail:1048576:131072\n"}, nil, true, false, "registered"},
		{"sub-ids beside", map[string]string{"subuid": "ann:100000:65536\n"}, nil, true, false, "2 of 2"},
		{"one block taken", nil, []string{"1048576", "garbage", "42"}, true, false, "1 of 2"},
		{"all blocks taken", nil, []string{"1048576", "1114112"}, false, false, "all 2 blocks"},
		{"broken lines", map[string]string{"passwd": "x\n::::\nann:x:abc:1\n", "subuid": "a:b:c\n"}, nil, true, false, "2 of 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for n, text := range c.files {
				if err := os.WriteFile(filepath.Join(dir, n), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			e := &env{etc: dir, store: state.Store{Root: dir}, policy: policy.Default()}
			e.policy.Userns.Pool = pool
			for _, u := range c.used {
				if err := os.MkdirAll(filepath.Join(dir, "ids", u), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			a := idPool(e)
			if a.ok != c.ok || a.warn != c.warn || !strings.Contains(a.detail, c.has) {
				t.Errorf("got %+v, want ok %v, warn %v, %q", a, c.ok, c.warn, c.has)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	all := hostfacts.Cgroup{V2: true, Pids: true, Memory: true, Swap: true, CPU: true, IO: true}
	for _, c := range []struct {
		name, limit string
		cg          hostfacts.Cgroup
		files       []string
		ok          bool
	}{
		{"version 2, with the file", "io", all, []string{"a.slice/io.max"}, true},
		{"version 2, without throttling", "io", all, []string{"a.slice/io.weight"}, false},
		{"version 2, no groups yet", "io", all, nil, true},
		{"version 2, no controller", "pids", hostfacts.Cgroup{V2: true}, nil, false},
		{"version 1", "memory", hostfacts.Cgroup{Memory: true}, nil, true},
		{"version 1, no controller", "cpu", hostfacts.Cgroup{Memory: true}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, f := range c.files {
				path := filepath.Join(dir, f)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if a := limitOn(c.limit)(&env{cgroup: dir, host: hostfacts.Facts{Cgroup: c.cg}}); a.ok != c.ok {
				t.Errorf("got %+v", a)
			}
		})
	}
}

func TestNoSwap(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]bool{
		"Filename\tType\tSize\n":                        true,
		"Filename\tType\tSize\n/dev/sda2\tpartition\t1": false,
	} {
		path := filepath.Join(dir, "swaps")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if noSwap(path) != want {
			t.Errorf("%q: want %v", text, want)
		}
	}
	if noSwap(filepath.Join(dir, "none")) {
		t.Error("an unreadable list counts as no swap")
	}
}

func TestPolicyFile(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.toml"), filepath.Join(dir, "bad.toml")
	for path, text := range map[string]string{good: "[limits]\npids = 10\n", bad: "[limits]\npidz = 10\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	needRoot(t) // a policy must be root's
	for _, c := range []struct {
		o   Options
		ok  bool
		has string
	}{
		{Options{PolicyPath: good}, true, "is valid"},
		{Options{PolicyPath: bad}, false, "limits.pidz"},
		{Options{PolicyPath: filepath.Join(dir, "none")}, false, "no such file"},
		{Options{PolicyPath: os.DevNull}, true, "valid"},
		{Options{PolicyPath: good, PolicyName: "x"}, false, "policies.x"},
	} {
		a := policyFile(newEnv(c.o))
		if a.ok != c.ok || !strings.Contains(a.detail, c.has) {
			t.Errorf("%+v: %+v", c.o, a)
		}
	}
}

func TestStateDir(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	open := filepath.Join(dir, "open")
	others := filepath.Join(dir, "others")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{open, others} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(others, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, root string
		good       bool
	}{
		{"writable", dir, true},
		{"not yet made", filepath.Join(dir, "new"), true},
		{"a file", file, false},
		{"writable by all", open, false},
		{"somebody's", others, false},
		{"no parent", filepath.Join(dir, "no", "new"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := stateDir(&env{store: state.Store{Root: c.root}})
			if (a.ok || a.warn) != c.good { // a warning where /tmp is a disk
				t.Errorf("got %+v", a)
			}
		})
	}
}

func TestDockerRoot(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "docker"), 0o755); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{"data-root": "/srv/docker/"}`: "/srv/docker",
		`{"data-root": "docker"}`:       "",
		`{"data-root": 5}`:              "",
		`{}`:                            "",
		`{`:                             "",
	} {
		if err := os.WriteFile(filepath.Join(dir, "docker/daemon.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := (&env{etc: dir}).dockerRoot(); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestLastStep(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	e := &env{opts: Options{Programs: dir}}
	expect := func(what string, want bool, has string) {
		t.Helper()
		if a := lastStep(e); a.ok != want || !strings.Contains(a.detail, has) || !a.ok && a.remedy == "" {
			t.Errorf("%s: %+v", what, a)
		}
	}
	path := filepath.Join(dir, "agentjail-enter")
	expect("nothing there", false, "is missing")
	if err := os.Symlink("/bin/true", path); err != nil {
		t.Fatal(err)
	}
	expect("a link", false, "too many levels of symbolic links")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	expect("there", true, path)
	if err := os.Chmod(path, 0o757); err != nil {
		t.Fatal(err)
	}
	expect("others can write it", false, "agentjail-enter")
	if err := os.Chown(path, 1, 1); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	expect("somebody else's", false, "agentjail-enter")
}

// TestPolicyMistakes: the probe of the policy file lists all mistakes of the file. It fails for
// those of the policy in use, and warns of those of others.
func TestPolicyMistakes(t *testing.T) {
	needRoot(t)
	path := filepath.Join(t.TempDir(), "config.toml")
	write := func(text string) answer {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return policyFile(newEnv(Options{PolicyPath: path}))
	}
	a := write("limits.pids = 5\n[policies.a]\nlimits.pid = 1\n[policies.b]\nnetwork.mode = \"bogus\"\n[credentials.c]\nhosts = [\"a.example.test\"]\nheader = \"x-a\"\nfrom = \"file:/nonexistent\"\n")
	if a.ok || !a.warn || !strings.Contains(a.detail, "line 3: [policies.a]") || !strings.Contains(a.detail, "line 5: [policies.b]") || !strings.Contains(a.detail, "line 9: credentials.c") {
		t.Errorf("%+v", a)
	}
	if a = write("limits.pid = 1\n[policies.a]\nlimits.pid = 1\n"); a.ok || a.warn || !strings.Contains(a.detail, "line 1:") || !strings.Contains(a.detail, "line 3: [policies.a]") {
		t.Errorf("%+v", a)
	}
	if a = write("limits.pids = 5\n"); !a.ok {
		t.Errorf("%+v", a)
	}
}
