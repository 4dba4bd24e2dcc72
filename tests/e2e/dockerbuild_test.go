package e2e

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// build builds the image of a directory with BuildKit ("1") or Docker's classic builder ("0").
func build(e *engine.Engine, buildkit, tag, dir string) engine.Result {
	ctx, cancel := context.WithTimeout(context.Background(), env.CommandWait)
	defer cancel()
	cmd := e.Command(ctx, "build", "--network=none", "-t", tag, dir)
	cmd.Env = append(cmd.Env, "DOCKER_BUILDKIT="+buildkit)
	out, err := cmd.CombinedOutput()
	r := engine.Result{Program: "docker", Args: cmd.Args[1:], Stderr: string(out)}
	if err != nil {
		r.Code = 1
	}
	return r
}

// TestDefaultRuntimeBuild: with jails by default, a build of Docker's classic builder is refused with the way to do it;
// BuildKit, which runs its steps itself, builds what it always did. What only looks like a step is a jail.
func TestDefaultRuntimeBuild(t *testing.T) {
	needAgentjail(t)
	under := env.Get(t, engine.UnderTest)
	e := engine.StartFor(t, engine.Options{Runtimes: map[string]engine.Runtime{engine.Name: {Path: under}}, Default: engine.Name})
	d := e.For(t)
	dir := t.TempDir()
	env.Put(t, filepath.Join(dir, "Dockerfile"), "FROM "+engine.Busybox+"\nCOPY Dockerfile /copied\nRUN echo made > /made\n", 0o644, 0)
	r := build(e, "0", "classic", dir)
	if r.Code == 0 || !strings.Contains(r.Stderr, "DOCKER_BUILDKIT=1 docker build") {
		t.Errorf("a classic build in jails: %s", r)
	}
	if r := d.Docker("image", "inspect", "classic"); r.Code == 0 {
		t.Error("there is an image")
	}
	image := d.Must("image", "inspect", "--format", "{{.Id}}", engine.Busybox)
	env.Equal(t, "a jail of an image by its digest, without a log", d.Must("run", "--rm", "--log-driver=none", "--no-healthcheck", image, "echo", "jail"), "jail")
	if r := build(e, "1", "buildkit", dir); strings.Contains(r.Stderr, "buildx") && strings.Contains(r.Stderr, "missing or broken") {
		t.Log("no BuildKit with this docker command")
	} else if r.Code != 0 {
		t.Errorf("a build by BuildKit: %s", r)
	} else {
		env.Equal(t, "what BuildKit made", d.Must("run", "--rm", "buildkit", "cat", "/made"), "made")
	}
}

// TestBuildKitWorker: a step of BuildKit's that is given to agentjail, in place of its runc, is refused with the remedy.
func TestBuildKitWorker(t *testing.T) {
	needAgentjail(t)
	under := env.Get(t, engine.UnderTest)
	runc, err := exec.LookPath("runc")
	env.Check(t, err)
	// dockerd's own BuildKit takes the first runc in PATH, as its containerd does.
	dir := t.TempDir()
	script := "#!/bin/sh\ncase \"$*\" in */buildkit/executor/*) exec " + under + " \"$@\";; esac\nexec " + runc + " \"$@\"\n"
	env.Put(t, filepath.Join(dir, "runc"), script, 0o755, 0)
	e := engine.StartFor(t, engine.Options{Shims: []string{dir}})
	work := t.TempDir()
	env.Put(t, filepath.Join(work, "Dockerfile"), "FROM "+engine.Busybox+"\nRUN echo made > /made\n", 0o644, 0)
	r := build(e, "1", "buildkit", work)
	if strings.Contains(r.Stderr, "buildx") && strings.Contains(r.Stderr, "missing or broken") {
		t.Log("no BuildKit with this docker command")
		return
	}
	if r.Code == 0 || !strings.Contains(r.Stderr, "leave BuildKit its runc") {
		t.Errorf("a step by BuildKit in a jail: %s", r)
	}
}
