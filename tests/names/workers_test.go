package names

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"agentjail.dev/runtime/jailinit/keeper"
	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/network/helper"
	"agentjail.dev/tests/env"
)

// A worker is a process of a jail's, as it runs.
type worker struct {
	pid, jail int
	name      string // of what it executes
	callers   []int  // processes in whose groups it is, where those are its caller's
}

// A place is what docs/host-limits.md states of a process that works for a jail: its control groups and its open files.
type place struct{ groups, files string }

// The groups of workers.
const (
	ownGroups     = "its own, beside the jail's; version 1: for processors, in the jail's"
	jailsGroups   = "the jail's"
	callersGroups = "its caller's"
	serviceGroups = "its service's"
)

// workersTable is the table of docs/host-limits.md.
func workersTable(t *testing.T) map[string]place {
	t.Helper()
	_, table, _ := strings.Cut(string(env.Read(t, "../../docs/host-limits.md")), "\n| process | while | control groups | processor | memory | sockets | files |")
	out, above := map[string]place{}, []string(nil)
	for line := range strings.Lines(table) {
		if line == "\n" {
			break
		}
		cells := strings.Split(line, " | ")
		if len(cells) != 8 {
			continue // the head
		}
		for i, c := range cells {
			if c == "same" {
				cells[i] = above[i]
			}
		}
		above = cells
		name := strings.ReplaceAll(strings.TrimPrefix(cells[0], "| "), "`", "")
		if !slices.Contains([]string{ownGroups, jailsGroups, callersGroups, serviceGroups}, cells[2]) || out[name] != (place{}) {
			t.Errorf("%s is there twice, or in unknown groups: %s", name, cells[2])
		}
		out[name] = place{cells[2], cells[6]}
	}
	if len(out) < 10 {
		t.Fatalf("the table has only %v", out)
	}
	return out
}

// TestWorkers: each process that works for a jail is in the control groups that the list states, and has the bounds that it states.
func TestWorkers(t *testing.T) {
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	onHost = n.ca
	trust(t, n)
	walked := map[string]bool{}
	walk := func(name string, w worker) {
		walked[name] = true
		w.walk(t, name)
	}
	j := bounded(t, n)
	walk("agentjail-egress as its activator", worker{pid: j.helper(t).Pid, jail: j.pid(t), name: "memfd:agentjail-egress"})
	if got, ok := j.in(t, "https", "api.example.test", "443"); !ok {
		t.Fatal(got)
	}
	walk("agentjail-egress", worker{pid: j.helper(t).Pid, jail: j.pid(t), name: "agentjail-egress"})
	keys := withCredential(t, n, "end")
	walk("agentjail-egress-keys", worker{pid: keys.helper(t).Pid, jail: keys.pid(t), name: "agentjail-egress-keys"})
	waiting := newJail(t, n)
	waiting.b.Spec.Process.Args = []string{"true"}
	if out, errs, err := waiting.b.Call(t, waiting.c, "create", "--bundle", waiting.b.Dir, waiting.id); err != nil {
		t.Fatalf("%v: %s%s", err, out, errs)
	}
	walk("agentjail-enter", worker{pid: waiting.pid(t), jail: waiting.pid(t)})
	walk("agentjail create, start, exec, delete …", calling(t, j))
	a := beginAttack(t, sandboxed(t, newLab(t, n)))
	if a == nil {
		t.FailNow()
	}
	walk("agentjailctl sandbox", worker{pid: a.cmd.Process.Pid, jail: j.pid(t), name: "agentjailctl", callers: []int{os.Getpid()}})
	kept := childNamed(t, a.cmd.Process.Pid, keeper.Name)
	walk("agentjail-enter as the keeper of a sandbox", worker{pid: kept, jail: j.pid(t), name: "agentjail-enter", callers: []int{os.Getpid()}})
	a.end(t)
	for name := range workersTable(t) {
		if others[name] == "" && !walked[name] {
			t.Errorf("%s is not walked", name)
		}
	}
}

// others are those of the list that other tests walk, and which.
var others = map[string]string{
	"containerd-shim-agentjail-v2":              "tests/shim TestShimControlGroups",
	"agentjail-enter as process 1 of a sandbox": "tests/ends TestInitIsOutOfReach",
	"agentjail-journal reader":                  "tests/ebpf TestCollectorFilter; its service's bounds hack/lint TestWorkers",
	"agentjail-journal writer":                  "tests/ebpf TestCollectorFilter; its service's bounds hack/lint TestWorkers",
}

// childNamed is the child of a process that has a word as its first argument.
func childNamed(t *testing.T, parent int, word string) int {
	t.Helper()
	found := env.ChildrenNamed(parent, 0, word)
	if len(found) == 0 {
		t.Fatalf("process %d has no child %s", parent, word)
	}
	return found[0]
}

