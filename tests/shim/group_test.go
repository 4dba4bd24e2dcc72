package shim

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	taskAPI "github.com/containerd/containerd/api/runtime/task/v3"
	"github.com/opencontainers/runtime-spec/specs-go"
	"google.golang.org/protobuf/types/known/anypb"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// group is the annotation by which containers share a shim.
const group = "io.containerd.runc.v2.group="

// Containers of a group have one shim, and each its own profile: the end of one is nothing to the others.
func TestGroupHasOneShim(t *testing.T) {
	each(t, func(t *testing.T, c *engine.CT) {
		small := engine.PolicyFile(t, "[limits]\nmemory = \"50MiB\"\n")
		a := startJail(t, c, "--annotation", group+"pod")
		b := startJail(t, c, "--annotation", group+"pod", "--runtime-config-path", small)
		other := startJail(t, c)
		if n := shims(filepath.Dir(c.Bundle(a))); len(n) != 2 {
			t.Errorf("%d shims for a group and another", len(n))
		}
		ja, jb := record(t, c, a), record(t, c, b)
		if ja.Policy.Limits.Memory == jb.Policy.Limits.Memory || jb.Policy.Limits.Memory != 50<<20 {
			t.Errorf("memory limits %v and %v", ja.Policy.Limits.Memory, jb.Policy.Limits.Memory)
		}
		if ja.IDs.UIDs[0].HostID == jb.IDs.UIDs[0].HostID {
			t.Error("two jails have the same ids")
		}
		socket := socketOf(t, c, b)
		if s := socketOf(t, c, a); s != socket {
			t.Errorf("sockets %q and %q", s, socket)
		}
		// The one whose directory the shim is in goes first.
		c.Remove(a)
		if r := readIn(c, b, "probe", "identity"); r.Code != 0 {
			t.Error(r)
		} else {
			hardened(t, r.Stdout)
		}
		c.Remove(b)
		c.Remove(other)
		nothingLeft(t, c)
		env.Eventually(c, "the socket is removed", func() bool { _, err := os.Lstat(socket); return os.IsNotExist(err) })
	})
}

// TestShimControlGroups: a shim is in containerd's control groups, which are the test's here, and not in those of its jail.
func TestShimControlGroups(t *testing.T) {
	each(t, func(t *testing.T, c *engine.CT) {
		id := startJail(t, c)
		running := shims(c.Bundle(id))
		if len(running) != 1 {
			t.Fatalf("shims %v", running)
		}
		groups := func(pid int) string {
			text := env.Read(t, fmt.Sprintf("/proc/%d/cgroup", pid))
			return string(text)
		}
		shim, jail := groups(running[0]), groups(record(t, c, id).Init().Pid)
		if want := groups(os.Getpid()); shim != want || shim == jail {
			t.Errorf("the shim is in\n%snot in containerd's\n%sits jail is in\n%s", shim, want, jail)
		}
	})
}

// A policy that others could have written counts for nothing, nor does one that is not there: no jail starts.
func TestWrongPolicy(t *testing.T) {
	each(t, func(t *testing.T, c *engine.CT) {
		loose := filepath.Join(t.TempDir(), "loose.toml")
		env.Check(t, os.WriteFile(loose, []byte("[limits]\npids = 0\n"), 0o666))
		env.Check(t, os.Chmod(loose, 0o666))
		for _, path := range []string{loose, "no-such-profile", "/no/such/../policy", "a profile;", "../../etc/passwd"} {
			id := newID()
			r := c.Ctr(runArgs(id, "--rm", "--runtime-config-path", path, "--", "true")...)
			if r.Code == 0 || !strings.Contains(r.Stderr, "polic") && !strings.Contains(r.Stderr, "profile") {
				t.Errorf("%s: %s", path, r)
			}
			c.Remove(id)
		}
		nothingLeft(t, c)
	})
}

