package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

func init() {
	engine.Policies["agentjail-owner"] = "[binds]\nowner = \"1000\"\n"
}

const (
	ownerLabel    = "dev.agentjail.binds.owner"
	metadataLabel = "devcontainer.metadata"
)

// reportOf reads what was changed for a jail.
func reportOf(t *testing.T, id string) string {
	t.Helper()
	return string(env.Read(t, filepath.Join(engine.JailDir(t, id), "report.json")))
}

// delegateRoot is where the engine has the delegate keep a jail.
func delegateRoot(t *testing.T, id string) string {
	t.Helper()
	text := env.Read(t, filepath.Join(engine.JailDir(t, id), "state.json"))
	root := env.Decode[struct{ DelegateRoot string }](t, string(text)).DelegateRoot
	if root == "" {
		t.Fatalf("the record of %s: %s", id, text)
	}
	return root
}

// TestOwnerNamed: a container that was started as root, and is worked in as another user who was named in one of several
// ways: that user's files are the directory owner's on the host, also in what is mounted below, and protected paths stay.
func TestOwnerNamed(t *testing.T) {
	needAgentjail(t)
	const image = "devcontainer"
	env.Check(t, docker.ImportBusyboxWith(image, nil, nil, `LABEL devcontainer.metadata='[{"id":"./feature"},{"remoteUser":"app"}]'`))
	for _, c := range []struct {
		name, runtime, image, why string
		options                   []string
	}{
		{"label", engine.Name, engine.Busybox, "label " + ownerLabel, []string{"-l", ownerLabel + "=1000"}},
		{"label of a name", engine.Name, engine.Busybox, "label " + ownerLabel, []string{"-l", ownerLabel + "=app"}},
		{"policy", "agentjail-owner", engine.Busybox, "policy: binds.owner", nil},
		{"image of a devcontainer", engine.Name, image, "label " + metadataLabel, nil},
		{"devcontainer's own label", engine.Name, engine.Busybox, "label " + metadataLabel, []string{"-l", metadataLabel + `={"remoteUser":"1000"}`}},
		{"devcontainer's containerUser", engine.Name, engine.Busybox, "label " + metadataLabel, []string{"-l", metadataLabel + `=[{"containerUser":"app"}]`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := d(t)
			dir, below := directory(t, 4711), directory(t, 4712)
			env.Check(t, os.MkdirAll(filepath.Join(dir, ".git/hooks"), 0o755))
			for _, p := range []string{".git", ".git/hooks"} {
				env.Check(t, os.Lchown(filepath.Join(dir, p), 4711, 4711))
			}
			args := append([]string{"--runtime=" + c.runtime, "-v", dir + ":/w", "-v", below + ":/w/below", "-v", "/w/cache"}, c.options...)
			id := d.Detached(append(args, c.image, "sleep", "3600")...)
			as := func(user, script string) engine.Result { return d.Docker("exec", "-u", user, id, "sh", "-c", script) }
			for _, user := range []string{"app", "1000"} {
				if r := as(user, "set -e; cd /w; echo x > "+user+"; mkdir -p d below/d; echo x > d/"+user+"; echo x > below/d/"+user+"; cp -p /etc/passwd p; stat -c %u:%g . hello below"); r.Code != 0 || r.Stdout != "1000:1000\n1000:1000\n1000:1000\n" {
					t.Errorf("as %s: %s", user, r)
				}
				for _, p := range []string{user, "d", "d/" + user, "p"} {
					got, _ := owner(t, filepath.Join(dir, p))
					env.Equal(t, p, got, "4711:4711")
				}
				got, _ := owner(t, filepath.Join(below, "d", user))
				env.Equal(t, "below/d", got, "4712:4712")
			}
			if r := as("1000", "echo '#!/bin/sh' > /w/.git/hooks/pre-commit"); r.Code == 0 {
				t.Errorf("a protected path was written: %s", r)
			}
			if r := as("0", "touch /w/roots"); r.Code == 0 || !strings.Contains(r.Stderr, "Permission denied") {
				t.Errorf("the first process's user: %s", r)
			}
			if rep := reportOf(t, id); !strings.Contains(rep, c.why) || !strings.Contains(rep, "owned by uid 1000, gid 1000") {
				t.Errorf("the report does not state that %s named the owner: %s", c.why, rep)
			}
			out, code := ownVerb(t, "inspect", id)
			if code != 0 || !strings.Contains(out, "mounted at /w, writable: belongs to uid 1000, gid 1000") || !strings.Contains(out, "exec as uid 0") {
				t.Errorf("inspect: exit code %d: %s", code, out)
			}
		})
	}
}

