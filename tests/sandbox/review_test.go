package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentjail.dev/runtime/state"
	workspaces "agentjail.dev/runtime/workspace"
	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// small is a policy with a small layer.
func small(t *testing.T) string {
	t.Helper()
	engine.NeedsViews(t)
	return engine.PolicyFile(t, "workspace.size = \"32MiB\"\nworkspace.files = 4000\n")
}

// repository is a workspace with two files.
func repository(t *testing.T) string {
	t.Helper()
	return engine.Workspace(t, map[string]string{"old": "old\n", "lib/a": "a\n", ".git/config": "[core]\n"})
}

// tree is a directory's files with their texts.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.Walk(dir, func(path string, fi os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		text := ""
		if fi.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(b)
		}
		fmt.Fprintf(&out, "%s %s %d %q\n", path, fi.Mode(), fi.Sys().(*syscall.Stat_t).Uid, text)
		return nil
	})
	env.Check(t, err)
	return out.String()
}

// agentjail runs one of the commands for people.
func agentjail(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	r := engine.Run(t, bin, args...)
	return r.Code, r.Stdout + r.Stderr
}

// inView runs a script over a workspace under review.
func inView(t *testing.T, policy, dir, script string, more ...string) (code int, out, errs string) {
	t.Helper()
	args := append([]string{"--config", policy, "--workspace", dir, "--review"}, more...)
	return sandbox(t, append(args, "--", "sh", "-ec", script)...)
}

// TestReviewStaysOffTheHost: what a command writes to a workspace under review is there for it, and not on the host.
func TestReviewStaysOffTheHost(t *testing.T) {
	dir, policy := repository(t), small(t)
	before := tree(t, dir)
	code, out, errs := inView(t, policy, dir, `
		echo new >new; echo more >>old; mv lib lib2; rm lib2/a; mkdir lib; echo "[alias]" >>.git/config; ln old hard
		stat -c %u:%g new lib; cat old; ls; grep " $PWD " /proc/self/mountinfo; ls -A "$PWD/.." | wc -l`)
	if code != 0 || !strings.HasPrefix(out, "1000:1000\n1000:1000\nold\nmore\nhard\nlib\nlib2\nnew\nold\n") {
		t.Fatalf("status %d, %q, %q", code, out, errs)
	}
	if !strings.Contains(out, "lowerdir=l,upperdir=u/upper") || strings.Contains(out, "/var/lib") {
		t.Errorf("the mount table: %s", out)
	}
	if after := tree(t, dir); after != before {
		t.Errorf("the directory was\n%sand is\n%s", before, after)
	}
	_, id, ok := strings.Cut(errs, "in view ")
	if id, _, _ = strings.Cut(id, ":"); !ok {
		t.Fatalf("no view is announced: %q", errs)
	}
	if code, out := agentjail(t, "workspace", "list"); code != 0 || !strings.Contains(out, id) || !strings.Contains(out, dir) || !strings.Contains(out, "ended") {
		t.Errorf("status %d, %q", code, out)
	}
	if code, out := agentjail(t, "workspace", "list", "--json"); code != 0 || !strings.Contains(out, `"id":"`+id) && !strings.Contains(out, `"id": "`+id) {
		t.Errorf("status %d, %q", code, out)
	}
	if code, out := agentjail(t, "workspace", "discard", id[:6]); code != 0 || !strings.Contains(out, "discarded "+id) {
		t.Errorf("status %d, %q", code, out)
	}
	if code, out := agentjail(t, "workspace", "discard", id); code == 0 || !strings.Contains(out, "no such view") {
		t.Errorf("status %d, %q", code, out)
	}
}

// TestReviewPromise: what every engine's view is, a sandbox's is, too.
func TestReviewPromise(t *testing.T) {
	policy := small(t)
	ask := func(t testing.TB, args ...string) engine.Result { return engine.Run(t, bin, args...) }
	err := promise.View(t, ask, func(t testing.TB, dir string, command ...string) func() engine.Result {
		args := []string{"--config", policy, "sandbox", "--workspace", dir, "--review", "--view", filepath.Base(dir), "--"}
		return func() engine.Result { return engine.Run(t, bin, append(args, command...)...) }
	}, 2)
	if err != nil {
		t.Error(err)
	}
}

