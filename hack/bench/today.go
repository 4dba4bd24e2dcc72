package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"agentjail.dev/tests/engine"
)

// What today's engines do, from the outside: Docker 29, the Podman that is installed, and the
// newest containerd, by ctr and by CRI. Each has Docker's seccomp profile, which is also
// containerd's and Podman's by default.
const (
	engineAlone  kind = "engine, runtime alone"
	engineJailed kind = "engine, agentjail"
)

// The variants of the measure.
const (
	dockerRun  = "docker run"
	dockerLone = "docker run --network=none"
	dockerExec = "docker exec"
	podmanRun  = "podman run --network=none"
	ctrRun     = "ctr run"
	podStart   = "start of a pod"
)

// today measures all of them in one run, interleaved, so that one table compares them.
func (b *bench) today(ctx context.Context) (err error) {
	t := &todays{bench: b}
	defer func() {
		for _, c := range t.closers {
			err = errors.Join(err, c())
		}
	}()
	for _, start := range []func(context.Context) error{t.docker, t.podman, t.containerd} {
		if err := start(ctx); err != nil {
			return err
		}
	}
	return b.interleave(ctx, "engines", b.dockerRounds, t.subjects, (*subject).lifecycle)
}

// todays are the engines that run, and what is measured on them.
type todays struct {
	*bench
	subjects []*subject
	closers  []func() error
}

// add tries a pair of subjects and takes it when both run: there is nothing to compare with one.
func (t *todays) add(d delegate, variant string, alone, jailed func() (sample, error)) {
	pair := []*subject{{kind: engineAlone, whole: alone}, {kind: engineJailed, whole: jailed}}
	for _, s := range pair {
		s.name, s.delegate, s.variant = d.name+", "+variant+", "+string(s.kind), d.name, variant
		if _, err := s.lifecycle(); err != nil {
			t.res.leftOut(s.name, err)
			return
		}
	}
	t.subjects = append(t.subjects, pair...)
}

// docker is Docker 29, with jails by the shim, as `install docker` registers it.
func (t *todays) docker(ctx context.Context) error {
	dir, err := engine.Shim()
	if err != nil {
		return err
	}
	runtimes := map[string]engine.Runtime{}
	for _, d := range t.newest() {
		runtimes[dockerName("bare", d)] = engine.Runtime{Path: d.path}
		runtimes[dockerName("jail", d)] = engine.Runtime{
			Type: filepath.Join(dir, engine.ShimName), Options: map[string]any{"TypeUrl": engine.Name, "ConfigPath": d.policy},
		}
	}
	edition := engine.Editions["29"]
	t.logf("starting Docker 29")
	e, err := engine.Start(engine.Options{Edition: &edition, Runtimes: runtimes, Log: t.logf})
	if err != nil {
		return err
	}
	t.closers = append(t.closers, e.Close)
	if err := e.ImportBusybox(); err != nil {
		return err
	}
	for _, d := range t.newest() {
		names := [2]string{dockerName("bare", d), dockerName("jail", d)}
		command := func(args ...string) func() (sample, error) {
			return func() (sample, error) { return took(e.Docker(ctx, args...)) }
		}
		run := func(runtime string, options ...string) func() (sample, error) {
			return command(append(append([]string{"run", "--rm", "--runtime", runtime}, options...), engine.Busybox, "true")...)
		}
		t.add(d, dockerRun, run(names[0]), run(names[1]))
		t.add(d, dockerLone, run(names[0], "--network=none"), run(names[1], "--network=none"))
		broken := false
		for _, name := range names {
			r := e.Docker(ctx, "run", "-d", "--network=none", "--name", name, "--runtime", name, engine.Busybox, "sleep", "100000")
			broken = broken || r.Code != 0
		}
		if !broken { // it is among what was left out
			t.add(d, dockerExec, command("exec", names[0], "true"), command("exec", names[1], "true"))
		}
	}
	return nil
}

// podman is the one that is installed, as root.
func (t *todays) podman(ctx context.Context) error {
	p, err := engine.StartPodman()
	if err != nil {
		t.res.leftOut("podman run", err)
		return nil
	}
	t.closers = append(t.closers, p.Close)
	if err := p.ImportBusybox(false); err != nil {
		return err
	}
	for _, d := range t.newest() {
		run := func(runtime string) func() (sample, error) {
			return func() (sample, error) {
				return took(engine.RunCommand(ctx, p.Inside(ctx, "podman", "--runtime", runtime, "run", "--rm", "--network=none", engine.Busybox, "true"), nil))
			}
		}
		t.add(d, podmanRun, run(d.path), run(d.agentjail))
	}
	return nil
}

// containerd is the newest, by ctr and by CRI.
func (t *todays) containerd(ctx context.Context) error {
	dir, err := engine.Shim()
	if err != nil {
		return err
	}
	binary, err := engine.Tool("containerd")
	if err != nil {
		return err
	}
	c, err := engine.StartContainerd(engine.ContainerdOptions{
		Binary: binary, Shims: []string{dir}, CRI: true, Log: t.logf, Config: func(c *engine.Containerd) string { return t.criConfig(c) },
	})
	if err != nil {
		return err
	}
	t.closers = append(t.closers, c.Close)
	if err := c.ImportBusybox(c.Namespace()); err != nil {
		return err
	}
	pods, err := newPods(c)
	if err != nil {
		return err
	}
	// Before the daemon.
	t.closers = append([]func() error{pods.close}, t.closers...)
	for _, d := range t.newest() {
		run := func(args ...string) func() (sample, error) {
			args = append(append([]string{"run", "--rm", "--seccomp"}, args...), engine.BusyboxImage, "bench", "true")
			return func() (sample, error) { return took(c.Ctr(ctx, args...)) }
		}
		t.add(d, ctrRun, run("--runtime", "io.containerd.runc.v2", "--runc-binary", d.path),
			run("--runtime", engine.ShimRuntime, "--runtime-config-path", d.policy))
		start := func(handler string) func() (sample, error) {
			return func() (sample, error) { return pods.start(ctx, handler) }
		}
		t.add(d, podStart, start(dockerName("bare", d)), start(dockerName("jail", d)))
	}
	return nil
}

// criConfig is CRI's part of containerd's configuration, with two handlers for each delegate.
func (t *todays) criConfig(c *engine.Containerd) string {
	const cri = `plugins."io.containerd.grpc.v1.cri"`
	conf := fmt.Sprintf("[%s]\nsandbox_image = %q\nrestrict_oom_score_adj = true\n[%s.cni]\nbin_dir = \"/usr/lib/cni\"\nconf_dir = %q\n",
		cri, engine.PauseImage, cri, filepath.Join(c.Dir, "cni"))
	for _, d := range t.newest() {
		for _, r := range [][4]string{
			{dockerName("bare", d), "io.containerd.runc.v2", "BinaryName", d.path},
			{dockerName("jail", d), engine.ShimRuntime, "ConfigPath", d.policy},
		} {
			conf += fmt.Sprintf("[%s.containerd.runtimes.%q]\nruntime_type = %q\n[%s.containerd.runtimes.%q.options]\n%s = %q\n", cri, r[0], r[1], cri, r[0], r[2], r[3])
		}
	}
	return conf
}
