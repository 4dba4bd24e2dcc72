package shim

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	taskAPI "github.com/containerd/containerd/api/runtime/task/v3"
	"github.com/containerd/containerd/api/types/runtimeoptions/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"agentjail.dev/runtime/kernel/programs"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/version/form"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// release returns the directory of a release's programs. Each is built once.
func release(t *testing.T, name string) string {
	t.Helper()
	releasesOnce.Lock()
	defer releasesOnce.Unlock()
	dir := filepath.Join(env.Get(t, engine.BinDir), "release-"+name)
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	switch name {
	case "this":
		env.Check(t, os.Mkdir(dir, 0o755))
		env.Check(t, engine.Upgrade(dir, env.Get(t, engine.Shim)))
	case "next":
		env.Check(t, engine.OtherForm(dir, form.Number+1, form.Oldest))
	case "far":
		env.Check(t, engine.OtherForm(dir, form.Number+1, form.Number+1))
	case "previous":
		env.Check(t, engine.PreviousRelease(dir))
	}
	return dir
}

var releasesOnce sync.Mutex

// upgradable is a containerd over programs that a test replaces.
type upgradable struct {
	*engine.CT
	dir string
}

func startUpgradable(t *testing.T, first string) *upgradable {
	t.Helper()
	engine.NeedsRoot(t, "it runs jails")
	needGo(t)
	dir, err := os.MkdirTemp(env.Get(t, engine.BinDir), "installed-")
	env.Check(t, err)
	env.Check(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { os.RemoveAll(dir) })
	env.Check(t, engine.Upgrade(dir, release(t, first)))
	c, err := engine.StartContainerd(engine.ContainerdOptions{Shims: []string{dir}})
	env.Check(t, err)
	t.Cleanup(func() { env.Check(t, c.Close()) })
	env.Check(t, c.ImportBusybox(c.Namespace()))
	return &upgradable{c.For(t), dir}
}

// further creates and starts a container in the shim of another, as a pod's container that starts again:
// with a network by name, keys of its own and a project's policy, which take every helper. It returns the
// id.
func (u *upgradable) further(t *testing.T, of string) string {
	t.Helper()
	work := t.TempDir()
	key := filepath.Join(u.dir, "key")
	env.Check(t, os.WriteFile(key, []byte("a-key-of-the-house\n"), 0o600))
	env.Check(t, os.WriteFile(filepath.Join(work, policy.ProjectFile), []byte("[limits]\npids = 77\n"), 0o644))
	file := engine.PolicyFile(t, fmt.Sprintf(`[binds]
allow = [%q]
[network]
mode = "names"
allow = ["api.example.test"]
servers = ["192.0.2.1"]
[credentials.house]
hosts = ["api.example.test"]
header = "Authorization: Bearer"
from = "file:%s"
env = "HOUSE_TOKEN"
tls = "end"
`, work, key))
	id, err := u.furtherBy(t, of, file, func(b *engine.Bundle) {
		b.Spec.Annotations = map[string]string{policy.AnnotationPrefix + policy.ProjectAnnotation: "/work"}
		b.Mount(work, "/work")
	})
	if err != nil {
		t.Fatalf("a further container in the shim of before: %v", err)
	}
	return id
}

