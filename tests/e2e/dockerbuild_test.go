package e2e

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
)

// TestDefaultRuntimeBuild: with jails by default, a build of Docker's classic builder is refused with the way to do it;
// BuildKit, which runs its steps itself, builds what it always did. What only looks like a step is a jail.
func TestDefaultRuntimeBuild(t *testing.T) {
	needAgentjail(t)
	under, err := engine.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Start(engine.Options{Runtimes: map[string]engine.Runtime{engine.Name: {Path: under}}, Default: engine.Name, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := e.ImportBusybox(); err != nil {
		t.Fatal(err)
	}
	d := e.For(t)
	dir := t.TempDir()
	put(t, filepath.Join(dir, "Dockerfile"), "FROM "+engine.Busybox+"\nCOPY Dockerfile /copied\nRUN echo made > /made\n", 0o644, 0)
	build := func(buildkit, tag string) engine.Result {
		ctx, cancel := context.WithTimeout(context.Background(), engine.CommandWait)
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
	r := build("0", "classic")
	if r.Code == 0 || !strings.Contains(r.Stderr, "DOCKER_BUILDKIT=1 docker build") {
		t.Errorf("a classic build in jails: %s", r)
	}
	if r := d.Docker("image", "inspect", "classic"); r.Code == 0 {
		t.Error("there is an image")
	}
	image := d.Must("image", "inspect", "--format", "{{.Id}}", engine.Busybox)
	eq(t, "a jail of an image by its digest, without a log", d.Must("run", "--rm", "--log-driver=none", "--no-healthcheck", image, "echo", "jail"), "jail")
	if r := build("1", "buildkit"); strings.Contains(r.Stderr, "buildx") && strings.Contains(r.Stderr, "missing or broken") {
		t.Log("no BuildKit with this docker command")
	} else if r.Code != 0 {
		t.Errorf("a build by BuildKit: %s", r)
	} else {
		eq(t, "what BuildKit made", d.Must("run", "--rm", "buildkit", "cat", "/made"), "made")
	}
}
