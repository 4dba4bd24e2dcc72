package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/tests/env"
)

// PodmanPlace is a place of its own to run podman in: mount, process and network namespaces in which the directories that
// podman keeps things in are empty ones of the tests', and the account files have one more user. The machine's own
// containers, configuration and accounts stay as they are, and whatever podman starts dies with the place.
type PodmanPlace struct {
	// Dir holds all that is on disk.
	Dir string

	place *Engine // only its directory, its lock, its janitor and the thread with a network namespace
	init  *daemon // the first process of the place's process namespace
	pid   int     // of the place's first process, as the machine sees it
}

// The ordinary user of a PodmanPlace: RootlessUser has RootlessSubIDs subordinate ids from RootlessSubFirst on.
const (
	RootlessUser     = "jailkeeper"
	RootlessUID      = 64123
	RootlessSubFirst = 1_200_000_000
	RootlessSubIDs   = 65536
)

// The ids that podman hands out for --userns=auto.
const (
	autoSubFirst = 1_300_000_000
	autoSubIDs   = 1 << 20
)

// PodmanConf is what the tests state in containers.conf(5). Control groups without systemd, events in a file, and no more
// open files for a container than this process may give.
const PodmanConf = `[containers]
log_driver = "k8s-file"
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
infra_image = "localhost/infra"
`

// placeScript furnishes the place: $1 is its directory. It states ready, and stays as the place's first process. Of control
// groups version 1 it has what is mounted and nothing else: crun before 1.9 refuses the hybrid hierarchy, and podman
// takes any directory beside the hierarchies for one.
const placeScript = `set -e
d=$1
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/lock /run/netns /run/user/$2 $d/lib /var/lib/containers /etc/containers
chmod 1777 /run/lock
chown $2:$2 /run/user/$2
chmod 700 /run/user/$2
mount --bind $d/lib /var/lib/containers
mount --bind $d/etc /etc/containers
for f in passwd group subuid subgid; do
	[ -e /etc/$f ] || touch /etc/$f
	mount --bind $d/accounts/$f /etc/$f
done
if [ -c /dev/net/tun ]; then mknod -m 666 /run/tun c 10 200 && mount --bind /run/tun /dev/net/tun; fi
if [ ! -e /sys/fs/cgroup/cgroup.controllers ]; then
	mkdir /run/groups
	mount -t tmpfs -o mode=755 cgroup /run/groups
	for c in /sys/fs/cgroup/*; do
		if [ -L $c ]; then cp -P $c /run/groups; continue; fi
		n=/run/groups/${c##*/}
		if [ $c != /sys/fs/cgroup/unified ] && mountpoint -q $c; then mkdir $n && mount --bind $c $n; fi
	done
	mount --move /run/groups /sys/fs/cgroup
fi
echo ready
exec sleep infinity
`

