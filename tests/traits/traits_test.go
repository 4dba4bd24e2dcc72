package traits

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/delegate"
	"agentjail.dev/runtime/delegate/flaws"
	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/spec/traits"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// measures try each trait on a delegate, by the name of its field.
var measures = map[string]func(*testing.T, subject){
	"GroupsBelowRoot": func(t *testing.T, s subject) { groupBelowRoot(t, s, true, s.GroupsBelowRoot) },
	"IDBelowRoot": func(t *testing.T, s subject) {
		groupBelowRoot(t, s, false, s.GroupsBelowRoot || s.IDBelowRoot)
	},
	"KeepsStdio": func(t *testing.T, s subject) {
		for _, kind := range []uint32{unix.S_IFREG, unix.S_IFIFO} {
			c := newContainer(t, s, userNamespace)
			name := filepath.Join(c.b.Dir, "standard")
			env.Check(t, unix.Mknod(name, kind|0o600, 0))
			env.Check(t, os.Chown(name, 1234, 1234))
			c.out = env.Get(t, func() (*os.File, error) { return os.OpenFile(name, os.O_RDWR, 0) })
			c.start(t)
			var st unix.Stat_t
			env.Check(t, unix.Stat(name, &st))
			same(t, st.Uid == 1234 && st.Gid == 1234, s.KeepsStdio)
		}
	},
	"WithoutChown": func(t *testing.T, s subject) {
		if s.WithoutChown { // of others nothing is stated
			c := newContainer(t, s, userNamespace)
			c.c.Path, c.c.Args = "setpriv", append([]string{"--bounding-set=-chown", "--inh-caps=-chown", c.c.Path}, c.c.Args...)
			c.start(t)
		}
	},
	"PsNeedsGroup": func(t *testing.T, s subject) {
		c := newContainer(t, s, func(spec *specs.Spec) {
			spec.Process.Args = []string{"true"}
			spec.Linux.CgroupsPath = "/agentjail-traits"
		})
		c.start(t)
		env.Eventually(t, "the container's end and its groups'", func() bool {
			left := false
			for _, dir := range groupsOf("/agentjail-traits") {
				left = !errors.Is(unix.Rmdir(dir), unix.ENOENT) && exists(dir) || left
			}
			return !left
		})
		same(t, c.call(t, "ps", "--format", "json", c.id) != nil, s.PsNeedsGroup || s.Sandbox != "") // a sandbox's ps is never called then
	},
	"ExecNeedsPtrace": func(t *testing.T, s subject) {
		if s.Sandbox != "" { // the sentry starts the program
			return
		}
		c := newContainer(t, s, userNamespace)
		// A program that its user cannot read gives no ptrace access (ptrace(2)), as the init step.
		env.Check(t, os.Chmod(filepath.Join(c.b.Rootfs, "bin/busybox"), 0o711))
		c.start(t)
		same(t, c.call(t, "exec", c.id, "true") != nil, s.ExecNeedsPtrace)
	},
	"MountsNamedCgroupV1": func(t *testing.T, s subject) {
		if cgroups.Version(cgroups.Root) == 2 || s.Sandbox != "" { // a sandbox mounts none of the host's
			return
		}
		name := engine.NamedHierarchy(t, filepath.Dir(newContainer(t, s, nil).b.Dir))
		c := newContainer(t, s, func(spec *specs.Spec) {
			spec.Linux.Namespaces = append(spec.Linux.Namespaces, specs.LinuxNamespace{Type: specs.CgroupNamespace})
			spec.Mounts = append(spec.Mounts, specs.Mount{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"ro", "nosuid", "noexec", "nodev"}})
		})
		at := env.Get(t, func() (string, error) { return os.MkdirTemp("/sys/fs/cgroup", "named-") })
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH); os.Remove(at) })
		env.Check(t, unix.Mount("cgroup", at, "cgroup", 0, "none,name="+name))
		same(t, c.tryStart(t) == nil, s.MountsNamedCgroupV1)
	},
	"ReadsMaps": func(t *testing.T, s subject) {
		caps := s.caps(t)
		if !caps.ReadsMaps {
			return
		}
		first := newContainer(t, s, userNamespace)
		first.start(t)
		c := newContainer(t, s, func(spec *specs.Spec) {
			spec.Linux.Namespaces = append(spec.Linux.Namespaces, specs.LinuxNamespace{Type: specs.UserNamespace, Path: fmt.Sprintf("/proc/%d/ns/user", first.pid)})
		})
		c.start(t)
	},
	"Release": func(t *testing.T, s subject) {
		c := newContainer(t, s, nil)
		env.Check(t, c.create(t))
		pidfd := env.Get(t, func() (int, error) { return unix.PidfdOpen(c.pid, 0) })
		defer unix.Close(pidfd)
		done, err := delegate.Start(s.StateOf(s.path, c.root, c.id), pidfd, func() error { return nil })
		if err != nil {
			t.Error(err)
		}
		same(t, done, s.Release.Record != "")
		if done {
			env.Eventually(t, "the container's program", func() bool { return strings.HasPrefix(env.CommandLine(c.pid), "sleep") })
		}
	},
	"State": func(t *testing.T, s subject) {
		c := newContainer(t, s, nil)
		c.start(t)
		if at := s.StateOf(s.path, c.root, c.id); !exists(at) {
			t.Errorf("there is no %s", at)
		}
	},
	"Leaves": func(t *testing.T, s subject) {
		c := newContainer(t, s, nil)
		c.start(t)
		env.Check(t, c.call(t, "delete", "--force", c.id))
		root := filepath.Dir(s.StateOf(s.path, c.root, c.id))
		for _, e := range env.Get(t, func() ([]os.DirEntry, error) { return os.ReadDir(root) }) {
			if !slices.Contains(s.LeavesOf(c.id), e.Name()) {
				t.Errorf("it leaves %s in %s", e.Name(), root)
			}
		}
	},
	"FastSince": func(t *testing.T, s subject) {
		caps := s.caps(t)
		_, at, _, ok := flaws.Version(caps.Version)
		if whole := caps.OCIMax != "" && len(caps.Namespaces) > 0; s.FastSince != (traits.Version{}) && (!ok || !at.Less(s.FastSince) && !whole) {
			t.Errorf("%+v", caps)
		}
	},
	"EveryReleaseWorks": func(t *testing.T, s subject) {
		b := engine.NewBundle(t, engine.TempDir(t, "/var/tmp", "agentjail-traits-"))
		b.Spec.Process.Args = []string{"echo", "works"}
		if out, err := b.Run(t, s.under(t, b, "")); err != nil || out != "works\n" {
			t.Errorf("%q, %v", out, err)
		}
	},
	"Boundary": func(t *testing.T, s subject) {
		b := engine.NewBundle(t, engine.TempDir(t, "/var/tmp", "agentjail-traits-"))
		b.Spec.Process.Args = []string{"sleep", "1000"}
		c, id := s.under(t, b, ""), b.ID()
		defer b.Call(t, c, "delete", "--force", id) //nolint:errcheck // what a failed test left
		null := env.Get(t, func() (*os.File, error) {
			return os.OpenFile(filepath.Join(b.Dir, "out"), os.O_CREATE|os.O_RDWR, 0o600)
		})
		b.Write(t)
		cmd := b.Command(t.Context(), c, "run", "--detach", "--bundle", b.Dir, id)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = null, null, null
		env.Check(t, cmd.Run())
		out, errs, err := b.Call(t, c, "inspect", id)
		if err != nil {
			t.Errorf("%v\n%s%s", err, out, errs)
		}
		for name, place := range s.Traits.Boundary.Other {
			if place == traits.Void && !strings.Contains(out, name) {
				t.Errorf("inspect does not name %s, which is void:\n%s", name, out)
			}
		}
	},
	"Sandbox": func(t *testing.T, s subject) {
		c := newContainer(t, s, nil)
		c.start(t)
		runs := func() bool { return strings.HasPrefix(env.CommandLine(c.pid), "sleep") }
		if s.Sandbox != "" {
			same(t, !runs(), true)
		} else {
			env.Eventually(t, "the container's program as the first process", runs)
		}
	},
	"Pinned": func(t *testing.T, s subject) {
		if line := s.caps(t).Version; !strings.Contains(line, s.Pinned) {
			t.Errorf("the tests run %s, and the pin is %s", line, s.Pinned)
		}
	},
}

