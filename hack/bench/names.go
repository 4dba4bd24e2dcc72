package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/network/helper"
	"agentjail.dev/runtime/state"
)

// A network by name.
const (
	jailedNames kind = "agentjail, a network by name" // jailedDocker with a network by name in place of none
	overVeth    kind = "engine's network"             // the delegate alone, with a veth pair and a route through the host
	idleNamed   kind = "idle jail, a network by name"
)

// namesPairs are about a network by name: against none, and against an engine's own.
var namesPairs = []pair{
	{"names", "create to delete, by name against no network", side{kind: jailedNames}, side{kind: jailedDocker}, &target{ofDifference, 3, "at most +3 ms"}, 0},
	{"names-idle", "memory per idle jail, by name against no network", side{kind: idleNamed, variant: processesPSS}, side{kind: idleJail, variant: processesPSS}, &target{ofDifference, 2048, "at most +2 MiB"}, 0},
	{"names-idle", "memory per idle jail, by name against no network", side{kind: idleNamed, variant: kernelParts}, side{kind: idleJail, variant: kernelParts}, nil, 0},
	{"names-idle", "memory per idle jail, by name against no network", side{kind: idleNamed, variant: wholeMachine}, side{kind: idleJail, variant: wholeMachine}, nil, 0},
	{"connections", "time to the first byte, by name against an engine's network", side{kind: jailedNames}, side{kind: overVeth}, nil, 0},
	{"throughput", "one connection, by name against an engine's network", side{kind: jailedNames}, side{kind: overVeth}, nil, 0},
}

// names measures lives of a jail with a network by name against those of one without a network, and
// what lies idle of both.
func (b *bench) names(ctx context.Context) error {
	if err := b.reachable(); err != nil {
		return err
	}
	return reaping(func() error {
		subjects, err := b.lives(withChange{kind: jailedDocker}, withChange{kind: jailedNames})
		if err != nil {
			return err
		}
		if err := b.interleave(ctx, "names", b.rounds, subjects, func(s *subject) (sample, error) {
			defer reapHelpers()
			return s.lifecycle()
		}); err != nil {
			return err
		}
		defer reapHelpers()
		return b.idleOf(ctx, "names-idle", []kind{idleJail, idleNamed})
	})
}

// helper is the process that serves a running jail's network.
func (s *subject) helper() (int, error) {
	r, err := helper.Load(state.Store{Root: state.DefaultRoot}.Dir(state.Key(s.global[1], s.id)))
	if err == nil && r == nil {
		err = errors.New("the jail has no helper")
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", s.name, err)
	}
	return r.Pid, nil
}

// reapHelpers takes the exit status of helpers, which became this process's children when create
// ended. Nothing else of its own has ended then that is still waited for.
func reapHelpers() {
	for {
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 || err != nil {
			return
		}
	}
}

// connections measures connections from a container, by name and over an engine's network, to
// servers behind the same host.
func (b *bench) connections(ctx context.Context) error {
	root, err := b.rootWith("dial", dialPath)
	if err != nil {
		return err
	}
	d := b.newest()[0]
	return reaping(func() error {
		return inLab(func(l *lab) (err error) {
			var subjects []*subject
			defer func() {
				_ = deleteAll(subjects)
				reapHelpers()
			}()
			for _, k := range []kind{overVeth, jailedNames} {
				id := fmt.Sprintf("bench-names-%d", b.made)
				s, err := b.subjectOf(root, d, k, id, func(s *specs.Spec) {
					b.sleeping(s, id)
					if k == overVeth {
						joinNetwork(s, l.container)
					}
				})
				if err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(s.bundle, "merged/etc/resolv.conf"), []byte(resolvConf), 0o644); err != nil {
					return err
				}
				if _, err := s.begin(); err != nil {
					return err
				}
				subjects = append(subjects, s)
			}
			for _, m := range []struct{ measure, unit string }{{"connections", "µs"}, {"throughput", "MB/s"}} {
				if err := b.steadyRounds(ctx, m.measure, m.unit, min(b.rounds, connectionRounds), subjects, func(s *subject) ([]reading, error) {
					if m.measure == "connections" {
						time.Sleep(helperPause)
					}
					out, err := b.output(s, dialPath, "-group", m.measure, "-host", serverName, "-ports", fmt.Sprintf("%d:%d:%d", greetPort, sendPort, receivePort))
					if err != nil {
						return nil, err
					}
					return readings(out)
				}); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// connectionRounds is how often connections are measured: each round makes hundreds of them.
const connectionRounds = 15

// helperPause is how long a helper takes to allow as many new connections as a round makes: it
// bounds their rate.
const helperPause = time.Second

// joinNetwork has a container's network be the one at a path.
func joinNetwork(s *specs.Spec, path string) {
	for i := range s.Linux.Namespaces {
		if s.Linux.Namespaces[i].Type == specs.NetworkNamespace {
			s.Linux.Namespaces[i].Path = path
		}
	}
}

// dialPath is where hack/bench/dial lies in an image.
const dialPath = "/usr/local/bin/dial"
