package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// jail is what docker run and docker create need to make a jail.
const jail = "--runtime=" + engine.Name

// d gives the shared engine to a test and lets it run beside others.
func d(t *testing.T) *engine.T {
	t.Helper()
	t.Parallel()
	return docker.For(t)
}

// runJail runs a jail of the busybox image to its end. args are docker's options, the image and the command.
func runJail(d *engine.T, args ...string) engine.Result {
	d.Helper()
	return d.Docker(append([]string{"run", "--rm", jail}, args...)...)
}

// mustRunJail is runJail for what has to succeed, and returns the trimmed standard output.
func mustRunJail(d *engine.T, args ...string) string {
	d.Helper()
	return d.Must(append([]string{"run", "--rm", jail}, args...)...)
}

// startJail starts a jail in the background that is removed with the test, and waits until it runs.
func startJail(d *engine.T, args ...string) string {
	d.Helper()
	return d.Detached(append([]string{jail}, args...)...)
}

// sleeper starts a jail that does nothing until it is stopped.
func sleeper(d *engine.T, args ...string) string {
	d.Helper()
	return startJail(d, append(args, engine.Busybox, "sleep", "3600")...)
}

// sh runs a shell command in a running container; it has to succeed.
func sh(d *engine.T, id, script string) string {
	d.Helper()
	return d.Must("exec", id, "sh", "-c", script)
}

// shEnds runs a shell command that ends the container it runs in. Its exit code states nothing: the container's end may kill
// the command first, and the engine forget it before the client's request. What the test waits for next shows that it arrived.
func shEnds(d *engine.T, id, script string) {
	d.Helper()
	d.Docker("exec", id, "sh", "-c", script)
}

// awaitSleeps waits until n processes of a container have executed sleep. An engine states that a process is started while
// that still is the init step, which has the program's arguments after its own name, or docker-init, which loses signals
// before it has a child.
func awaitSleeps(d *engine.T, id string, n int) {
	d.Helper()
	env.Eventually(d, "the programs", func() bool {
		return sh(d, id, "grep -l ^sleep /proc/[0-9]*/cmdline 2>/dev/null | wc -l") == strconv.Itoa(n)
	})
}

// probe runs the probe in a new jail and decodes its answer. options come before the image.
func probe[A any](d *engine.T, options []string, args ...string) A {
	d.Helper()
	return env.Decode[A](d, mustRunJail(d, append(append(options, engine.Busybox, "probe"), args...)...))
}

// probeIn runs the probe in a running container and decodes its answer. options are docker exec's.
func probeIn[A any](d *engine.T, options []string, id string, args ...string) A {
	d.Helper()
	return env.Decode[A](d, d.Must(append(append([]string{"exec"}, options...), append([]string{id, "probe"}, args...)...)...))
}

// outcome is the probe's word on one attempt.
type outcome = engine.Outcome

// inspect returns one value of docker inspect.
func inspect(d *engine.T, id, format string) string {
	d.Helper()
	return d.Must("inspect", "--format", format, id)
}

// directory makes a directory that belongs to uid, with the file "hello" in it.
func directory(t testing.TB, uid int) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	env.Check(t, err)
	// Below the test's directory, so that this one is what the container sees and nothing above it.
	dir = filepath.Join(dir, "directory")
	env.Check(t, os.Mkdir(dir, 0o755))
	env.Put(t, filepath.Join(dir, "hello"), "hello from the host\n", 0o644, uid)
	env.Check(t, os.Lchown(dir, uid, uid))
	return dir
}

// owner returns the owner of a file on the host, "uid:gid", and its mode.
func owner(t testing.TB, path string) (string, os.FileMode) {
	t.Helper()
	st, err := os.Lstat(path)
	env.Check(t, err)
	s := st.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d:%d", s.Uid, s.Gid), st.Mode()
}

// needAgentjail skips a test of something that only agentjail has when another runtime is tried.
func needAgentjail(t testing.TB) {
	t.Helper()
	if !engine.UnderTestIsAgentjail() {
		t.Skip("the runtime under test is not agentjail")
	}
}
