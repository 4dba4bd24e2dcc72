package rootless

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestRootsJails: an ordinary user's call about a jail of root's, which is hidden from the user, is refused with the command that works as it is
// copied. sudo is a program of the test's: it becomes root as the caller's user.
func TestRootsJails(t *testing.T) {
	u := bare
	dir := t.TempDir()
	if err := errors.Join(os.Symlink(bin, filepath.Join(dir, "agentjail")),
		os.WriteFile(filepath.Join(dir, "sudo"), []byte("#!/bin/sh\nSUDO_UID="+strconv.Itoa(u.uid)+" SUDO_GID="+strconv.Itoa(u.uid)+" exec \"$@\"\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	sudo := func(script string) engine.Result {
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir, cmd.Env = u.home(), u.env("PATH="+dir+":/usr/bin:/bin:/usr/sbin:/sbin")
		return engine.RunPrepared(t, cmd)
	}
	work := u.workspace(t)
	if r := sudo("sudo agentjail sandbox --workspace " + work + " --review --view mine -- sh -c 'id -u; echo x >made'"); r.Code != 0 || r.Stdout != strconv.Itoa(u.uid)+"\n" {
		t.Fatal(r)
	}
	ended := regexp.MustCompile(`sandbox-[0-9a-f]+@\S+`).FindString(sudo("sudo agentjail journal").Stdout)
	cmd := exec.Command(bin, "sandbox", "--allow", "example.org", "--", "sh", "-c", "echo ready; exec sleep 1000")
	cmd.Env = append(os.Environ(), "SUDO_UID="+strconv.Itoa(u.uid), "SUDO_GID="+strconv.Itoa(u.uid)) // a jail of the user's, by root
	env.Begin(t, cmd).Await(t, "ready")
	id := regexp.MustCompile(`sandbox-[0-9a-f]+`).FindString(sudo("sudo agentjail ls --running").Stdout)
	if id == "" || ended == "" {
		t.Fatalf("running %q, ended %q", id, ended)
	}
	remedy := regexp.MustCompile(`\(remedy: (sudo agentjail .*)\)`)
	for _, c := range []struct {
		args []string
		want string // of root's call
	}{
		{[]string{"ls"}, id},
		{[]string{"ls", "--running"}, id},
		{[]string{"journal"}, ended},
		{[]string{"why", id, "mount"}, "mount: refused"},
		{[]string{"why", ended, "socket(AF_VSOCK)"}, "refused"},
		{[]string{"why", id, "can't open 'x': Permission denied"}, "denied"},
		{[]string{"denied", id}, "no refusal was seen"},
		{[]string{"denied", ended}, "no refusal was seen"},
		{[]string{"receipt", id}, "sleep 1000"},
		{[]string{"receipt", ended}, "exit"},
		{[]string{"journal", id}, "jail.start"},
		{[]string{"inspect", id}, "hold"},
		{[]string{"network", "log", id}, ""},
		{[]string{"network", "reload", id}, ""},
		{[]string{"workspace", "list"}, "mine"},
		{[]string{"workspace", "diff", "mine"}, "made"},
		{[]string{"workspace", "apply", "mine"}, ""},
		{[]string{"state", id}, "running"},
		{[]string{"exec", id, "echo", "it's root's"}, "it's root's"},
		{[]string{"kill", id, "TERM"}, ""},
	} {
		list := slices.Contains([]string{"ls", "journal"}, c.args[0]) && !strings.HasPrefix(c.args[len(c.args)-1], "sandbox-")
		r := u.agentjail(t, c.args...)
		advice := remedy.FindStringSubmatch(r.Stderr)
		if (r.Code == 0) != list || advice == nil || strings.Contains(r.Stdout, "sandbox-") {
			t.Errorf("as the user: %s", r)
			continue
		}
		if r := sudo(advice[1]); r.Code == 125 || !strings.Contains(r.Stdout, c.want) || strings.Contains(r.Stderr, "hidden") && !list {
			t.Errorf("%s: %s", advice[1], r)
		}
	}
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 143 {
		t.Errorf("after kill: %v", cmd.ProcessState)
	}
	if text, err := os.ReadFile(filepath.Join(work, "made")); err != nil || string(text) != "x\n" {
		t.Errorf("after apply: %q, %v", text, err)
	}
}
