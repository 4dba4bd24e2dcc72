// Package rings takes rings of a jail away and looks at what the others still stop. It needs a build of agentjail that
// no installation has (runtime/internal/ringfault). docs/security/rings.md holds the table of what it finds.
package rings

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// attack is a row of the table: the name of one of the probe's tries (tests/probe/rings.go), and the reason where taking
// one ring away lets it through: what other ring cannot help by its nature.
type attack struct {
	name    string
	through map[string]string // by the ring that is taken away
}

// Why single rings hold some by themselves.
var (
	everybody = map[string]string{"0": "open to every user"}
	covers    = map[string]string{"1": "ids and covers are both ring 1's"}
)

// attacks in the order of the table.
var attacks = []attack{
	{"io_uring", everybody},
	{name: "bpf"},
	{name: "perf_event_open"},
	{name: "userfaultfd"},
	{"AF_VSOCK socket", everybody},
	{name: "AF_PACKET socket"},
	{name: "raw IP socket"},
	{"nf_tables", everybody},
	{"keyring", everybody},
	{name: "user namespace"},
	{name: "network namespace"},
	{name: "new mount"},
	{name: "/proc/sys writable"},
	{"kernel.core_pattern", covers},
	{"vm.drop_caches", covers},
	{name: "cgroup release_agent"},
	{name: "chroot"},
	{name: "host file by its handle"},
	{name: "kernel log"},
	{name: "reboot"},
	{name: "swapon"},
	{name: "process accounting"},
	{name: "clock"},
	{"terminal injection", everybody},
	{name: "block device node"},
	{name: "memory device node"},
	{"change to another uid", map[string]string{"1": "any id of its map is the jail's own"}},
	{"set-uid program of the image", map[string]string{"1": "it becomes the jail's own root"}},
	{name: "set-uid program left in a directory"},
	{"root's file in a mounted directory", map[string]string{"1": "only owner-mapped mounts distinguish them"}},
	{name: "signal to a process of the host"},
	{name: "ptrace of a process of the host"},
	{name: "memory of a process of the host"},
	{name: "shared memory of the host"},
	{name: "abstract socket of the host"},
	{name: "host name"},
	{"1100 processes", map[string]string{"2": "only limits count"}},
}

// removals are the rings that are taken away, as AGENTJAIL_TEST_WITHOUT names them.
var removals = []string{"", "2", "1", "0", "2,1", "2,0", "1,0", "2,1,0"}

// An outcome is the error's name, "" when the attack got through.
type outcome struct {
	Errno string `json:"errno"`
	Note  string `json:"note"`
}

// TestRings measures every attack with every set of rings taken away.
func TestRings(t *testing.T) {
	engine.NeedsRoot(t, "it runs jails")
	got := map[string]map[string]outcome{} // by removal, then attack
	w := newWorld(t)
	for _, r := range removals {
		got[r] = w.measure(t, r)
	}
	for _, a := range attacks {
		for _, r := range removals {
			o, tried := got[r][a.name]
			why, known := a.through[r]
			switch {
			case !tried:
				t.Errorf("%s, without %q: not tried", a.name, r)
			case r == "2,1,0":
				if o.Errno != "" {
					t.Errorf("%s is refused with no ring at all (%s %s): it shows nothing", a.name, o.Errno, o.Note)
				}
			case len(r) > 1: // one ring by itself: that is for the table
			case o.Errno == "" && !known:
				t.Errorf("%s gets through without ring %q", a.name, r)
			case o.Errno != "" && known && sameKernel(t):
				t.Errorf("%s is stated to get through without ring %s (%s), and is refused: %s", a.name, r, why, o.Errno)
			}
		}
	}
	if !t.Failed() {
		compare(t, table(got))
	}
}

func TestMain(m *testing.M) { engine.Exit(m.Run(), engine.RemoveBuilt()) }

// TestOnlyInTests: what takes rings away is in no build for use.
func TestOnlyInTests(t *testing.T) {
	engine.NeedsRoot(t, "it builds into the cache of the tests")
	path := env.Get(t, engine.UnderTest)
	text := env.Read(t, path)
	if bytes.Contains(text, []byte("AGENTJAIL_TEST_WITHOUT")) {
		t.Errorf("%s has an option to take rings away", path)
	}
}

