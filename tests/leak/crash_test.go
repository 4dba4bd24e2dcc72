package leak

import (
	"io/fs"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
)

// crashEnv names the step at which a runtime built with the tag crashtest kills itself.
const crashEnv = "AGENTJAIL_TEST_CRASH"

// crashRuntime builds the runtime with the tag crashtest.
var crashRuntime = sync.OnceValues(func() (string, error) {
	out := filepath.Join(filepath.Dir(runtimePath), "crashtest", "agentjail") // the name matters: agentjail-NAME is a profile
	return out, engine.Build("./cmd/agentjail", out, "-tags", "crashtest")
})

// crashPoints finds the steps in the source, so that a new one is tried without anybody remembering this list.
func crashPoints(t *testing.T) []string {
	t.Helper()
	root, err := engine.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	call := regexp.MustCompile(`crash\.Point\("([a-z.-]+)"\)`)
	var points []string
	for _, dir := range []string{"runtime", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(p string, e fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(p, ".go") {
				return err
			}
			text, err := os.ReadFile(p)
			for _, m := range call.FindAllStringSubmatch(string(text), -1) {
				points = append(points, m[1])
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(points) < 5 {
		t.Fatalf("only %d steps to crash at: %v", len(points), points)
	}
	return points
}

// TestCrash kills the runtime at each of its steps. After what an engine does then, a forced delete, and one gc, nothing
// is left; and the same id can be used again.
func TestCrash(t *testing.T) {
	if os.Getenv(engine.RuntimeEnv) != "" {
		t.Skip("the runtime under test was not built here")
	}
	path, err := crashRuntime()
	if err != nil {
		t.Fatal(err)
	}
	for _, point := range crashPoints(t) {
		t.Run(point, func(t *testing.T) {
			id := newID(0) + "-" + strings.ReplaceAll(point, ".", "-")
			sound := caller{}
			dying := caller{path: path, env: []string{crashEnv + "=" + point}}
			dir := bundle(t, spec(id, "/bin/sleep", "3600"))
			before := take(t)
			died := false
			// The calls of an engine, in order, up to the one that dies.
			for _, args := range [][]string{
				{"create", "--bundle", dir, "--pid-file", dir + "/pid", id},
				{"start", id},
				{"exec", id, "/bin/true"},
				{"update", "--pids-limit", "10", id},
				{"kill", id, "KILL"},
				{"delete", "--force", id},
			} {
				if r := dying.call(t, args...); r.signal == syscall.SIGKILL {
					died = true
					break
				} else if r.code != 0 {
					t.Fatal(r)
				}
				if args[0] == "kill" {
					reap(t, readPid(t, dir+"/pid"))
				}
			}
			if !died {
				t.Fatalf("no call reached %s", point)
			}
			cleanUp(t, sound, id, before)
			cycle(t, id)
			unchanged(t, before)
			removeCgroups()
		})
	}
}

// cleanUp does what an engine does after a crash of the runtime, then gc, and expects nothing to be left.
func cleanUp(t *testing.T, c caller, id string, before snapshot) {
	t.Helper()
	if r := c.call(t, "delete", "--force", id); r.code != 0 {
		t.Errorf("forced delete after the crash: %v", r)
	}
	if r := c.call(t, "gc"); r.code != 0 {
		t.Errorf("gc: %v", r)
	}
	reapAll()
	unchanged(t, before)
}

// reapAll takes the exit status of all children that have ended: containers whose runtime died came to this process.
func reapAll() {
	procs, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, p := range procs {
		text, err := os.ReadFile(p)
		if err != nil {
			continue
		}
		f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(p)))
		if len(f) > 1 && f[0] == "Z" && f[1] == strconv.Itoa(os.Getpid()) {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}

// TestCrashAnywhere kills the runtime at moments of chance. The moment is no synchronisation: whatever was reached, the
// outcome has to be the same.
func TestCrashAnywhere(t *testing.T) {
	if !engine.UnderTestIsAgentjail() {
		t.Skip("the runtime under test is not agentjail")
	}
	rounds := 30
	if testing.Short() {
		rounds = 5
	}
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewSource(seed))
	c := caller{}
	before := take(t)
	for i := range rounds {
		id := newID(i) + "-any"
		dir := bundle(t, spec(id, "/bin/sleep", "3600"))
		c.killed(t, time.Duration(rng.Int63n(int64(120*time.Millisecond))), "create", "--bundle", dir, "--pid-file", dir+"/pid", id)
		if rng.Intn(2) == 0 {
			c.killed(t, time.Duration(rng.Int63n(int64(40*time.Millisecond))), "start", id)
			c.killed(t, time.Duration(rng.Int63n(int64(40*time.Millisecond))), "delete", "--force", id)
		}
		if r := c.call(t, "delete", "--force", id); r.code != 0 {
			t.Errorf("forced delete after the crash: %v", r)
		}
		reapAll()
	}
	if r := c.call(t, "gc"); r.code != 0 {
		t.Errorf("gc: %v", r)
	}
	reapAll()
	unchanged(t, before)
	removeCgroups()
}

// killed calls the runtime and kills it after d, if it still runs then.
func (c caller) killed(t testing.TB, d time.Duration, args ...string) {
	t.Helper()
	cmd := exec.Command(runtimePath, append([]string{"--root", filepath.Join(base, "state")}, args...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(d, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	timer.Stop()
}