// furtherBy creates and starts a container by a policy file in the shim of another.
func (u *upgradable) furtherBy(t *testing.T, of, file string, change func(*engine.Bundle)) (id string, err error) {
	t.Helper()
	ctx, task := dialShim(t, u.CT, of)
	bundle := engine.NewBundle(t, u.Dir)
	id = bundle.ID()
	bundle.Spec.Process.Args = []string{"sleep", "1000"}
	bundle.Spec.Linux.CgroupsPath = "/" + u.CgroupParent() + "/" + id
	if change != nil {
		change(bundle)
	}
	bundle.Write(t)
	options, err := proto.Marshal(&runtimeoptions.Options{TypeUrl: "agentjail", ConfigPath: file})
	env.Check(t, err)
	if _, err := task.Create(ctx, &taskAPI.CreateTaskRequest{ID: id, Bundle: bundle.Dir, Options: &anypb.Any{TypeUrl: "runtimeoptions.v1.Options", Value: options}}); err != nil {
		return "", err
	}
	t.Cleanup(func() {
		_, _ = task.Kill(ctx, &taskAPI.KillRequest{ID: id, Signal: 9})
		env.Eventually(t, "the further container is removed", func() bool { _, err := task.Delete(ctx, &taskAPI.DeleteRequest{ID: id}); return err == nil })
	})
	_, err = task.Start(ctx, &taskAPI.StartRequest{ID: id})
	return id, err
}

// A meeting is of two releases: one takes the other's place under living jails.
type meeting struct {
	from, to string
	// reads is whether the newcomer reads the records that are there; maybe means that it may refuse them.
	reads, maybe bool
}

var meetings = []meeting{
	{"this", "next", true, false},
	{"next", "this", false, false},
	{"this", "far", false, false},
	{"previous", "this", true, false},
	{"this", "previous", true, true},
}

// TestUpgradeByShim: a shim goes on with the helpers that it began with.
func TestUpgradeByShim(t *testing.T) {
	for _, m := range meetings {
		t.Run(m.from+" to "+m.to, func(t *testing.T) {
			u := startUpgradable(t, m.from)
			used, fresh := startJail(t, u.CT), startJail(t, u.CT)
			if r := readIn(u.CT, used, "echo", "alive"); r.Stdout != "alive\n" {
				t.Fatal(r)
			}
			env.Check(t, engine.Upgrade(u.dir, release(t, m.to)))
			for _, id := range []string{used, fresh} { // the second shim has used no helper for an exec yet
				if r := readIn(u.CT, id, "echo", "alive"); r.Stdout != "alive\n" {
					t.Errorf("exec in a jail of before: %s", r)
				}
				u.further(t, id)
			}
			newcomer := startJail(t, u.CT)
			if r := readIn(u.CT, newcomer, "echo", "alive"); r.Stdout != "alive\n" {
				t.Errorf("a jail of the release that came: %s", r)
			}
		})
	}
}

// TestShimKeepsHelpers: a shim needs nothing of what takes the place of its helpers.
func TestShimKeepsHelpers(t *testing.T) {
	u := startUpgradable(t, "this")
	id := startJail(t, u.CT)
	fails, err := exec.LookPath("false")
	env.Check(t, err)
	for _, name := range []string{programs.Agentjail, programs.Ctl, programs.Enter, programs.Egress, programs.EgressKeys} {
		path := filepath.Join(u.dir, name)
		env.Check(t, os.WriteFile(path+".next", env.Read(t, fails), 0o755))
		env.Check(t, os.Rename(path+".next", path))
	}
	if r := readIn(u.CT, id, "echo", "alive"); r.Stdout != "alive\n" {
		t.Errorf("exec: %s", r)
	}
	further := u.further(t, id)
	// The helper is of the release that began, and has its own name.
	h := engine.Helper(t, further)
	if comm := strings.TrimSpace(string(env.Read(t, fmt.Sprintf("/proc/%d/comm", h.Pid)))); !strings.HasPrefix(comm, "agentjail-egres") {
		t.Errorf("the helper is called %q", comm)
	}
}

