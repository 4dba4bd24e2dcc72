package main

import (
	"context"
	"errors"
	"strings"

	"agentjail.dev/tests/engine"
)

// What engines run, from the outside.
const (
	wholeDocker       kind = "docker run"
	wholeDockerJailed kind = "docker run, agentjail"
	wholeCtr          kind = "ctr run"
	wholeCtrJailed    kind = "ctr run, agentjail"
)

// dockerName is what a runtime is registered as.
func dockerName(what string, d delegate) string {
	return what + "-" + strings.ReplaceAll(d.name, " ", "-")
}

// dockerRuns measures what a user at a terminal waits for.
func (b *bench) dockerRuns(ctx context.Context) error {
	var subjects []*subject
	for _, d := range b.found {
		for _, way := range []struct {
			kind    kind
			runtime string
		}{
			{wholeDocker, dockerName("bare", d)},
			{wholeDockerJailed, dockerName("agentjail", d)},
		} {
			subjects = append(subjects, &subject{name: d.name + ", " + string(way.kind), delegate: d.name, kind: way.kind, whole: func() (sample, error) {
				return took(b.e.Docker(ctx, "run", "--rm", "--runtime", way.runtime, engine.Busybox, "true"))
			}})
		}
	}
	return b.interleave(ctx, "docker", b.dockerRounds, subjects, (*subject).lifecycle)
}

// ctrRuns measures the same by containerd alone, the distribution's and the newest: with its own
// shim, and with agentjail's.
func (b *bench) ctrRuns(ctx context.Context) (err error) {
	shim, err := engine.Shim()
	if err != nil {
		return err
	}
	var subjects []*subject
	var daemons []*engine.Containerd
	defer func() {
		for _, c := range daemons {
			err = errors.Join(err, c.Close())
		}
	}()
	for _, tool := range []string{"", "containerd"} {
		c, err := startContainerd(tool, shim, b.logf)
		if err != nil {
			b.res.leftOut("a containerd", err)
			continue
		}
		daemons = append(daemons, c)
		if err := c.ImportBusybox(c.Namespace()); err != nil {
			return err
		}
		for _, d := range b.newest() {
			for _, way := range []struct {
				kind kind
				args []string
			}{
				{wholeCtr, []string{"--runtime", "io.containerd.runc.v2", "--runc-binary", d.path}},
				{wholeCtrJailed, []string{"--runtime", engine.ShimRuntime, "--runtime-config-path", d.policy}},
			} {
				args := append([]string{"run", "--rm", "--seccomp"}, way.args...)
				args = append(args, engine.BusyboxImage, "bench", "true")
				s := &subject{
					name: d.name + ", " + string(way.kind), delegate: d.name, kind: way.kind, variant: "containerd " + c.Version(),
					whole: func() (sample, error) { return took(c.Ctr(ctx, args...)) },
				}
				if _, err := s.lifecycle(); err != nil {
					// Old releases of crun do not know the version of the specification that new
					// ones of ctr write.
					b.res.leftOut(s.name+", "+s.variant, err)
					continue
				}
				subjects = append(subjects, s)
			}
		}
	}
	return b.interleave(ctx, "ctr", b.dockerRounds, subjects, (*subject).lifecycle)
}

// startContainerd starts the distribution's or one of hack/tools.
func startContainerd(tool, shim string, logf func(string, ...any)) (*engine.Containerd, error) {
	o := engine.ContainerdOptions{Shims: []string{shim}, Log: logf}
	if tool != "" {
		var err error
		if o.Binary, err = engine.Tool(tool); err != nil {
			return nil, err
		}
	}
	return engine.StartContainerd(o)
}

// took is the sample of a command.
func took(r engine.Result) (sample, error) {
	if r.Code != 0 {
		return sample{}, errors.New(r.String())
	}
	return sample{wall: r.Took}, nil
}
