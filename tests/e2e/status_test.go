package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// delegateInUse is the path of the delegate that agentjail has here, and its version line.
func delegateInUse(t *testing.T) (path, version string) {
	t.Helper()
	out, _ := ownVerb(t, "check", "--json")
	var r struct {
		Results []struct{ Name, Detail string }
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	for _, x := range r.Results {
		if x.Name == "delegate" {
			path, rest, _ := strings.Cut(x.Detail, " (")
			version, _, _ := strings.Cut(rest, ")")
			return path, version
		}
	}
	t.Fatalf("no delegate in %s", out)
	return "", ""
}

// TestExitStatusIsRuncs: called as runc is, agentjail ends with runc's exit status. Where the delegate is runc it is called as well, so
// that these are runc's indeed.
func TestExitStatusIsRuncs(t *testing.T) {
	needAgentjail(t)
	under := env.Get(t, engine.UnderTest)
	callers := map[string]string{"agentjail": under}
	inUse, version := delegateInUse(t)
	runc := strings.HasPrefix(version, "runc ")
	if runc {
		callers[version] = inUse
	}
	for name, path := range callers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := engine.NewBundle(t, docker.Dir)
			c := engine.Caller{Path: path, Args: []string{"--root", filepath.Join(b.Dir, "state")}}
			id, other := b.ID(), b.ID()
			t.Cleanup(func() { _, _, _ = b.Call(t, c, "delete", "--force", id) })
			b.Spec.Process.Args = []string{"sleep", "3600"}
			for _, x := range []struct {
				want int
				args string
			}{
				{0, "run --detach --bundle BUNDLE ID"},
				{255, "exec ID /no/such/program"},
				{255, "exec ID no-such-program"},
				{255, "exec ID /etc"},
				{255, "exec ID /etc/not-executable"},
				{255, "exec --cwd /no/such ID true"},
				{255, "exec --process /no/such ID"},
				{255, "exec OTHER true"},
				{1, "exec --no-such-option ID true"},
				{0, "exec ID true"},
				{1, "exec ID false"},
				{0, "exec --detach ID true"},
				{1, "run --bundle BUNDLE ID"},
				{1, "create --bundle /no/such OTHER"},
				{1, "start ID"},
				{1, "start OTHER"},
				{0, "state ID"},
				{1, "state OTHER"},
				{1, "kill OTHER"},
				{1, "pause OTHER"},
				{1, "resume OTHER"},
				{1, "update --pids-limit 9 OTHER"},
				{1, "exec"},
				{1, "kill ID NOSUCH"},
				{1, "ps OTHER"},
				{1, "delete ID"},
				{1, "delete OTHER"},
				{0, "delete --force OTHER"},
				{0, "delete --force ID"},
			} {
				if (strings.HasPrefix(x.args, "kill ID") || strings.HasPrefix(x.args, "ps")) && !runc {
					continue // the delegate answers: crun takes any word for a signal, and has a status of its own for ps
				}
				if x.args == "exec" && name != "agentjail" {
					continue // runc prints its help for it, and 1.5 has another status
				}
				words := strings.Fields(strings.NewReplacer("BUNDLE", b.Dir, "ID", id, "OTHER", other).Replace(x.args))
				if got := status(t, b, c, words...); got != x.want {
					t.Errorf("%s: status %d, want %d", x.args, got, x.want)
				}
			}
			for _, x := range []struct {
				want    int
				program []string
			}{{0, []string{"true"}}, {42, []string{"sh", "-c", "exit 42"}}, {1, []string{"/no/such/program"}}, {1, []string{"/etc/not-executable"}}} {
				b.Spec.Process.Args = x.program
				if got := status(t, b, c, "run", "--bundle", b.Dir, b.ID()); got != x.want {
					t.Errorf("run of %v: status %d, want %d", x.program, got, x.want)
				}
			}
		})
	}
}