// TestShimKeepsPolicy: a policy with a key of a newer release stops no container of a shim that has read it before, and each container of a
// shim that has not.
func TestShimKeepsPolicy(t *testing.T) {
	u := startUpgradable(t, "this")
	file := engine.PolicyFile(t, "[limits]\npids = 55\n")
	id := startJail(t, u.CT, "--runtime-config-path", file)
	write := func(text string, mode os.FileMode) {
		t.Helper()
		env.Check(t, os.WriteFile(file, []byte(text), 0o644))
		env.Check(t, os.Chmod(file, mode))
	}
	write("[limits]\npids = 66\n", 0o644)
	pids := func(of string) int64 {
		t.Helper()
		further, err := u.furtherBy(t, of, file, nil)
		env.Check(t, err)
		return record(t, u.CT, further).Policy.Limits.Pids
	}
	env.Equal(t, "processes by a policy that changed", pids(id), 66)
	write("[limits]\npids = 77\nof-the-next-release = 1\n", 0o644)
	env.Equal(t, "processes by a policy that is of another release", pids(id), 66)
	if r := u.Ctr(runArgs(newID(), "--rm", "--runtime-config-path", file, "--", "true")...); r.Code == 0 || !strings.Contains(r.Stderr, "of-the-next-release") {
		t.Errorf("a shim that has not read it: %s", r)
	}
	write("[limits]\npids = 77\nof-the-next-release = 1\n", 0o666)
	if _, err := u.furtherBy(t, id, file, nil); err == nil || !strings.Contains(err.Error(), "written by others than root") {
		t.Errorf("a policy that others can write: %v", err)
	}
}

// TestUpgradeByPath: the program that an engine starts anew for each verb reads the records of another
// release's jails, or refuses them with the remedy, and can always end them.
func TestUpgradeByPath(t *testing.T) {
	engine.NeedsRoot(t, "it runs jails")
	needGo(t)
	for _, m := range meetings {
		t.Run(m.from+" to "+m.to, func(t *testing.T) {
			dir, err := os.MkdirTemp(env.Get(t, engine.BinDir), "installed-")
			env.Check(t, err)
			env.Check(t, os.Chmod(dir, 0o755))
			t.Cleanup(func() { os.RemoveAll(dir) })
			env.Check(t, engine.Upgrade(dir, release(t, m.from)))
			base, err := os.MkdirTemp("/var/tmp", "agentjail-upgrade-")
			env.Check(t, err)
			env.Check(t, os.Chmod(base, 0o711))
			t.Cleanup(func() { os.RemoveAll(base) })
			config := engine.PolicyFile(t, "[network]\nmode = \"names\"\nallow = [\"api.example.test\"]\nservers = [\"192.0.2.1\"]\n")
			b := engine.NewBundle(t, base)
			b.Spec.Process.Args = []string{"sleep", "1000"}
			call := engine.Caller{Path: filepath.Join(dir, programs.Agentjail), Args: []string{"--root", filepath.Join(base, "root"), "--config", config}}
			runs, waits := b.ID(), b.ID()
			must := func(args ...string) engine.Result {
				t.Helper()
				r := b.Result(t, call, args...)
				if r.Code != 0 {
					t.Errorf("%v: %s", args, r)
				}
				return r
			}
			t.Cleanup(func() {
				for _, id := range []string{runs, waits} {
					must("kill", id, "KILL")
					env.Eventually(t, "the jail is removed", func() bool { return b.Result(t, call, "delete", id).Code == 0 })
				}
			})
			must("create", "--bundle", b.Dir, runs)
			must("create", "--bundle", b.Dir, waits)
			must("start", runs)
			env.Check(t, engine.Upgrade(dir, release(t, m.to)))
			if r := must("state", runs); !strings.Contains(r.Stdout, `"running"`) {
				t.Error(r)
			}
			understood := func(args ...string) {
				t.Helper()
				r := b.Result(t, call, args...)
				refused := r.Code != 0 && strings.Contains(r.Stderr, "of another release of agentjail") && strings.Contains(r.Stderr, "(remedy: the release that made it")
				if refused && (m.maybe || !m.reads) || !refused && m.reads && r.Code == 0 {
					return
				}
				t.Errorf("%v: %s", args, r)
			}
			understood("exec", runs, "true")
			understood("start", waits)
			understood("network", "restart", "--force", runs)
			understood("exec", runs, "true")
			understood("inspect", runs)
		})
	}
}