// TestOwnerNotNamed: where no user is named, another user's exec has others' rights, and is in the report, once.
func TestOwnerNotNamed(t *testing.T) {
	d := d(t)
	dir := directory(t, 1000)
	id := sleeper(d, "-v", dir+":/w")
	for range 2 {
		if r := d.Docker("exec", "-u", "1000", id, "touch", "/w/new"); r.Code == 0 || !strings.Contains(r.Stderr, "Permission denied") {
			t.Errorf("another user's file: %s", r)
		}
	}
	d.Must("exec", id, "touch", "/w/roots")
	rep := reportOf(t, id)
	if strings.Count(rep, "exec as uid 1000") != 1 || strings.Contains(rep, "exec as uid 0") || !strings.Contains(rep, ownerLabel+"=1000") || !strings.Contains(rep, "the first process's user") {
		t.Errorf("the report: %s", rep)
	}
	root := "--root=" + delegateRoot(t, id)
	out, _ := ownVerb(t, root, "exec", "-u", "1001:5", id, "id", "-u")
	if !strings.Contains(out, "exec as uid 1001: mounted directories belong to uid 0 of the jail") || !strings.Contains(out, "remedy: start the container with -u 1001") || !strings.HasSuffix(out, "\n1001\n") {
		t.Errorf("agentjail exec: %s", out)
	}
	if out, code := ownVerb(t, root, "exec", "-u", "1001", id, "id", "-u"); code != 0 || out != "1001\n" {
		t.Errorf("agentjail exec again: exit code %d: %s", code, out)
	}
}

// TestOwnerHostile: what an image or a caller states of the owner that names no user of the jail is reported, and the first
// process's user owns.
func TestOwnerHostile(t *testing.T) {
	for name, labels := range map[string][]string{
		"huge":             {metadataLabel + `={"remoteUser":"` + strings.Repeat("a", 100<<10) + `"}`},
		"deep":             {metadataLabel + "=" + strings.Repeat("[", 60<<10)},
		"negative":         {ownerLabel + "=-1", metadataLabel + `={"remoteUser":"-1"}`},
		"no id":            {ownerLabel + "=4294967295", metadataLabel + `={"remoteUser":"4294967295"}`},
		"past all ids":     {ownerLabel + "=4294967296"},
		"no group":         {ownerLabel + "=1000:4294967295"},
		"a path":           {ownerLabel + "=../../etc/passwd", metadataLabel + `={"remoteUser":"../x"}`},
		"unknown":          {ownerLabel + "=nobody-has-it", metadataLabel + `={"remoteUser":"nobody-has-it"}`},
		"empty and spaces": {ownerLabel + "= ", metadataLabel + "= "},
	} {
		t.Run(name, func(t *testing.T) {
			d := d(t)
			dir := directory(t, 4711)
			args := []string{"-v", dir + ":/w"}
			for _, l := range labels {
				args = append(args, "-l", l)
			}
			id := sleeper(d, args...)
			d.Must("exec", id, "touch", "/w/new")
			got, _ := owner(t, filepath.Join(dir, "new"))
			env.Equal(t, "the first process's file", got, "4711:4711")
			rep := reportOf(t, id)
			for _, l := range labels {
				label, _, _ := strings.Cut(l, "=")
				if !strings.Contains(rep, fmt.Sprintf("label %s", label)) {
					t.Errorf("the report does not have %s: %.2000s", label, rep)
				}
			}
			if !strings.Contains(rep, "owned by uid 0, gid 0") || len(rep) > 64<<10 {
				t.Errorf("the report: %.2000s", rep)
			}
		})
	}
}