// world is what the attacks aim at: all of it made by the test.
type world struct {
	agentjail, base, directory string
	handle, socket, hierarchy  string
	victim                     int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	base := engine.TempDir(t, "/var/tmp", "agentjail-rings-")
	env.Check(t, os.Chmod(base, 0o711))
	dir, err := engine.BinDir() // runtimes are run from where only root can write
	env.Check(t, err)
	w := &world{agentjail: filepath.Join(dir, "without", "agentjail"), base: base, socket: "@" + filepath.Base(base)}
	env.Check(t, engine.BuildAgentjail(w.agentjail, "-tags=withouttest"))
	w.makeDir(t)
	w.hierarchy = engine.NamedHierarchy(t, base)
	w.startVictim(t)
	return w
}

// makeDir makes one of uid 1000, to be mounted, with a file of root's in it; and a file beside it, by its handle.
func (w *world) makeDir(t *testing.T) {
	t.Helper()
	w.directory = filepath.Join(w.base, "directory")
	secret := filepath.Join(w.base, "secret")
	for _, err := range []error{
		os.Mkdir(w.directory, 0o755), os.Chown(w.directory, 1000, 1000),
		os.Mkdir(filepath.Join(w.directory, "open"), 0o777), os.Chmod(filepath.Join(w.directory, "open"), 0o777),
		os.WriteFile(filepath.Join(w.directory, "private"), []byte("root's own\n"), 0o600),
		os.WriteFile(secret, []byte("not in the directory\n"), 0o600),
	} {
		env.Check(t, err)
	}
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, secret, 0)
	if err != nil {
		t.Skip("this file system has no file handles:", err)
	}
	w.handle = base64.StdEncoding.EncodeToString(append([]byte{byte(h.Type())}, h.Bytes()...))
}

// startVictim starts a process of root in namespaces of its own, which stand for the host's: a jail without ring 2 is
// put there, and never into the machine's.
func (w *world) startVictim(t *testing.T) {
	t.Helper()
	probe := filepath.Join(filepath.Dir(w.agentjail), "probe")
	env.Check(t, engine.Build("./tests/probe", probe))
	cmd := exec.Command(probe, "victim", "victim-of-rings", w.socket)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS, Pdeathsig: unix.SIGKILL,
	}
	cmd.Stderr = os.Stderr
	env.Begin(t, cmd).Await(t, "ready")
	w.victim = cmd.Process.Pid
}

// measure makes the attacks in a jail without some rings: as container root, and those that are for others as uid 1000.
func (w *world) measure(t *testing.T, removal string) map[string]outcome {
	t.Helper()
	all := map[string]outcome{}
	gone := removal
	if slices.Contains(strings.Split(removal, ","), "2") && filepath.Base(os.Getenv(engine.DelegateEnv)) == "crun" {
		gone += ",mounts" // crun mounts the root anew, without nosuid and nodev, unless a user namespace locks them
	}
	for _, uid := range []uint32{0, 1000} {
		b := engine.NewBundle(t, w.base)
		env.Check(t, os.Chmod(filepath.Join(b.Rootfs, "usr/local/bin/setuid-probe"), os.ModeSetuid|0o755))
		b.Mount(w.directory, "/work")
		b.Spec.Process.User = specs.User{UID: uid, GID: uid}
		b.Spec.Process.Args = []string{"/usr/local/bin/probe", "rings"}
		b.Spec.Process.Env = append(b.Spec.Process.Env, "PROBE_ABSTRACT="+w.socket, "RING_HANDLE="+w.handle, "RING_HIERARCHY="+w.hierarchy)
		if slices.Contains(strings.Split(removal, ","), "2") {
			for i, ns := range b.Spec.Linux.Namespaces {
				if file := map[specs.LinuxNamespaceType]string{"pid": "pid", "network": "net", "ipc": "ipc", "uts": "uts"}[ns.Type]; file != "" {
					b.Spec.Linux.Namespaces[i].Path = fmt.Sprintf("/proc/%d/ns/%s", w.victim, file)
				}
			}
			b.Spec.Hostname = "" // the victim's
		}
		out, err := b.Run(t, engine.Caller{
			Path: w.agentjail, Args: []string{"--root", filepath.Join(w.base, "state")}, Env: []string{"AGENTJAIL_TEST_WITHOUT=" + gone},
		})
		if err != nil {
			t.Fatalf("without %q as uid %d: %v", removal, uid, err)
		}
		if err := json.Unmarshal([]byte(out), &all); err != nil {
			t.Fatalf("without %q as uid %d: %v: %s", removal, uid, err, out)
		}
	}
	return all
}