// StartPodman makes the place. It needs root and podman. A machine without podman is an error that tests skip on.
func StartPodman() (*PodmanPlace, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("a podman of the tests' own needs root")
	}
	if _, err := exec.LookPath("podman"); err != nil {
		return nil, fmt.Errorf("no podman (hack/deps.sh installs it): %w", err)
	}
	sweepStale()
	p := &PodmanPlace{place: &Engine{}}
	if err := p.place.makeDir(); err != nil {
		return nil, err
	}
	p.Dir = p.place.Dir
	if err := p.furnish(); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *PodmanPlace) furnish() error {
	for _, dir := range []string{"etc", "etc/containers.conf.d", "accounts", "home"} {
		if err := os.MkdirAll(p.path(dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.Chown(p.path("home"), RootlessUID, RootlessUID); err != nil {
		return err
	}
	policy := `{"default": [{"type": "insecureAcceptAnything"}]}`
	for name, text := range map[string]string{
		"containers.conf": PodmanConf, "policy.json": policy, "registries.conf": "short-name-mode = \"permissive\"\n",
		"storage.conf": "[storage]\ndriver = \"overlay\"\nrunroot = \"/run/containers/storage\"\ngraphroot = \"/var/lib/containers/storage\"\n",
	} {
		if err := os.WriteFile(p.path("etc/"+name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	subs := fmt.Sprintf("%s:%d:%d\ncontainers:%d:%d\n", RootlessUser, RootlessSubFirst, RootlessSubIDs, autoSubFirst, autoSubIDs)
	for name, more := range map[string]string{
		"passwd": fmt.Sprintf("%s:x:%d:%d::%s:/bin/sh\n", RootlessUser, RootlessUID, RootlessUID, p.path("home")),
		"group":  fmt.Sprintf("%s:x:%d:\n", RootlessUser, RootlessUID),
		"subuid": subs, "subgid": subs,
	} {
		old, err := os.ReadFile("/etc/" + name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if name == "subuid" || name == "subgid" {
			old = nil // their ranges could overlap, and belong to no user here
		}
		if err := os.WriteFile(p.path("accounts/"+name), append(old, more...), 0o644); err != nil {
			return err
		}
	}
	return p.open()
}

// open starts the place's first process and waits until it is furnished.
func (p *PodmanPlace) open() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	log, err := os.OpenFile(p.path("place.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		w.Close()
		return err
	}
	defer log.Close()
	cmd := exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private",
		"sh", "-c", placeScript, "place", p.Dir, fmt.Sprint(RootlessUID))
	cmd.Stdout, cmd.Stderr = w, log
	p.init = &daemon{cmd: cmd, log: log.Name(), done: make(chan struct{})}
	err = p.place.spawn.start(cmd)
	w.Close()
	if err != nil {
		return fmt.Errorf("make namespaces for podman: %w", err)
	}
	go func() { p.init.err = cmd.Wait(); close(p.init.done) }()
	said := make([]byte, 6)
	if _, err := io.ReadFull(r, said); err != nil {
		text, _ := os.ReadFile(p.path("place.log"))
		return fmt.Errorf("furnish podman's place: %w: %s", err, text)
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", cmd.Process.Pid, cmd.Process.Pid))
	if err == nil {
		_, err = fmt.Sscan(string(children), &p.pid)
	}
	if err != nil {
		return fmt.Errorf("find the first process of podman's place: %w", err)
	}
	return nil
}

func (p *PodmanPlace) path(name string) string { return filepath.Join(p.Dir, name) }

// Root is the place's file tree as the machine sees it.
func (p *PodmanPlace) Root() string { return fmt.Sprintf("/proc/%d/root", p.pid) }

// Mounts lists the mount points of the place.
func (p *PodmanPlace) Mounts(t testing.TB) []string {
	t.Helper()
	mounts, err := mountinfo.Of(p.pid)
	env.Check(t, err)
	var at []string
	for _, m := range mounts {
		at = append(at, m.Point)
	}
	return at
}

// Configure writes a drop-in of containers.conf(5).
func (p *PodmanPlace) Configure(name, text string) error {
	return os.WriteFile(p.path("etc/containers.conf.d/"+name), []byte(text), 0o644)
}

// Register makes a runtime podman's default, as `agentjail install podman` does.
func (p *PodmanPlace) Register(runtime string) error {
	if UnderTestIsAgentjail() {
		if out, err := p.Inside(context.Background(), runtime, "install", "podman", "--default").CombinedOutput(); err != nil {
			return fmt.Errorf("agentjail install podman: %w: %s", err, out)
		}
		return nil
	}
	return p.Configure("agentjail.conf", fmt.Sprintf("[engine]\nruntime = %q\n[engine.runtimes]\n%s = [%q]\n", Name, Name, runtime))
}

// PID is the machine's number of a process that has another one inside the place.
func (p *PodmanPlace) PID(t testing.TB, inside int) int {
	t.Helper()
	own, err := os.Readlink(fmt.Sprintf("%s/proc/%d/ns/pid", p.Root(), inside))
	env.Check(t, err)
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		if ns, err := os.Readlink(dir + "/ns/pid"); err != nil || ns != own {
			continue
		}
		status, _ := os.ReadFile(dir + "/status")
		_, after, _ := strings.Cut(string(status), "\nNSpid:")
		line, _, _ := strings.Cut(after, "\n")
		if f := strings.Fields(line); len(f) > 1 && f[1] == fmt.Sprint(inside) { // the machine's, the place's, the container's
			pid, _ := strconv.Atoi(f[0])
			return pid
		}
	}
	t.Fatalf("no process is %d inside", inside)
	return 0
}

// Inside prepares any command inside the place, as root.
func (p *PodmanPlace) Inside(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{fmt.Sprintf("--target=%d", p.pid), "--mount", "--pid", "--net", "--"}, args...)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8", "TERM=xterm"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// InNetns runs f in the place's network namespace.
func (p *PodmanPlace) InNetns(f func() error) error { return p.place.InNetns(f) }

// InsideAsUser prepares any command inside the place, as RootlessUser, as after a login.
func (p *PodmanPlace) InsideAsUser(ctx context.Context, args ...string) *exec.Cmd {
	id := fmt.Sprint(RootlessUID)
	cmd := p.Inside(ctx, slices.Concat([]string{"setpriv", "--reuid=" + id, "--regid=" + id, "--clear-groups", "--inh-caps=-all", "--"}, args)...)
	cmd.Env = []string{
		"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=" + p.path("home"), "USER=" + RootlessUser,
		"XDG_RUNTIME_DIR=/run/user/" + id, "LANG=C.UTF-8", "TERM=xterm",
	}
	cmd.Dir = p.path("home")
	return cmd
}

// Close ends everything in the place and removes what it had on disk.
func (p *PodmanPlace) Close() error {
	var errs []error
	if p.init != nil {
		_ = p.init.stop(unix.SIGKILL) // and with the first process all others of its namespace (pid_namespaces(7))
	}
	if p.place.spawn != nil {
		p.place.spawn.Close()
	}
	errs = append(errs, sweep(p.Dir), p.removeCgroups())
	if p.place.janitor != nil {
		p.place.janitor.Close()
	}
	if p.place.lock != nil {
		p.place.lock.Close()
	}
	return errors.Join(errs...)
}

// removeCgroups removes the group that podman's cgroupfs driver makes for all of its containers, if no one else's
// podman uses it.
func (p *PodmanPlace) removeCgroups() error {
	dirs := cgroupDirs("libpod_parent")
	for _, d := range dirs {
		if err := os.Remove(d); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
	}
	return nil
}

// Import makes an image of a tar archive, as root or as RootlessUser.
func (p *PodmanPlace) Import(user bool, tar []byte, name string, changes ...string) error {
	args := []string{"podman", "import", "-q"}
	for _, c := range changes {
		args = append(args, "--change", c)
	}
	ctx, cancel := context.WithTimeout(context.Background(), env.CommandWait)
	defer cancel()
	cmd := p.command(ctx, user, append(args, "-", name)...)
	cmd.Stdin = bytes.NewReader(tar)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make image %s: %w: %s", name, err, out)
	}
	return nil
}

// ImportBusybox makes the image Busybox, and one of it for the first container of each pod.
func (p *PodmanPlace) ImportBusybox(user bool) error {
	var b bytes.Buffer
	if err := BusyboxTree(&b); err != nil {
		return err
	}
	if err := p.Import(user, b.Bytes(), Busybox, "CMD /bin/sh", "ENV PATH=/usr/local/bin:/usr/bin:/bin:/sbin"); err != nil {
		return err
	}
	return p.Import(user, b.Bytes(), "infra", `CMD ["/bin/sleep", "1000000"]`)
}

func (p *PodmanPlace) command(ctx context.Context, user bool, args ...string) *exec.Cmd {
	if user {
		return p.InsideAsUser(ctx, args...)
	}
	return p.Inside(ctx, args...)
}

// A PodmanT is a PodmanPlace in the hands of one test, as root or as RootlessUser.
type PodmanT struct {
	testing.TB
	*PodmanPlace
	User bool
}

// For gives podman to a test.
func (p *PodmanPlace) For(t testing.TB, user bool) *PodmanT {
	t.Helper()
	return &PodmanT{t, p, user}
}

// Run runs any command inside the place and fails the test when it does not end in time.
func (t *PodmanT) Run(stdin io.Reader, args ...string) Result {
	t.Helper()
	return Within(t, env.CommandWait, func(ctx context.Context) Result {
		r := Capture(t.Dir, t.command(ctx, t.User, args...), stdin)
		r.Program, r.Args = args[0], args[1:]
		return r
	})
}

// Podman runs a podman command.
func (t *PodmanT) Podman(args ...string) Result {
	t.Helper()
	return t.Run(nil, append([]string{"podman"}, args...)...)
}

// Must runs a podman command that has to succeed and returns its trimmed standard output.
func (t *PodmanT) Must(args ...string) string {
	t.Helper()
	return t.Podman(args...).Must(t)
}

// Detached starts a container with podman run -d and removes it at the test's end. args follow "run -d". It returns the
// container's id.
func (t *PodmanT) Detached(args ...string) string {
	t.Helper()
	id := LastLine(t.Must(append([]string{"run", "-d"}, args...)...))
	t.Cleanup(func() { t.Remove("rm", "-f", "-t", "0", "-v", "--ignore", id) })
	return id
}

// Remove runs a podman command that removes something until it succeeds: podman 4.3 at times comes before what it has
// just ended is gone, and fails on a mount or a control group.
func (t *PodmanT) Remove(args ...string) {
	t.Helper()
	var last Result
	for range 5 {
		if last = t.Podman(args...); last.Code == 0 {
			return
		}
	}
	t.Errorf("does not succeed: %s", last)
}

// Terminal starts a podman command on a new pseudo-terminal.
func (t *PodmanT) Terminal(rows, cols int, args ...string) *Terminal {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), env.CommandWait)
	t.Cleanup(cancel)
	return OnTerminal(t.TB, rows, cols, t.command(ctx, t.User, append([]string{"podman"}, args...)...))
}