// calling is agentjail while it has a call to do for a jail: an exec that runs.
func calling(t *testing.T, j *jail) worker {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), env.CommandWait)
	cmd := j.b.Command(ctx, j.c, "exec", j.id, client, "hold")
	t.Cleanup(cancel)
	env.Begin(t, cmd).Await(t, "hello")
	return worker{pid: cmd.Process.Pid, jail: j.pid(t), callers: []int{os.Getpid()}}
}

// walk holds a process to its place in the list.
func (w worker) walk(t *testing.T, name string) {
	t.Helper()
	to, ok := workersTable(t)[name]
	if !ok {
		t.Fatalf("%s is in no list", name)
	}
	t.Run(name, func(t *testing.T) { w.hold(t, to) })
}

// hold is walk's, of one place.
func (w worker) hold(t *testing.T, to place) {
	if got := executes(t, "/proc", w.pid); w.name != "" && !strings.HasPrefix(got, w.name) {
		t.Errorf("process %d executes %s, not %s", w.pid, got, w.name)
	}
	for _, controller := range []string{"memory", "pids", "cpu"} {
		own, jails := groupOf(t, w.pid, controller), groupOf(t, w.jail, controller)
		switch to.groups {
		case ownGroups:
			above := filepath.Dir(jails)
			if controller == "cpu" && cgroups.Version(jails) == 1 {
				above = jails
			}
			if own == jails || filepath.Dir(own) != above || !strings.HasPrefix(filepath.Base(own), "agentjail-egress-") {
				t.Errorf("its group of %s is %s, the jail's is %s", controller, own, jails)
			}
		case jailsGroups:
			if own != jails {
				t.Errorf("its group of %s is %s, not the jail's, %s", controller, own, jails)
			}
		case callersGroups:
			if want := groupOf(t, w.callers[0], controller); own != want || own == jails {
				t.Errorf("its group of %s is %s, not its caller's, %s", controller, own, want)
			}
		}
	}
	if to.groups == ownGroups {
		w.limits(t, to)
	}
}

// limits holds a helper to its limits.
func (w worker) limits(t *testing.T, to place) {
	value := func(pid int, controller string, files ...string) string {
		for _, f := range files {
			if text, err := cgroups.Read(groupOf(t, pid, controller), f); err == nil {
				return strings.TrimSpace(text)
			}
		}
		t.Errorf("process %d has none of %v", pid, files)
		return ""
	}
	quota, weight := "-1", "1024" // within its jail's
	if cgroups.Version(groupOf(t, w.jail, "cpu")) == 2 {
		var of, period int
		if _, err := fmt.Sscan(value(w.jail, "cpu", "cpu.max"), &of, &period); err != nil {
			t.Error(err)
		}
		quota, weight = fmt.Sprint(of/helper.QuotaPart, " ", period), value(w.jail, "cpu", "cpu.weight")
	}
	for _, row := range []struct {
		what, got, want string
	}{
		{"memory", value(w.pid, "memory", "memory.limit_in_bytes", "memory.high"), strconv.Itoa(helper.MemoryMax)},
		{"threads", value(w.pid, "pids", "pids.max"), strconv.Itoa(helper.PidsMax)},
		{"quota", value(w.pid, "cpu", "cpu.cfs_quota_us", "cpu.max"), quota},
		{"weight", value(w.pid, "cpu", "cpu.shares", "cpu.weight"), weight},
		{"capabilities", env.Status(t, w.pid, "CapEff"), "0000000000000000"},
		{"a filter", env.Status(t, w.pid, "Seccomp"), "2"},
	} {
		if row.got != row.want {
			t.Errorf("%s: %s, not %s", row.what, row.got, row.want)
		}
	}
	const tcp = "memory.kmem.tcp.limit_in_bytes"
	if mine, err := cgroups.Read(groupOf(t, w.pid, "memory"), tcp); err == nil {
		if jails, _ := cgroups.Read(groupOf(t, w.jail, "memory"), tcp); mine != jails {
			t.Errorf("its sockets may hold %s, its jail's %s", mine, jails)
		}
	}
	if _, err := strconv.Atoi(to.files); err == nil {
		limits := env.Read(t, fmt.Sprintf("/proc/%d/limits", w.pid))
		for line := range strings.Lines(string(limits)) {
			if f := strings.Fields(line); strings.HasPrefix(line, "Max open files") && (f[3] != to.files || f[4] != to.files) {
				t.Errorf("it may have %s and %s files open, not %s", f[3], f[4], to.files)
			}
		}
	}
}

// groupOf is the directory of a process's control group that has a controller.
func groupOf(t *testing.T, pid int, controller string) string {
	t.Helper()
	of, err := cgroups.Of(strconv.Itoa(pid))
	env.Check(t, err)
	for _, version := range []string{controller, ""} {
		for _, g := range of {
			if !slices.Contains(g.List(), version) {
				continue
			}
			for _, root := range g.Mounts(cgroups.Root) {
				return filepath.Join(root, g.Path)
			}
		}
	}
	t.Fatalf("process %d is in no group of %s", pid, controller)
	return ""
}
