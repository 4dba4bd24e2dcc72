// Package inside is tried in the virtual machine (hack/vm): it tries what only such a machine can
// show, with control groups version 2, Docker 26, crun, podman, and AppArmor or SELinux in force.
// It changes the machine as it likes, so everywhere else all of it skips.
package inside

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// vmEnv is set in the virtual machine, to the security module that it was booted with.
const vmEnv = "AGENTJAIL_VM"

// image is what all containers run.
const image = engine.Busybox

func TestMain(m *testing.M) {
	code := m.Run()
	for _, id := range shared {
		_ = exec.Command("docker", "rm", "-f", id).Run()
	}
	if err := engine.RemoveBuilt(); err != nil {
		fmt.Fprintln(os.Stderr, "clean up:", err)
	}
	os.Exit(code)
}

// any is for tests that are run whatever the security module is. Those that do not depend on it
// name AppArmor: under emulation nothing is run twice without need.
const any = ""

// need skips a test outside of the virtual machine, or where that has another security module than
// the one named, and sees to it that Docker runs and has its image.
func need(t *testing.T, module string) {
	t.Helper()
	has := os.Getenv(vmEnv)
	if has == "" {
		t.Skip("only in the virtual machine (make test-vm)")
	}
	if module != any && has != module {
		t.Skipf("is run with %s, and this machine has %s", module, has)
	}
	env.Check(t, dockerUp())
}

var dockerUp = sync.OnceValue(func() error {
	if out, err := exec.Command("docker-up").CombinedOutput(); err != nil {
		return fmt.Errorf("start docker: %w\n%s", err, out)
	}
	return importImage("docker", "import")
})

// importImage has an engine import the image; args are its command.
func importImage(args ...string) error {
	var tree bytes.Buffer
	if err := engine.BusyboxTree(&tree); err != nil {
		return err
	}
	cmd := exec.Command(args[0], append(args[1:], "--change", "ENV PATH=/usr/local/bin:/usr/bin:/bin:/sbin", "-", image)...)
	cmd.Stdin = &tree
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// commandWait bounds one command. Emulation makes each take seconds.
const commandWait = 2 * time.Minute

// run runs a command to its end. Its output is trimmed.
func run(t testing.TB, args ...string) engine.Result {
	t.Helper()
	r := engine.Within(t, commandWait, func(ctx context.Context) engine.Result {
		return engine.Capture("", exec.CommandContext(ctx, args[0], args[1:]...), nil)
	})
	r.Stdout, r.Stderr = strings.TrimSpace(r.Stdout), strings.TrimSpace(r.Stderr)
	return r
}

// command prepares a daemon: of a step's control group, with which it ends at the latest.
func command(args ...string) *exec.Cmd { return exec.Command(args[0], args[1:]...) }

// must is run for what has to succeed, and returns the standard output.
func must(t testing.TB, args ...string) string {
	t.Helper()
	return run(t, args...).Must(t)
}

// docker is must with docker.
func docker(t testing.TB, args ...string) string {
	t.Helper()
	return must(t, append([]string{"docker"}, args...)...)
}

// detached starts a container that sleeps, and removes it with the test. args are options of docker
// run.
func detached(t testing.TB, args ...string) string {
	t.Helper()
	id := docker(t, append(append([]string{"run", "-d"}, args...), image, "sleep", "3600")...)
	t.Cleanup(func() { docker(t, "rm", "-f", id) })
	return id
}

// read reads a file of the machine, without the final line break.
func read(t testing.TB, path string) string {
	t.Helper()
	b := env.Read(t, path)
	return strings.TrimSpace(string(b))
}

// shared are jails that tests look at and leave as they are, by their runtime.
var shared = map[string]string{}

// aJail is a jail over the given runtime (an option of docker run) with 64 MiB of memory, shared
// among tests.
func aJail(t testing.TB, runtime string) string {
	t.Helper()
	if shared[runtime] == "" {
		shared[runtime] = docker(t, "run", "-d", runtime, "-m", "64m", image, "sleep", "3600")
	}
	return shared[runtime]
}

// removeShared removes the shared jails: a profile that is taken out of the kernel leaves its
// processes unconfined, also when it comes back.
func removeShared(t testing.TB) {
	t.Helper()
	for runtime, id := range shared {
		docker(t, "rm", "-f", id)
		delete(shared, runtime)
	}
}
