// Package traits tries what runtime/spec/traits states of each delegate, on each that is installed.
package traits

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"agentjail.dev/runtime/spec/traits"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

var bin string

func TestMain(m *testing.M) { os.Exit(engine.MainBare(m, "it runs jails", &bin)) }

// A subject is a delegate that is installed.
type subject struct {
	name, path string
	traits.Traits
}

// subjects are the delegates to try: those of the distribution, and the newest of those that hack/tools builds.
func subjects(t *testing.T) (out []subject) {
	t.Helper()
	for _, name := range traits.Names() {
		find := exec.LookPath
		if traits.Of(name).Sandbox != "" {
			find = engine.Tool
		}
		path, err := find(name)
		if err != nil {
			t.Errorf("%s: %v (hack/deps.sh or hack/tools/build.sh installs it)", name, err)
			continue
		}
		out = append(out, subject{name, path, traits.Of(name)})
	}
	newest, err := engine.Tool("runc")
	env.Check(t, err)
	return append(out, subject{"runc-new", newest, traits.Of("runc")})
}

// plain is the delegate without agentjail.
func (s subject) plain(t *testing.T, args ...string) engine.Caller {
	t.Helper()
	return s.caller(t, engine.Caller{Path: s.path, Args: args})
}

// under is agentjail over the delegate.
func (s subject) under(t *testing.T, b *engine.Bundle, policy string) engine.Caller {
	t.Helper()
	return s.caller(t, engine.Caller{Path: bin, Args: []string{
		"--config", engine.PolicyFile(t, fmt.Sprintf("delegate = %q\n%s\n", s.path, policy)), "--root", filepath.Join(b.Dir, "state"),
	}})
}

// caller is the call where this delegate runs: crun does not beside a version 2 hierarchy with controllers.
func (s subject) caller(t *testing.T, c engine.Caller) engine.Caller {
	t.Helper()
	if s.name == "crun" {
		c.Path, c.Args = filepath.Join(env.Get(t, engine.ModuleRoot), "hack/without-unified.sh"), slices.Insert(c.Args, 0, c.Path)
	}
	return c
}
