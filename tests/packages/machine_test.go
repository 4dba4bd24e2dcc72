package packages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// A machine is this one as it is, but that whatever is written goes to memory and is gone with it: an overlay over its root file system
// in namespaces of its own, in which packages can be installed and removed. Kernel, security module and control groups are the
// machine's own.
type machine struct {
	testing.TB
	name   string // of its directory and its control group
	holder *exec.Cmd
	pid    int // of its first process, here
}

// mounted are the directories that are empty at the machine's boot: engines' configuration and storage, which must be on a file system that
// can be a layer's, and whatever of agentjail was installed by hand. A policy that is there would have dpkg request it.
var mounted = []string{"run", "tmp", "var/tmp", "var/lib/docker", "var/lib/containerd", "etc/docker", "etc/containerd", "usr/local/bin"}

// begin makes the machine's file tree and holds its namespaces.
const begin = `
set -eu
dir=$1
mount -t tmpfs -o mode=755 machine "$dir"
mkdir "$dir/upper" "$dir/work" "$dir/root"
mount -t overlay -o lowerdir=/,upperdir="$dir/upper",workdir="$dir/work" machine "$dir/root"
cd "$dir/root"
rm -rf etc/agentjail var/lib/agentjail var/log/agentjail
for d in $2; do
	mkdir -p $d
	mount -t tmpfs -o mode=755 tmpfs $d
done
chmod 1777 tmp var/tmp
mount -t proc -o nosuid,nodev,noexec proc proc
mount --rbind /sys sys
mount --rbind /dev dev
ip link set lo up
mkdir -p var/tmp/before var/tmp/written
mount --bind "$dir/upper" var/tmp/written
pivot_root . var/tmp/before
umount -l /var/tmp/before
rmdir /var/tmp/before
cd /
echo ready
exec </dev/null >/dev/null 2>&1
sleep infinity &
while :; do wait -n || sleep 1; done
`

// newMachine boots one; it ends with the test.
func newMachine(t testing.TB) *machine {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "agentjail-packages-")
	env.Check(t, err)
	m := &machine{TB: t, name: filepath.Base(dir)}
	m.holder = exec.Command("unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child", "--propagation", "private",
		"bash", "-c", begin, "bash", dir, strings.Join(mounted, " "))
	m.holder.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL, Setpgid: true}
	m.holder.Env = append(os.Environ(), "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
	said := env.Get(t, m.holder.StdoutPipe)
	var wrong bytes.Buffer
	m.holder.Stderr = &wrong
	env.Check(t, m.holder.Start())
	t.Cleanup(func() {
		_ = m.holder.Process.Kill() // and with it the namespace of processes
		_ = m.holder.Wait()
		if err := errors.Join(os.Remove(dir), engine.RemoveCgroups(m.group())); err != nil {
			t.Error(err)
		}
	})
	line := make([]byte, 6)
	if _, err := io.ReadFull(said, line); err != nil {
		_ = m.holder.Process.Kill()
		t.Fatalf("the machine does not come up: %v\n%s", err, &wrong)
	}
	children := env.Read(t, fmt.Sprintf("/proc/%d/task/%d/children", m.holder.Process.Pid, m.holder.Process.Pid))
	if _, err := fmt.Sscan(string(children), &m.pid); err != nil {
		t.Fatalf("the machine's first process: %v", err)
	}
	return m
}

// group is the control group below which the machine's containers are.
func (m *machine) group() string { return m.name }

// path is a file of the machine's, as it is reached from here.
func (m *machine) path(name string) string {
	return filepath.Join(fmt.Sprintf("/proc/%d/root", m.pid), name)
}

// command prepares a command in the machine.
func (m *machine) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"--target", fmt.Sprint(m.pid), "--mount", "--pid", "--net", "--ipc", "--uts", "--root", "--wd", "--"}, args...)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "TERM=dumb"}
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// run runs a command in the machine.
func (m *machine) run(args ...string) engine.Result {
	m.Helper()
	return engine.Within(m, env.CommandWait, func(ctx context.Context) engine.Result {
		return engine.RunCommand(ctx, m.command(ctx, args...), nil)
	})
}

// must runs a command that has to succeed, and returns its trimmed standard output.
func (m *machine) must(args ...string) string {
	m.Helper()
	return m.run(args...).Must(m)
}

// written lists what the machine has that this one has not, and what it has no more, but for what is expected. Directories that are empty
// in the machine at each boot do not count.
func (m *machine) written(expected ...string) (more, less []string) {
	m.Helper()
	upper := m.path("/var/tmp/written")
	err := filepath.WalkDir(upper, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, upper)
		if slices.ContainsFunc(expected, func(e string) bool { return pathname.Within(name, e) }) {
			return nil
		}
		_, err = os.Lstat("/" + name)
		switch here := err == nil; {
		case slices.Contains(mounted, strings.TrimPrefix(name, "/")):
		case !here && d.Type()&fs.ModeCharDevice == 0:
			more = append(more, name)
		case here && d.Type()&fs.ModeCharDevice != 0: // overlayfs' mark of what was removed
			less = append(less, name)
		}
		return nil
	})
	env.Check(m, err)
	return more, less
}

// give copies a file of this machine's to the directory /tmp of the other, and returns its path there.
func (m *machine) give(file string) string {
	m.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(m.path("/tmp/"+filepath.Base(file)), text, 0o644)
	}
	env.Check(m, err)
	return "/tmp/" + filepath.Base(file)
}

// exists reports whether a file is there, be it a link to nothing.
func (m *machine) exists(name string) bool {
	return m.run("test", "-e", name).Code == 0 || m.run("test", "-L", name).Code == 0
}

// service starts a daemon that ends with the machine, and waits until ready answers.
func (m *machine) service(log string, ready []string, args ...string) {
	m.Helper()
	ended := log + ".ended"
	m.must(append([]string{"sh", "-c", `log=$1; shift; { setsid "$@"; echo $? >"$log.ended"; } </dev/null >"$log" 2>&1 &`, "sh", log}, args...)...)
	answers := false
	env.Poll(env.CommandWait, func() bool { answers = m.run(ready...).Code == 0; return answers || m.exists(ended) })
	if !answers {
		m.Fatalf("%s does not answer:\n%s", args[0], m.run("tail", "-n", "30", log).Stdout)
	}
}