// TestReviewGoesOn: a view with a name goes on in a later sandbox, and no other one is left.
func TestReviewGoesOn(t *testing.T) {
	dir, policy := repository(t), small(t)
	name := "v" + filepath.Base(dir)
	t.Cleanup(func() { agentjail(t, "workspace", "discard", name) })
	if code, out, errs := inView(t, policy, dir, "echo 1 >n; mv lib lib2", "--view", name); code != 0 {
		t.Fatalf("status %d, %q, %q", code, out, errs)
	}
	if code, out, errs := inView(t, policy, dir, "cat n lib2/a; test ! -e lib; mv lib2 lib3; rm old", "--view", name); code != 0 || out != "1\na\n" {
		t.Fatalf("status %d, %q, %q", code, out, errs)
	}
	if code, out, errs := inView(t, policy, dir, "test ! -e n; ls"); code != 0 || out != "lib\nold\n" || strings.Contains(errs, "view") {
		t.Errorf("a view of its own, without a change: status %d, %q, %q", code, out, errs)
	}
	if code, _, errs := inView(t, policy, repository(t), "true", "--view", name); code != 125 || !strings.Contains(errs, "another directory") {
		t.Errorf("of another directory: status %d, %q", code, errs)
	}
	if code, out := agentjail(t, "workspace", "list"); code != 0 || strings.Count(out, dir) != 1 {
		t.Errorf("status %d, %q", code, out)
	}
}

// TestReviewMoved: where the owner renames a file that a jail has changed, the next jail of the view
// sees both.
func TestReviewMoved(t *testing.T) {
	dir, policy := repository(t), small(t)
	if code, _, errs := inView(t, policy, dir, "echo jail >>old", "--view", "moved"); code != 0 {
		t.Fatalf("status %d, %q", code, errs)
	}
	t.Cleanup(func() { agentjail(t, "workspace", "discard", "moved") })
	env.Check(t, os.Rename(filepath.Join(dir, "old"), filepath.Join(dir, "older")))
	if code, out, errs := inView(t, policy, dir, "cat older; cat old", "--view", "moved"); code != 0 || out != "old\nold\njail\n" {
		t.Errorf("status %d, %q, %q", code, out, errs)
	}
}

// TestReviewFull: a program in a full view gets ENOSPC, also from the first write to a file of the
// directory's and from its rename, and no file loses anything.
func TestReviewFull(t *testing.T) {
	dir, policy := repository(t), small(t)
	big := filepath.Join(dir, "big")
	env.Check(t, errors.Join(os.WriteFile(big, make([]byte, 20<<20), 0o644), os.Chown(big, 1000, 1000)))
	code, out, errs := inView(t, policy, dir, `
		head -c 12M /dev/zero >fill
		(echo more >>big) 2>&1 | grep -c "No space left"; mv big bigger 2>&1 | grep -c "No space left"
		mv lib lib2; rm fill; echo more >>big; wc -c <big; cat lib2/a old`)
	if want := "1\n1\n20971525\na\nold\n"; code != 0 || out != want {
		t.Errorf("status %d, %q and not %q, %q", code, out, want, errs)
	}
}

