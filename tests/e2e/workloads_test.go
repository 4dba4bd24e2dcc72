package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
	"agentjail.dev/tests/workloads"
)

func init() {
	engine.Policies["agentjail-strict"] = "[seccomp]\nprofile = \"strict\"\n"
	engine.Policies["agentjail-debug"] = "[seccomp]\nprofile = \"debug\"\n"
	engine.Policies["agentjail-server"] = "[seccomp]\nprofile = \"server\"\n"
}

// TestWorkloads runs every program of the list under runc and in jails, in one image: what they print and how they end is
// the same, line by line, but for the differences that the list names.
func TestWorkloads(t *testing.T) {
	needAgentjail(t)
	env.Check(t, docker.ImportWork())
	for _, w := range workloads.List {
		if w.OnlyHost {
			continue // the filter's own test runs it
		}
		if w.Heavy && !workloads.All() {
			t.Logf("not run, as it takes long: %s (WORKLOADS=all runs it)", w.Name)
			continue
		}
		t.Run(w.Name, func(t *testing.T) {
			d := d(t)
			for _, p := range places(w) {
				want := workIn(d, "runc", w, p, "-v", p.directory(t, p.user)+":/workspace")
				if strings.TrimSpace(want) == "exit code 0" {
					t.Fatal("prints nothing")
				}
				for _, jail := range jailsOf(w) {
					compareWork(t, w, p, jail, want, workIn(d, jail, w, p, "-v", p.directory(t, 1000)+":/workspace"))
				}
			}
		})
	}
}

// jailsOf lists the runtimes that a work is for.
func jailsOf(w workloads.Work) []string {
	jails := []string{engine.Name}
	if w.Server {
		jails = []string{"agentjail-server"}
	}
	if w.Debug {
		jails = []string{"agentjail-debug"}
	}
	if w.Strict {
		jails = append(jails, "agentjail-strict")
	}
	return jails
}

// A place is where a work is done, and as whom: in the container's own layer, or in a mounted directory.
type place struct {
	user      uint32
	workspace bool
}

// places are those of a work. All of them for heavy work's lane; in every run the work's own, and for what is done in a
// workspace that, as both users.
func places(w workloads.Work) []place {
	layer, workspace := []place{{0, false}, {1000, false}}, []place{{0, true}, {1000, true}}
	switch {
	case workloads.All() && w.Workspace:
		return append(layer, workspace...)
	case w.Workspace:
		return workspace
	case workloads.All() && w.User == 0 && !w.Root:
		return layer
	}
	return []place{{user: w.User}}
}

// String states the place in messages.
func (p place) String() string {
	where := "in its layer"
	if p.workspace {
		where = "in a workspace"
	}
	return fmt.Sprintf("as %d %s", p.user, where)
}

// directory makes the directory that is mounted. A plain container's root has one of its own, since owners are not mapped
// there.
func (p place) directory(t *testing.T, owner uint32) string {
	dir := directory(t, int(owner))
	env.Check(t, os.Remove(filepath.Join(dir, "hello")))
	return dir
}

// TestWorkloadFiles finds out how many open files each program of the list needs, of the powers of four up to what a jail
// gets: docs/host-limits.md has what it states. It takes long and judges little, so that only WORKLOADS=files runs it.
func TestWorkloadFiles(t *testing.T) {
	if os.Getenv("WORKLOADS") != "files" {
		t.Log("not run, as it takes long and holds no protection: WORKLOADS=files runs it")
		return
	}
	needAgentjail(t)
	env.Check(t, docker.ImportWork())
	for _, w := range workloads.List {
		if w.OnlyHost || w.Heavy {
			continue
		}
		t.Run(w.Name, func(t *testing.T) {
			d := d(t)
			jail := engine.Name
			if w.Server {
				jail = "agentjail-server"
			}
			own := place{user: w.User}
			want := workIn(d, jail, w, own)
			for files := 16; files <= 16384; files *= 4 {
				limit := fmt.Sprintf("nofile=%d:%d", files, files)
				if workIn(d, jail, w, own, "--ulimit", limit) == want {
					t.Logf("%s: %s needs at most %d open files", jail, w.Name, files)
					return
				}
			}
			t.Errorf("%s: %s prints something else each time", jail, w.Name)
		})
	}
}

// workIn runs a work's script and returns what it printed, standard error included, and its exit code.
func workIn(d *engine.T, runtime string, w workloads.Work, p place, options ...string) string {
	d.Helper()
	dir := "/tmp"
	if p.workspace {
		dir = "/workspace"
	}
	args := []string{"run", "--rm", "-i", "--runtime=" + runtime, "--network", "none", "--hostname", "work", "-w", dir, "-u", fmt.Sprint(p.user)}
	for _, e := range []string{"HOME=/tmp", "TMPDIR=/tmp", "GOFLAGS=-mod=mod", "GOPROXY=off", "GOTOOLCHAIN=local", "GOCACHE=/tmp/gocache", "CARGO_HOME=/tmp/cargo", "PYTHONDONTWRITEBYTECODE=1"} {
		args = append(args, "-e", e)
	}
	args = append(args, options...)
	var needs strings.Builder
	for _, n := range w.Needs {
		fmt.Fprintf(&needs, "command -v %s >/dev/null || { echo the image has no %s; exit 99; }\n", n, n)
	}
	r := d.Docker(append(args, engine.Work, "sh", "-c", needs.String()+"exec 2>&1; sh -c \"$1\"", "sh", w.Script)...)
	if r.Code == 99 || r.Code < 0 || r.Code == 125 {
		d.Fatal(r)
	}
	d.Logf("%s %s: %v", runtime, p, r.Took)
	return r.Stdout + fmt.Sprintf("exit code %d\n", r.Code)
}

// compareWork tests that the outputs differ where the list reports it and nowhere else.
func compareWork(t *testing.T, w workloads.Work, p place, jail, want, got string) {
	t.Helper()
	jail += " " + p.String()
	problem, unmet := workloads.Compare(want, got, w.Differs)
	if problem != "" {
		t.Errorf("%s: %s", jail, problem)
		return
	}
	if p.user != w.User {
		return // the list is about the work's own user
	}
	for _, d := range unmet {
		t.Errorf("%s does not differ as the list states: runc %q, jail %q (%s)", jail, d.Runc, d.Jail, d.Why)
	}
}
