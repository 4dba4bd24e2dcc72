// Package contract tries what every jail is (package promise) over every way to start one, and prints which engine gives which promise.
package contract

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

func TestMain(m *testing.M) {
	engine.IfJanitor()
	engine.SuiteNeedsRoot("it runs jails")
	code := m.Run()
	if err := engine.RemoveBuilt(); err != nil {
		fmt.Fprintln(os.Stderr, "clean up:", err)
		code = 1
	}
	os.Exit(code)
}

// engines are the ways to start a jail.
var engines = []struct {
	name  string
	start func(*testing.T) *promise.Engine
}{
	{"command line", commandLine},
	{"docker", docker("")},
	{"docker, policy service", service},
	{"docker 29", docker("29")},
	{"docker 29 of overlay2", docker("29-overlay2")},
	{"docker 29 by the shim", docker("29-shim")},
	{"ctr", ctr},
	{"podman", func(t *testing.T) *promise.Engine { return podman(t, false) }},
	{"podman of a user", func(t *testing.T) *promise.Engine { return podman(t, true) }},
}

// TestContract: every engine's jail keeps every promise.
func TestContract(t *testing.T) {
	var m promise.Matrix
	t.Run("engines", func(t *testing.T) { // ends when the parallel ones have
		for _, e := range engines {
			t.Run(e.name, func(t *testing.T) {
				t.Parallel()
				m.Try(t, e.name, e.start)
			})
		}
	})
	t.Logf("what every jail is, by engine:\n%s", &m)
}

// TestRuncAloneKeepsNoPromise: a container of runc alone keeps none of the promises, but those that state why it does. A question that is not answered there
// shows nothing, and so fails.
func TestRuncAloneKeepsNoPromise(t *testing.T) {
	s := promise.NewSubject(t, control(t))
	for _, p := range promise.All {
		if why := s.Without(p); why != "" {
			t.Logf("%s: not tried: %s", p.Name, why)
			continue
		}
		s.Patience = env.Patience
		if p.Plain == "" {
			s.Patience = 5 * time.Second // for what never comes here, and takes milliseconds in a jail
		}
		err := p.Wrong(s)
		t.Run(p.Name, func(t *testing.T) {
			switch {
			case errors.Is(err, promise.ErrNoAnswer):
				t.Error(err)
			case p.Plain != "" && err != nil:
				t.Errorf("%s, it is stated, but: %v", p.Plain, err)
			case p.Plain == "" && err == nil:
				t.Error("holds without agentjail")
			default:
				t.Log(p.Plain, err)
			}
		})
	}
}