// Limits can be changed, within policy, and what the jail sees of its machine follows.
func TestLimitsCanBeChanged(t *testing.T) {
	each(t, func(t *testing.T, c *engine.CT) {
		id := startJail(t, c)
		ctx, task := dialShim(t, c, id)
		if _, err := task.Update(ctx, &taskAPI.UpdateTaskRequest{ID: id, Resources: jsonAny(`{"memory": {"limit": 67108864}, "pids": {"limit": 1000000}}`)}); err != nil {
			t.Fatal(err)
		}
		if r := readIn(c, id, "grep", "MemTotal", "/proc/meminfo"); !strings.Contains(r.Stdout, " 65536 kB") {
			t.Error(r)
		}
		var bounds []string
		for _, top := range []string{"/sys/fs/cgroup/pids", "/sys/fs/cgroup"} {
			if text, err := os.ReadFile(filepath.Join(top, c.CgroupParent(), id, "pids.max")); err == nil {
				bounds = append(bounds, strings.TrimSpace(string(text)))
			}
		}
		if len(bounds) != 1 || bounds[0] != "1024" {
			t.Errorf("bounds on processes: %v", bounds)
		}
		if _, err := task.Update(ctx, &taskAPI.UpdateTaskRequest{ID: id}); err == nil {
			t.Error("an update of nothing was taken")
		}
		if _, err := task.Checkpoint(ctx, &taskAPI.CheckpointTaskRequest{ID: id, Path: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "checkpoint: refused: a jail's memory") {
			t.Error(err)
		}
		c.Remove(id)
		nothingLeft(t, c)
	})
}

func jsonAny(text string) *anypb.Any {
	return &anypb.Any{TypeUrl: "types.containerd.io/opencontainers/runtime-spec/1/Any", Value: []byte(text)}
}

// The options of one container of a group do not take the shim of another away.
func TestGroupOptionsKeepOtherShims(t *testing.T) {
	each(t, func(t *testing.T, c *engine.CT) {
		id := startJail(t, c)
		shim := shimOf(t, c, id)
		ctx, task := dialShim(t, c, id)
		bundle := engine.NewBundle(t, c.Dir)
		bundle.Write(t)
		config := filepath.Join(bundle.Dir, "config.json")
		good := env.Read(t, config)
		create := func(what string, r *taskAPI.CreateTaskRequest) {
			t.Helper()
			if r.ID == "" {
				r.ID = newID()
			}
			if r.Bundle == "" {
				r.Bundle = bundle.Dir
			}
			if _, err := task.Create(ctx, r); err == nil {
				t.Errorf("%s: created", what)
				_, _ = task.Kill(ctx, &taskAPI.KillRequest{ID: r.ID, Signal: 9})
				_, _ = task.Delete(ctx, &taskAPI.DeleteRequest{ID: r.ID})
			}
		}
		for what, text := range map[string]string{
			"empty":        "",
			"no object":    "[]",
			"null":         "null",
			"wrong types":  `{"ociVersion": 1, "process": "x", "linux": []}`,
			"nothing":      `{"ociVersion": "1.0.2"}`,
			"no process":   `{"ociVersion": "1.0.2", "root": {"path": "rootfs"}}`,
			"null in it":   `{"ociVersion": "1.0.2", "root": {"path": "rootfs"}, "process": null, "linux": null, "mounts": [null]}`,
			"deep":         strings.Repeat(`{"linux":`, 100000),
			"deep and all": strings.Repeat(`[`, 9000) + strings.Repeat(`]`, 9000),
			"huge":         `{"ociVersion": "` + strings.Repeat("x", 64<<20) + `"}`,
			"root":         `{"ociVersion": "1.0.2", "root": {"path": "/"}, "process": {"args": ["sh"], "cwd": "/"}, "linux": {}}`,
			"root above":   `{"ociVersion": "1.0.2", "root": {"path": "../../../.."}, "process": {"args": ["sh"], "cwd": "/"}, "linux": {}}`,
			"many mounts":  `{"ociVersion": "1.0.2", "root": {"path": "rootfs"}, "process": {"args": ["sh"], "cwd": "/"}, "mounts": [` + strings.Repeat(`{"destination": "/x"},`, 100000) + `{}], "linux": {}}`,
		} {
			env.Check(t, os.WriteFile(config, []byte(text), 0o600))
			create(what, &taskAPI.CreateTaskRequest{})
		}
		env.Check(t, os.WriteFile(config, good, 0o600))
		for what, r := range map[string]*taskAPI.CreateTaskRequest{
			"id with a path":     {ID: "../../x"},
			"long id":            {ID: strings.Repeat("x", 5000)},
			"no such bundle":     {Bundle: "/no/such/bundle"},
			"unknown options":    {Options: &anypb.Any{TypeUrl: "x.y.Options", Value: []byte{1}}},
			"other options":      {Options: &anypb.Any{TypeUrl: "types.containerd.io/opencontainers/runtime-spec/1/Process", Value: []byte("{}")}},
			"broken options":     {Options: &anypb.Any{TypeUrl: "containerd.runc.v1.Options", Value: []byte{0xff, 0xff}}},
			"broken options too": {Options: &anypb.Any{TypeUrl: "runtimeoptions.v1.Options", Value: []byte{0xff, 0xff}}},
			"checkpoint":         {Checkpoint: "/tmp"},
			"terminal":           {Terminal: true, Stdout: "nonsense://\x00"},
			"output":             {Stdout: "gopher://x"},
		} {
			create(what, r)
		}
		for what, r := range map[string]*taskAPI.ExecProcessRequest{
			"nothing":     {ID: id, ExecID: "a"},
			"no JSON":     {ID: id, ExecID: "b", Spec: jsonAny("{")},
			"wrong types": {ID: id, ExecID: "c", Spec: jsonAny(`{"args": 1}`)},
			"path":        {ID: id, ExecID: "../../x", Spec: jsonAny(`{"args": ["true"], "cwd": "/"}`)},
			"no task":     {ID: "nobody", ExecID: "d", Spec: jsonAny(`{"args": ["true"], "cwd": "/"}`)},
		} {
			if _, err := task.Exec(ctx, r); err == nil {
				t.Errorf("exec with %s was taken", what)
			}
		}
		for i, p := range []string{`null`, `{}`, `{"args": [], "cwd": ""}`, `{"args": ["true"], "cwd": "/proc/self/fd/7"}`, `{"args": ["true"], "cwd": "/", "user": {"uid": 4000000000}}`} {
			e := fmt.Sprint("hostile", i)
			if _, err := task.Exec(ctx, &taskAPI.ExecProcessRequest{ID: id, ExecID: e, Spec: jsonAny(p)}); err != nil {
				continue
			}
			if _, err := task.Start(ctx, &taskAPI.StartRequest{ID: id, ExecID: e}); err == nil {
				t.Errorf("exec of %s was started", p)
			}
		}
		if now := shimOf(t, c, id); now != shim {
			t.Errorf("the shim was %d and is %d", shim, now)
		}
		if r := execIn(c, id, "probe", "identity"); r.Code != 0 {
			t.Error(r)
		}
		if n := len(records(t, c)); n != 1 {
			t.Errorf("%d jails are known", n)
		}
		if mounts, err := engine.MountsBelow(bundle.Dir); err != nil || len(mounts) > 0 {
			t.Errorf("mounts stay: %v, %v", mounts, err)
		}
		c.Remove(id)
		nothingLeft(t, c)
	})
}

// Both doors make the same jail of a bundle.
func TestSameAsCommandLine(t *testing.T) {
	each(t, func(t *testing.T, c *engine.CT) {
		bundle := engine.NewBundle(t, c.Dir)
		bundle.Spec.Linux.CgroupsPath = "/" + c.CgroupParent() + "/same"
		bundle.Spec.Process.Args = []string{"sleep", "1000"}
		bundle.Spec.Annotations = map[string]string{"dev.agentjail.limits.pids": "77", "run.oci.x": "y"}
		bundle.Spec.Linux.Resources = &specs.LinuxResources{}
		bundle.Write(t)
		bin := env.Get(t, engine.Shim)
		cli := engine.Caller{Path: filepath.Join(bin, "agentjail"), Args: []string{"--root", filepath.Join(c.Dir, "delegate")}}
		id := bundle.ID()
		if _, said, err := bundle.Call(t, cli, "create", "--bundle", bundle.Dir, id); err != nil {
			t.Fatal(err, said)
		}
		one := hardenedConfig(t, c, id)
		if _, said, err := bundle.Call(t, cli, "delete", "--force", id); err != nil {
			t.Fatal(err, said)
		}
		host := startJail(t, c) // for its shim
		ctx, task := dialShim(t, c, host)
		if _, err := task.Create(ctx, &taskAPI.CreateTaskRequest{ID: id, Bundle: bundle.Dir}); err != nil {
			t.Fatal(err)
		}
		two := hardenedConfig(t, c, id)
		if one != two {
			t.Errorf("the command line's:\n%s\nthe shim's:\n%s", one, two)
		}
		_, _ = task.Kill(ctx, &taskAPI.KillRequest{ID: id, Signal: 9})
		env.Eventually(c, "the jail is removed", func() bool { _, err := task.Delete(ctx, &taskAPI.DeleteRequest{ID: id}); return err == nil })
		c.Remove(host)
		nothingLeft(t, c)
	})
}

// hardenedConfig is what a jail's delegate got, without what differs from one jail to the next: its host ids, its user namespace, its
// directory, its boot id.
func hardenedConfig(t *testing.T, c *engine.CT, id string) string {
	t.Helper()
	j := record(t, c, id)
	if j == nil {
		t.Fatalf("no jail %s", id)
	}
	text := env.Read(t, filepath.Join("/run/agentjail/jails", j.Key, "bundle/config.json"))
	text = clocks.ReplaceAll(text, []byte(`"secs":-N`))
	return strings.NewReplacer(fmt.Sprint(j.IDs.UIDs[0].HostID), "FIRST", j.Key, "KEY", j.OwnUserNS, "USERNS").Replace(string(text))
}

// clocks are the offsets by which a jail's clocks begin near zero, where the delegate sets them: each jail has others.
var clocks = regexp.MustCompile(`"secs":-\d+`)