// TestEachTrait: what the table states of a delegate is so.
func TestEachTrait(t *testing.T) {
	fields := reflect.VisibleFields(reflect.TypeFor[traits.Traits]())
	for _, f := range fields {
		if measures[f.Name] == nil {
			t.Errorf("no test tries the trait %s", f.Name)
		}
	}
	if len(measures) != len(fields) {
		t.Errorf("%d tests, %d traits", len(measures), len(fields))
	}
	for _, s := range subjects(t) {
		for name, measure := range measures {
			t.Run(s.name+"/"+name, func(t *testing.T) { measure(t, s) })
		}
	}
}

// same compares what was measured with what the table has.
func same(t *testing.T, got, stated bool) {
	t.Helper()
	if got != stated {
		t.Errorf("measured %v, and the table has %v", got, stated)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// caps are what agentjail reads of the delegate.
func (s subject) caps(t *testing.T) delegate.Caps {
	t.Helper()
	d := env.Get(t, func() (*delegate.Runtime, error) { return delegate.Resolve(s.path) })
	return env.Get(t, func() (delegate.Caps, error) { return d.Capabilities("") })
}

// A container is one of the delegate's own, without agentjail.
type container struct {
	b        *engine.Bundle
	c        engine.Caller
	root, id string
	out      *os.File
	pid      int
}

// newContainer prepares a container that sleeps.
func newContainer(t *testing.T, s subject, change func(*specs.Spec)) *container {
	t.Helper()
	b := engine.NewBundle(t, engine.TempDir(t, "/var/tmp", "agentjail-traits-"))
	b.Spec.Process.Args = []string{"sleep", "1000"}
	c := &container{b: b, root: filepath.Join(b.Dir, "state"), id: b.ID()}
	b.Spec.Linux.CgroupsPath = "/agentjail-traits-" + c.id
	if change != nil {
		change(b.Spec)
	}
	var options []string
	if s.Sandbox != "" {
		options = []string{"--platform=" + delegate.Platform, "--network=none", "--gofer-network-namespace=new"}
	}
	c.c = s.plain(t, append(options, "--root", filepath.Dir(s.StateOf(s.path, c.root, c.id)))...)
	c.out = env.Get(t, func() (*os.File, error) { return os.Create(filepath.Join(b.Dir, "out")) })
	t.Cleanup(func() {
		if err := c.call(t, "delete", "--force", c.id); err != nil && c.pid != 0 {
			t.Errorf("deleting the container: %v: %s", err, env.Read(t, c.out.Name()))
		}
		c.out.Close()
	})
	return c
}

// userNamespace gives a container one, of ids that no user has.
func userNamespace(spec *specs.Spec) {
	const first = 0x70000000
	spec.Linux.Namespaces = append(spec.Linux.Namespaces, specs.LinuxNamespace{Type: specs.UserNamespace})
	spec.Linux.UIDMappings = []specs.LinuxIDMapping{{HostID: first, Size: 65536}}
	spec.Linux.GIDMappings = spec.Linux.UIDMappings
}

// call runs a verb of the delegate with a file as its standard files, which a container may keep.
func (c *container) call(t *testing.T, args ...string) error {
	t.Helper()
	c.b.Write(t)
	// A test's context ends before its cleanup.
	cmd := c.b.Command(context.WithoutCancel(t.Context()), c.c, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.out, c.out, c.out
	return cmd.Run()
}

func (c *container) create(t *testing.T) error {
	t.Helper()
	pid := filepath.Join(c.b.Dir, "pid")
	if err := c.call(t, "create", "--bundle", c.b.Dir, "--pid-file", pid, c.id); err != nil {
		text, _ := os.ReadFile(filepath.Join(c.b.Dir, "out"))
		return fmt.Errorf("%w: %s", err, text)
	}
	text, err := os.ReadFile(pid)
	if err == nil {
		c.pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	return err
}

func (c *container) tryStart(t *testing.T) error {
	t.Helper()
	if err := c.create(t); err != nil {
		return err
	}
	return c.call(t, "start", c.id)
}

func (c *container) start(t *testing.T) {
	t.Helper()
	env.Check(t, c.tryStart(t))
}

// groupsOf are the directories of a control group, in all hierarchies.
func groupsOf(path string) (out []string) {
	for _, under := range []string{"", "/*"} {
		found, _ := filepath.Glob(cgroups.Root + under + path)
		out = append(out, found...)
	}
	return out
}

// groupBelowRoot tries where a container's group is made that is named without a slash in front.
func groupBelowRoot(t *testing.T, s subject, named, stated bool) {
	// From a group that is not the root's, and is removed after the container.
	own := filepath.Join(cgroups.Root, "memory", "agentjail-traits-own")
	if cgroups.Version(cgroups.Root) == 2 {
		own = filepath.Join(cgroups.Root, "agentjail-traits-own")
	}
	env.Check(t, os.MkdirAll(own, 0o755))
	t.Cleanup(func() { env.Check(t, os.Remove(own)) })
	c := newContainer(t, s, nil)
	if c.b.Spec.Linux.CgroupsPath = ""; named {
		c.b.Spec.Linux.CgroupsPath = "agentjail-traits-" + c.id
	}
	c.c.Path, c.c.Args = "/bin/sh", append([]string{"-c", `echo 0 >"$0/cgroup.procs"; exec "$@"`, own, c.c.Path}, c.c.Args...)
	c.start(t)
	groups := env.Get(t, func() ([]cgroups.Group, error) { return cgroups.Of(strconv.Itoa(c.pid)) })
	for _, g := range groups {
		if slices.Contains(g.List(), "memory") || g.Controllers == "" && cgroups.Version(cgroups.Root) == 2 {
			same(t, filepath.Dir(g.Path) == "/", stated)
			return
		}
	}
	t.Errorf("%+v", groups)
}
