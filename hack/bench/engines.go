package main

import (
	"context"
	"fmt"
	"strings"

	"agentjail.dev/tests/engine"
)

// dockerName is what a runtime is registered as.
func dockerName(what string, d delegate) string {
	return what + "-" + strings.ReplaceAll(d.name, " ", "-")
}

// dockerRuns measures what somebody at a terminal waits for.
func (b *bench) dockerRuns(ctx context.Context) error {
	var subjects []*subject
	for _, d := range b.found {
		subjects = append(subjects,
			&subject{name: d.name + ", docker run", delegate: d.name, kind: wholeDocker, id: dockerName("bare", d)},
			&subject{name: d.name + ", docker run with agentjail", delegate: d.name, kind: wholeDockerJailed, id: dockerName("agentjail", d)})
	}
	return b.interleave(ctx, "docker", b.dockerRounds, subjects, func(s *subject) (out sample, err error) {
		r := b.e.Docker(ctx, "run", "--rm", "--runtime", s.id, engine.Busybox, "true")
		if r.Code != 0 {
			err = fmt.Errorf("%s: %s", s.name, r)
		}
		out.wall = r.Took
		return out, err
	})
}
