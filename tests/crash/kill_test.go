package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestKilledAtEveryStep kills each verb at each of its steps, cleans up as
// engines do (`delete --force`), and looks. The bundle's root is a mount, as an
// engine's is, so that the jail's is attached over it.
func TestKilledAtEveryStep(t *testing.T) {
	rootfs := filepath.Join(bundle, "rootfs")
	env.Check(t, unix.Mount(rootfs, rootfs, "", unix.MS_BIND, ""))
	t.Cleanup(func() {
		if err := unix.Unmount(rootfs, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	for i, p := range engine.CrashPoints {
		t.Run(p.Point, func(t *testing.T) {
			id := fmt.Sprintf("crash%d-%d", os.Getpid(), i)
			defer agentjail(t, nil, "delete", "--force", id)
			for _, v := range verbs(id) {
				env := []string(nil)
				if v[0] == p.Verb {
					env = []string{"AGENTJAIL_TEST_CRASH=" + p.Point}
				}
				code, text := agentjail(t, env, v...)
				if v[0] == p.Verb {
					if code != -1 {
						t.Fatalf("%s was not killed at %s: status %d\n%s", v[0], p.Point, code, text)
					}
					break
				}
				if code != 0 {
					t.Fatalf("%v: status %d\n%s", v, code, text)
				}
			}
			cleanUp(t, id)
		})
	}
}

// verbs is a container's life.
func verbs(id string) [][]string {
	return [][]string{
		{"create", "--bundle", bundle, id},
		{"start", id},
		{"exec", id, "true"},
		{"delete", "--force", id},
	}
}

// cleanUp does what an engine and an operator do after a crash.
func cleanUp(t *testing.T, id string) {
	t.Helper()
	if code, text := agentjail(t, nil, "delete", "--force", id); code != 0 {
		t.Errorf("delete --force: status %d\n%s", code, text)
	}
	if code, text := agentjail(t, nil, "gc"); code != 0 {
		t.Errorf("gc: status %d\n%s", code, text)
	}
	waitGone(t, id)
}

// TestKilledAnywhere kills create at moments that no name is given to.
func TestKilledAnywhere(t *testing.T) {
	n := 40
	if testing.Short() {
		n = 8
	}
	for i := range n {
		id := fmt.Sprintf("crash%d-any%d", os.Getpid(), i)
		cmd := command(nil, "create", "--bundle", bundle, id)
		env.Check(t, cmd.Start())
		env.AnyMoment(60 * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		cleanUp(t, id)
		if t.Failed() {
			t.Fatalf("after kill %d", i)
		}
	}
}

// TestGCAlone reclaims a jail whose engine never cleans up: its bundle and the
// delegate's state are gone with it.
func TestGCAlone(t *testing.T) {
	for _, point := range []string{"create.claimed", "create.staged", "create.attached"} {
		id := fmt.Sprintf("crash%d-gc-%s", os.Getpid(), strings.TrimPrefix(point, "create."))
		if code, text := agentjail(t, []string{"AGENTJAIL_TEST_CRASH=" + point}, "create", "--bundle", bundle, id); code != -1 {
			t.Fatalf("not killed: status %d\n%s", code, text)
		}
		if len(left(id)) == 0 {
			t.Fatalf("killed at %s, and nothing is left: the test looks in the wrong places", point)
		}
		if code, text := agentjail(t, nil, "gc"); code != 0 {
			t.Fatalf("gc: status %d\n%s", code, text)
		}
		waitGone(t, id)
	}
}

// TestGCLeavesTheLiving alone.
func TestGCLeavesTheLiving(t *testing.T) {
	id := fmt.Sprintf("crash%d-living", os.Getpid())
	defer cleanUp(t, id)
	for _, v := range verbs(id)[:2] {
		if code, text := agentjail(t, nil, v...); code != 0 {
			t.Fatalf("%v: status %d\n%s", v, code, text)
		}
	}
	if code, text := agentjail(t, nil, "gc"); code != 0 {
		t.Fatalf("gc: status %d\n%s", code, text)
	}
	if code, text := agentjail(t, nil, "exec", id, "true"); code != 0 {
		t.Fatalf("the living jail is gone: exec: status %d\n%s", code, text)
	}
}

func TestDeleteIsIdempotent(t *testing.T) {
	id := fmt.Sprintf("crash%d-twice", os.Getpid())
	if code, text := agentjail(t, nil, verbs(id)[0]...); code != 0 {
		t.Fatalf("create: status %d\n%s", code, text)
	}
	for i := range 3 {
		if code, text := agentjail(t, nil, "delete", "--force", id); code != 0 {
			t.Fatalf("delete --force, time %d: status %d\n%s", i+1, code, text)
		}
	}
	code, text := agentjail(t, nil, "delete", id)
	if code != 1 || !strings.Contains(text, "does not exist") && !strings.Contains(text, "No such file") { // runc's words, and crun's
		t.Fatalf("delete of a missing container: status %d\n%s", code, text)
	}
	waitGone(t, id)
}

func TestSameIDTwice(t *testing.T) {
	id := fmt.Sprintf("crash%d-same", os.Getpid())
	defer cleanUp(t, id)
	if code, text := agentjail(t, nil, verbs(id)[0]...); code != 0 {
		t.Fatalf("create: status %d\n%s", code, text)
	}
	code, text := agentjail(t, nil, verbs(id)[0]...)
	if code != 1 || !strings.Contains(text, "already exists") {
		t.Fatalf("a second create: status %d\n%s", code, text)
	}
	if code, text := agentjail(t, nil, "start", id); code != 0 {
		t.Fatalf("the first is broken: start: status %d\n%s", code, text)
	}
}

// TestListShowsTheLiving: also with a delegate that looks at its containers from
// another time namespace.
func TestListShowsTheLiving(t *testing.T) {
	id := fmt.Sprintf("crash%d-list", os.Getpid())
	defer cleanUp(t, id)
	for _, v := range verbs(id)[:2] {
		if code, text := agentjail(t, nil, v...); code != 0 {
			t.Fatalf("%v: status %d\n%s", v, code, text)
		}
	}
	for _, args := range [][]string{{"list"}, {"list", "--format", "json"}, {"state", id}} {
		out, err := command(nil, args...).Output()
		if err != nil || !strings.Contains(string(out), "running") || !strings.Contains(string(out), bundle) {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}
