package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/workspace"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// views is the store of views, and the options of calls for a jail whose mounted directory is one.
func views(t *testing.T) (workspace.Store, []string) {
	t.Helper()
	engine.NeedsViews(t)
	conf := filepath.Join(filepath.Dir(bin), "review.toml")
	text := fmt.Sprintf("workspace.review = [%q]\nworkspace.size = \"16MiB\"\nworkspace.files = 1000\n", work)
	env.Check(t, os.WriteFile(conf, []byte(text), 0o600))
	return workspace.Of(state.Store{Root: state.DefaultRoot}), []string{"--config", conf}
}

// viewsOf lists the views of this package's mounted directory: others may have views of theirs.
func viewsOf(t *testing.T, s workspace.Store) []*workspace.Record {
	t.Helper()
	all := env.Get(t, s.List)
	return slices.DeleteFunc(all, func(r *workspace.Record) bool { return r.Path != work && r.Path != "" })
}

// templates are what views of 16 MiB are copied from.
func templates(s workspace.Store) []string {
	all, _ := filepath.Glob(filepath.Join(s.Dir, ".template-view-16777216-*"))
	return all
}

// layersLeft lists loop devices of layers, and parts of views, but for those that were there before.
func layersLeft(s workspace.Store, before ...string) (out []string) {
	bound, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, f := range bound {
		if text, err := os.ReadFile(f); err == nil && strings.Contains(string(text), "/workspaces/") {
			out = append(out, string(text))
		}
	}
	parts, _ := filepath.Glob(filepath.Join(s.Dir, ".new-*"))
	return slices.DeleteFunc(append(out, parts...), func(l string) bool { return slices.Contains(before, l) })
}

// TestKilledInReview kills create and delete at each step of a view: after the usual clean-up no part of one is left, and what a jail
// wrote is in a view that goes on.
func TestKilledInReview(t *testing.T) {
	store, opts := views(t)
	before := layersLeft(store)
	for i, p := range engine.ReviewCrashPoints {
		t.Run(p.Point, func(t *testing.T) {
			id := fmt.Sprintf("crash%d-review%d", os.Getpid(), i)
			defer agentjail(t, nil, "delete", "--force", id)
			if p.Point == "workspace.template" { // each other start finds it made
				for _, at := range templates(store) {
					env.Check(t, os.Remove(at))
				}
				defer func() {
					if all := templates(store); len(all) > 0 {
						t.Errorf("a template of a killed start: %q", all)
					}
				}()
			}
			for _, v := range [][]string{{"create", "--bundle", bundle, id}, {"start", id}, {"exec", id, "touch", "/work/new"}, {"delete", "--force", id}} {
				var env []string
				if v[0] == p.Verb {
					env = []string{"AGENTJAIL_TEST_CRASH=" + p.Point}
				}
				code, text := agentjail(t, env, append(opts, v...)...)
				if env != nil {
					if code != -1 {
						t.Fatalf("%s was not killed at %s: status %d\n%s", v[0], p.Point, code, text)
					}
					break
				}
				if code != 0 {
					t.Fatalf("%v: status %d\n%s", v, code, text)
				}
			}
			// The clean-up is killed, too, where it comes so far.
			for verb, point := range map[string]string{"delete --force " + id: "workspace.synced", "gc": "workspace.unmarked"} {
				_, _ = agentjail(t, []string{"AGENTJAIL_TEST_CRASH=" + point}, strings.Fields(verb)...)
			}
			cleanUp(t, id)
			env.Eventually(t, "the end of the layers", func() bool { return len(layersLeft(store, before...)) == 0 })
			all := viewsOf(t, store)
			if p.Verb == "create" {
				if len(all) != 0 {
					t.Fatalf("left: %+v", all[0])
				}
				return
			}
			if len(all) != 1 || all[0].State != workspace.Ended {
				t.Fatalf("views: %+v", all)
			}
			defer func() {
				if err := store.Discard(all[0]); err != nil {
					t.Error(err)
				}
			}()
			l, err := store.OpenLayers(all[0])
			env.Check(t, err)
			defer l.Close()
			if f, err := openat.File(int(l.Upper.Fd()), "new", openat.Beneath, os.O_RDONLY); err != nil {
				t.Error(err)
			} else {
				f.Close()
			}
		})
	}
}

// TestReviewOfRestarted: a container with the same id goes on in its view.
func TestReviewOfRestarted(t *testing.T) {
	store, opts := views(t)
	id := fmt.Sprintf("crash%d-again", os.Getpid())
	defer cleanUp(t, id)
	for _, v := range [][]string{
		{"create", "--bundle", bundle, id},
		{"start", id},
		{"exec", id, "sh", "-ec", "echo 1 >/work/new; mv /work/src /work/moved"},
		{"delete", "--force", id},
		{"create", "--bundle", bundle, id},
		{"start", id},
		{"exec", id, "sh", "-ec", "test -e /work/new; test -e /work/moved/main.go; rm /work/new; test ! -e /work/src"},
		{"delete", "--force", id},
	} {
		if code, text := agentjail(t, nil, append(opts, v...)...); code != 0 {
			t.Fatalf("%v: status %d\n%s", v, code, text)
		}
	}
	all := viewsOf(t, store)
	if len(all) != 1 {
		t.Fatalf("%+v", all)
	}
	if err := store.Discard(all[0]); err != nil {
		t.Error(err)
	}
}