// TestReviewHides: a hidden file cannot be read or removed in a view, and is in no diff and no apply, also where a later policy hides nothing.
func TestReviewHides(t *testing.T) {
	dir, plain := repository(t), small(t)
	hiding := filepath.Join(filepath.Dir(plain), "hiding.toml")
	text, err := os.ReadFile(plain)
	if err == nil {
		err = os.WriteFile(hiding, append(text, "binds.hide = [\".env\"]\n"...), 0o644)
	}
	for _, name := range []string{"/.env", "/lib/.env"} {
		err = errors.Join(err, os.WriteFile(dir+name, []byte("SECRET\n"), 0o600), os.Chown(dir+name, 1000, 1000))
	}
	env.Check(t, err)
	name := "hide" + filepath.Base(dir)
	t.Cleanup(func() { agentjail(t, "workspace", "discard", name) })
	code, out, errs := inView(t, hiding, dir, `
		cat .env lib/.env || true; ! rm -f .env; ! mv lib/.env x; ! sh -c 'echo y >.env'; mkdir new; echo z >new/.env; cp .env copy; mv lib lib2 || true; grep -r SECRET . || true`, "--view", name)
	if code != 0 || strings.Contains(out, "SECRET") {
		t.Fatalf("status %d, %q, %q", code, out, errs)
	}
	if code, out, errs := inView(t, plain, dir, "rm -f lib/.env lib2/.env; echo w >.env", "--view", name); code != 0 {
		t.Fatalf("status %d, %q, %q", code, out, errs)
	}
	if code, out := agentjail(t, "workspace", "diff", "-p", name); code != 1 || strings.Contains(out, ".env") || !strings.Contains(out, "copy") {
		t.Errorf("diff: status %d, %q", code, out)
	}
	for range 2 {
		if code, out := agentjail(t, "workspace", "apply", "--protected", name); code > 1 || strings.Contains(out, ".env") {
			t.Errorf("apply: status %d, %q", code, out)
		}
		if text, err := os.ReadFile(dir + "/lib2/a"); err != nil || string(text) != "a\n" {
			t.Errorf("lib2/a is %q, %v", text, err)
		}
	}
	for _, name := range []string{"/.env", "/lib/.env"} {
		if text, err := os.ReadFile(dir + name); err != nil || string(text) != "SECRET\n" {
			t.Errorf("%s is %q, %v", name, text, err)
		}
	}
	if _, err := os.Lstat(dir + "/new/.env"); err == nil {
		t.Error("a new file of a hidden name was applied")
	}
	// In the other order.
	if code, out, errs := inView(t, plain, dir, "touch kept", "--view", name+"-2"); code != 0 {
		t.Fatalf("status %d, %q, %q", code, out, errs)
	}
	t.Cleanup(func() { agentjail(t, "workspace", "discard", name+"-2") })
	if code, out, errs := inView(t, hiding, dir, "cat .env; true", "--view", name+"-2"); code != 0 || strings.Contains(out, "SECRET") {
		t.Fatalf("status %d, %q, %q", code, out, errs)
	}
	if r, err := workspaces.Of(state.Store{Root: state.DefaultRoot}).Open(name + "-2"); err != nil || !slices.Contains(r.Hide, ".env") {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestReviewMounts: what is mounted below a directory is not in its view, and is named.
func TestReviewMounts(t *testing.T) {
	dir, policy := repository(t), small(t)
	env.Check(t, syscall.Mount("below", dir+"/lib", "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { _ = syscall.Unmount(dir+"/lib", syscall.MNT_DETACH) })
	env.Check(t, os.WriteFile(dir+"/lib/mounted", nil, 0o644))
	code, out, errs := inView(t, policy, dir, "ls lib")
	if code != 0 || out != "a\n" || !strings.Contains(errs, "what is mounted below "+dir+" is not in its view: "+dir+"/lib") {
		t.Errorf("status %d, %q, %q", code, out, errs)
	}
}

// TestReviewExpires: a view beyond policy's bounds is reported by each command, and goes by one of them alone.
func TestReviewExpires(t *testing.T) {
	dir, policy := repository(t), small(t)
	store := workspaces.Of(state.Store{Root: state.DefaultRoot})
	var ids []string
	for _, name := range []string{"old", "new"} {
		name += filepath.Base(dir)
		if code, out, errs := inView(t, policy, dir, "echo 1 >n", "--view", name); code != 0 {
			t.Fatalf("status %d, %q, %q", code, out, errs)
		}
		r, err := store.Open(name)
		env.Check(t, err)
		ids = append(ids, r.ID)
	}
	t.Cleanup(func() { agentjail(t, "workspace", "discard", ids[1]) })
	long := time.Now().Add(-31 * 24 * time.Hour)
	env.Check(t, os.Chtimes(filepath.Join(store.Dir, ids[0], "record.json"), long, long))
	for _, args := range [][]string{{"workspace", "list"}, {"gc"}} {
		if code, out := agentjail(t, args...); code != 0 || !strings.Contains(out, "1 of ") || !strings.Contains(out, "views are expired and take up ") {
			t.Errorf("%q: status %d, %q", args, code, out)
		}
	}
	if _, out := agentjail(t, "check", "-v"); !strings.Contains(out, "1 are beyond workspace.keep_for") {
		t.Errorf("check: %q", out)
	}
	_, out := agentjail(t, "workspace", "list")
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, ids[0]) && !strings.Contains(line, "ended, expired") || strings.HasPrefix(line, ids[1]) && strings.Contains(line, "expired") {
			t.Errorf("listed as %q", line)
		}
	}
	if code, out := agentjail(t, "workspace", "discard", "--expired", ids[1]); code == 0 || !strings.Contains(out, "either") {
		t.Errorf("status %d, %q", code, out)
	}
	if code, out := agentjail(t, "workspace", "discard", "--expired"); code != 0 || !strings.Contains(out, "discarded "+ids[0]) || strings.Contains(out, ids[1]) {
		t.Errorf("status %d, %q", code, out)
	}
	if _, out := agentjail(t, "workspace", "list"); strings.Contains(out, ids[0]) || !strings.Contains(out, ids[1]) || strings.Contains(out, "expired") {
		t.Errorf("left: %q", out)
	}
}

// TestReviewRefused: what cannot be a view is refused with the reason, before anything is made.
func TestReviewRefused(t *testing.T) {
	dir, policy := repository(t), small(t)
	group := repository(t)
	env.Check(t, os.Chown(group, 1000, 0))
	roots := repository(t)
	env.Check(t, os.Chown(roots, 0, 0))
	layered := repository(t)
	env.Check(t, syscall.Mount("layered", layered, "overlay", 0, "lowerdir="+layered+":"+dir))
	t.Cleanup(func() { _ = syscall.Unmount(layered, syscall.MNT_DETACH) })
	allowed := filepath.Join(filepath.Dir(policy), "allowed.toml")
	huge := filepath.Join(filepath.Dir(policy), "huge.toml")
	env.Check(t, os.WriteFile(allowed, fmt.Appendf(nil, "binds.allow = [%q]\nworkspace.size = \"32MiB\"\n", roots), 0o644))
	env.Check(t, os.WriteFile(huge, []byte("workspace.size = \"8000TiB\"\n"), 0o644))
	for what, c := range map[string]struct {
		args []string
		want string
	}{
		"root's group":    {[]string{"--config", policy, "-w", group, "--review"}, "chgrp"},
		"root's":          {[]string{"--config", policy, "-w", roots, "--review"}, "chown"},
		"root's, allowed": {[]string{"--config", allowed, "-w", roots, "--review"}, "chown"},
		"an overlay":      {[]string{"--config", policy, "-w", layered, "--review"}, "no view of a directory on overlay"},
		"a full disk":     {[]string{"--config", huge, "-w", dir, "--review"}, "workspace.size"},
		"read-only":       {[]string{"-w", dir, "--review", "--read-only"}, "--read-only"},
		"no workspace":    {[]string{"--review"}, "--workspace"},
		"no review":       {[]string{"-w", dir, "--view", "x"}, "--review"},
		"no mount":        {[]string{"-w", dir, "--tighten", "workspace=/nowhere"}, "no directory of the host is mounted there"},
		"direct":          {[]string{"-w", dir, "--tighten", "workspace=direct"}, "neither"},
		"a name":          {[]string{"--config", policy, "-w", dir, "--review", "--view", "../x"}, "a name has"},
	} {
		code, out, errs := sandbox(t, append(c.args, "--", "echo", "ran")...)
		if code != 125 || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%s: status %d, %q, %q", what, code, out, errs)
		}
	}
	if _, out := agentjail(t, "workspace", "list"); strings.Contains(out, dir) || strings.Contains(out, roots) {
		t.Errorf("left: %s", out)
	}
}

// TestReviewRecorded: inspect takes a view for what it is, and journal and receipt name it.
func TestReviewRecorded(t *testing.T) {
	engine.NeedsViews(t)
	// The usual look at a jail's end is so short that mounting the view can take all of its time.
	dir, policy := repository(t), engine.PolicyFile(t, "workspace.size = \"32MiB\"\nworkspace.files = 4000\njournal.receipt = \"full\"\n")
	cmd := exec.Command(bin, "--config", policy, "sandbox", "--workspace", dir, "--review", "--", "sh", "-c", "echo 1 >new; read x")
	in := env.Get(t, cmd.StdinPipe)
	env.Check(t, cmd.Start())
	var view *workspaces.Record
	store := workspaces.Of(state.Store{Root: state.DefaultRoot})
	env.Eventually(t, "the view", func() bool {
		all := env.Get(t, store.List)
		for _, r := range all {
			if r.Path == dir {
				view = r
			}
		}
		return view != nil && view.State == workspaces.Open
	})
	env.Eventually(t, "the jail", func() bool {
		_, out := agentjail(t, "inspect", view.Jail)
		return strings.Contains(out, "1 writable as views") && strings.Contains(out, dir+" to view "+view.ID) && !strings.Contains(out, "BROKEN")
	})
	if code, out := agentjail(t, "workspace", "discard", view.ID); code == 0 || !strings.Contains(out, "jail "+view.Jail+" has it") {
		t.Errorf("discarded while a jail has it: status %d, %q", code, out)
	}
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil && cmd.ProcessState.ExitCode() > 1 {
		t.Fatal(err)
	}
	if code, out := agentjail(t, "receipt", view.Jail); code != 0 || !strings.Contains(out, "in view "+view.ID) || !strings.Contains(out, "/new") {
		t.Errorf("receipt: status %d, %s", code, out)
	}
	if code, out := agentjail(t, "workspace", "discard", view.ID); code != 0 {
		t.Fatalf("status %d, %q", code, out)
	}
	code, out := agentjail(t, "journal", "--json", view.Jail)
	for _, kind := range []string{"workspace.open", "workspace.discard"} {
		if code != 0 || !strings.Contains(out, kind) {
			t.Errorf("no %s: status %d, %s", kind, code, out)
		}
	}
}