// status is the exit status of a call.
func status(t *testing.T, b *engine.Bundle, c engine.Caller, args ...string) int {
	t.Helper()
	r := b.Result(t, c, args...)
	t.Log(r)
	return r.Code
}

func exitCode(t *testing.T, err error) int {
	t.Helper()
	var ended *exec.ExitError
	if !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return ended.ExitCode()
}

// TestPathsFromCallersDirectory: names of files are meant from the caller's directory, and options can stand behind the id, as with runc.
func TestPathsFromCallersDirectory(t *testing.T) {
	needAgentjail(t)
	t.Parallel()
	under := env.Get(t, engine.UnderTest)
	b := engine.NewBundle(t, docker.Dir)
	c := engine.Caller{Path: under, Args: []string{"--debug", "--root", "state", "--log", "log"}}
	id := b.ID()
	b.Spec.Process.Args = []string{"sleep", "3600"}
	b.Write(t)
	call := func(args ...string) string {
		t.Helper()
		cmd := b.Command(context.Background(), c, args...) // also after the test
		cmd.Dir = b.Dir
		out, err := os.CreateTemp(b.Dir, "out-") // no pipe: the container keeps it
		env.Check(t, err)
		defer out.Close()
		cmd.Stdout, cmd.Stderr = out, out
		err = cmd.Run()
		said := string(env.Read(t, out.Name()))
		if err != nil {
			t.Fatalf("%v: %v %s", args, err, said)
		}
		return said
	}
	t.Cleanup(func() { call("delete", id, "--force") })
	call("run", id, "--detach", "--pid-file", "pid")
	if pid := string(env.Read(t, filepath.Join(b.Dir, "pid"))); !strings.Contains(call("state", id), `"pid": `+pid) {
		t.Errorf("the pid file states %s: %s", pid, call("state", id))
	}
	call("exec", "--detach", "--pid-file", "exec-pid", id, "sleep", "1")
	if string(env.Read(t, filepath.Join(b.Dir, "exec-pid"))) == "" {
		t.Error("exec left no pid")
	}
	if _, err := os.Stat(filepath.Join(b.Dir, "state", id)); err != nil {
		t.Errorf("the delegate's state: %v", err)
	}
	_, version := delegateInUse(t)
	first := `[{"id":` // crun's list
	if strings.HasPrefix(version, "runc ") {
		first = `[{"ociVersion":`
	}
	if log := string(env.Read(t, filepath.Join(b.Dir, "log"))); strings.HasPrefix(version, "runc ") && strings.Count(log, "level=debug") == 0 {
		t.Errorf("nothing of the delegate's in the log: %s", log)
	}
	call("update", id, "--pids-limit", "33")
	found := false
	for line := range strings.Lines(string(env.Read(t, "/proc/"+string(env.Read(t, filepath.Join(b.Dir, "pid")))+"/cgroup"))) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		limit, err := os.ReadFile("/sys/fs/cgroup/" + f[1] + f[2] + "/pids.max")
		found = found || err == nil && string(limit) == "33\n"
	}
	if !found {
		t.Error("the limit is not 33")
	}
	if list := call("list", "--format", "json"); !strings.HasPrefix(list, first) {
		t.Errorf("list's keys are in an order of their own: %s", list)
	}
	// A process that comes from a command, by a pipe.
	r, w, err := os.Pipe()
	env.Check(t, err)
	defer r.Close()
	if _, err := w.WriteString(`{"args": ["sh", "-c", "exit 7"], "cwd": "/", "env": ["PATH=/bin"]}`); err != nil {
		t.Fatal(err)
	}
	w.Close()
	cmd := b.Command(t.Context(), c, "exec", "--process", "/dev/fd/3", id)
	cmd.Dir, cmd.ExtraFiles = b.Dir, []*os.File{r}
	if err := cmd.Run(); exitCode(t, err) != 7 {
		t.Errorf("a process from a pipe: %v", err)
	}
}
