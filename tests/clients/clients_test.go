package clients

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
	"agentjail.dev/tests/workloads"
)

// A client is somebody else's program, and a use of it.
type client struct {
	name string
	// dir is the directory of testdata with run.sh, what it needs, and want: what it prints under runc. It is copied to a directory of uid 1000's,
	// which run.sh runs in.
	dir string
	// tools are programs that hack/tools builds, needs those that hack/deps.sh installs.
	tools, needs []string
	// work reports that it needs the image Work.
	work bool
	// jail is the runtime that is compared with runc, engine.Name if "".
	jail string
	// byName marks a use that names the runtime itself, as $RUNTIME states. For the others it is Docker's default, and they know nothing of it.
	byName bool
	// heavy marks what takes too long for every run: CLIENTS=all runs it.
	heavy bool
	// env is added to the environment.
	env []string
	// overContainerd marks a client of containerd's. $RUNTIME is the runtime's name for it.
	overContainerd bool
	// open reports what is known to differ and not meant to: it is logged, and fails nothing.
	open string
	// differs are the lines in which a jail is meant to differ.
	differs []workloads.Difference
}

// update has runc's output written to the files that tests compare with.
var update = flag.Bool("update", false, "write what clients print under runc to testdata/*/want")

// TestClients: each client does under runc what its file states, and the same in jails.
func TestClients(t *testing.T) {
	if !engine.UnderTestIsAgentjail() {
		t.Skip("the runtime under test is not agentjail")
	}
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			if c.heavy && os.Getenv("CLIENTS") != "all" {
				t.Log("not run, as it takes long: CLIENTS=all runs it")
				return
			}
			bin, missing := c.programs(t)
			if missing != "" {
				t.Log("not run:", missing)
				return
			}
			run := c.overDocker
			if c.overContainerd {
				run = c.runOverContainerd
			}
			jail := c.jail
			if jail == "" {
				jail = engine.Name
			}
			// Side by side, each over an engine of its own.
			printed := map[string]*string{"runc": new(string), jail: new(string)}
			t.Run("over", func(t *testing.T) {
				for runtime, out := range printed {
					t.Run(runtime, func(t *testing.T) {
						t.Parallel()
						*out = run(t, bin, runtime)
					})
				}
			})
			want := expected(t, c.dir, *printed["runc"])
			for _, problem := range problems(want, *printed[jail], c.differs) {
				if c.open != "" {
					t.Logf("%s, which is known (%s): %s", jail, c.open, problem)
					continue
				}
				t.Errorf("%s: %s", jail, problem)
			}
		})
	}
}

// problems are where two outputs differ other than the list states.
func problems(want, got string, differs []workloads.Difference) (out []string) {
	problem, unmet := workloads.Compare(want, got, differs)
	if problem != "" {
		return []string{problem}
	}
	for _, d := range unmet {
		out = append(out, fmt.Sprintf("does not differ as the list states: runc %q, jail %q (%s)", d.Runc, d.Jail, d.Why))
	}
	return out
}

// expected returns what testdata has as the output, having held runc's against it.
func expected(t *testing.T, dir, got string) string {
	t.Helper()
	file := filepath.Join("testdata", dir, "want")
	if *update {
		env.Check(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want := env.Read(t, file)
	for _, problem := range problems(string(want), got, nil) {
		t.Errorf("runc: %s (go test -update writes the file)", problem)
	}
	return string(want)
}

// programs makes a directory with links to the client's programs, or reports which is not to be had here.
func (c client) programs(t *testing.T) (bin, missing string) {
	t.Helper()
	bin = t.TempDir()
	for _, n := range c.needs {
		if _, err := os.Stat(n); err != nil {
			return "", n + " is not on this machine"
		}
	}
	for _, name := range c.tools {
		path, err := engine.Tool(name)
		env.Check(t, err)
		env.Check(t, os.Symlink(path, filepath.Join(bin, name)))
	}
	return bin, ""
}

// overDocker runs the client's script over Docker with a runtime and returns what it printed, standard error included, and its exit code.
func (c client) overDocker(t *testing.T, bin, runtime string) string {
	t.Helper()
	began := time.Now()
	defer func() { t.Logf("%s: %v", runtime, time.Since(began).Round(time.Second/10)) }()
	e, err := dockerFor(runtime)
	if err == nil && c.work {
		err = e.ImportWork()
	}
	env.Check(t, err)
	d := e.For(t)
	byDefault := runtime
	if c.byName {
		byDefault = "runc"
	}
	env.Check(t, e.SetDefault(byDefault))
	out := c.script(t, d.Engine, bin, append(d.Command(context.Background()).Env, "RUNTIME="+runtime))
	if left := d.Must("ps", "-aq"); left != "" {
		t.Errorf("%s: containers are left: %s", runtime, d.Must("ps", "-a", "--format", "{{.Image}} {{.Names}} {{.Status}}"))
		d.Must(append([]string{"rm", "-f", "-v"}, strings.Fields(left)...)...)
	}
	return out
}

// scriptWait bounds a whole script, of dozens of commands. Only what hangs reaches it.
const scriptWait = 15 * time.Minute

// script runs the client's script in a copy of its directory, on the engine's network.
func (c client) script(t *testing.T, e *engine.Engine, bin string, env []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), scriptWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "run.sh")
	// The group: what the script started goes with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Dir = workspace(t, c.dir)
	cmd.Env = append(env, "PATH="+bin+":/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME="+t.TempDir(), "LC_ALL=C.UTF-8")
	cmd.Env = append(cmd.Env, c.env...)
	out, code := output(t, e, cmd)
	if ctx.Err() != nil {
		t.Errorf("hangs after %v", scriptWait)
	}
	return out + fmt.Sprintf("exit code %d\n", code)
}

// output runs a command where the engine's published ports are, and returns all that it printed.
func output(t *testing.T, e *engine.Engine, cmd *exec.Cmd) (string, int) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "output")
	f, err := os.Create(log)
	env.Check(t, err)
	defer f.Close()
	cmd.Stdout, cmd.Stderr = f, f
	env.Check(t, e.InNetns(cmd.Start))
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Error(err)
	}
	text := env.Read(t, log)
	return string(text), cmd.ProcessState.ExitCode()
}

// workspace copies a directory of testdata and gives it to uid 1000, as a developer's is.
func workspace(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "work")
	env.Check(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))))
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, 1000, 1000)
	})
	env.Check(t, err)
	lib, err := os.ReadFile("testdata/lib.sh")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "lib.sh"), lib, 0o644)
	}
	env.Check(t, err)
	return dir
}
