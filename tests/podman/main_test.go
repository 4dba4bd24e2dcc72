// Package podman tries agentjail under Podman, started by root and by an ordinary user, in a place of its own on this
// machine.
package podman

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// place is where all tests of the package run podman; nil when it cannot be had, for the reason in without.
var (
	place   *engine.PodmanPlace
	without error
	under   string // the runtime under test
)

func TestMain(m *testing.M) {
	engine.IfJanitor()
	engine.SuiteNeedsRoot("it sets up a Podman of its own")
	os.Exit(runTests(m))
}

func runTests(m *testing.M) (code int) {
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		fmt.Fprintln(os.Stderr, "podman: closing files of the caller:", err)
		return 1
	}
	if _, err := exec.LookPath("podman"); err != nil {
		without = fmt.Errorf("no podman on this machine (hack/deps.sh installs it): %w", err)
		return m.Run()
	}
	if err := furnish(); err != nil {
		fmt.Fprintln(os.Stderr, "podman:", err)
		code = 1
	} else {
		code = m.Run()
	}
	var errs []error
	if place != nil {
		errs = append(errs, place.Close())
	}
	if err := errors.Join(append(errs, engine.RemoveBuilt())...); err != nil {
		fmt.Fprintln(os.Stderr, "podman: clean up:", err)
		code = 1
	}
	return code
}

func furnish() (err error) {
	if under, err = engine.UnderTest(); err != nil {
		return err
	}
	if place, err = engine.StartPodman(); err != nil {
		return err
	}
	if err := place.Register(under); err != nil {
		return err
	}
	return place.ImportBusybox(false)
}

// root gives podman to a test, as root.
func root(t *testing.T) *engine.PodmanT {
	t.Helper()
	if without != nil {
		t.Skip(without)
	}
	return place.For(t, false)
}

// user gives podman to a test, as an ordinary user.
func user(t *testing.T) *engine.PodmanT {
	t.Helper()
	if without != nil {
		t.Skip(without)
	}
	for _, need := range []string{"newuidmap", "newgidmap"} {
		if _, err := exec.LookPath(need); err != nil {
			t.Skip("rootless podman needs subordinate ids (hack/deps.sh installs uidmap):", err)
		}
	}
	env.Check(t, usersImage())
	return place.For(t, true)
}

// usersImage is the ordinary user's own copy of the image.
var usersImage = sync.OnceValue(func() error { return place.ImportBusybox(true) })

// mustRunJail runs a jail without a network, which costs time to make and is empty anyway, of the busybox image to its end. args are podman
// run's options, the image and the command.
func mustRunJail(p *engine.PodmanT, args ...string) string {
	p.Helper()
	return p.Must(append([]string{"run", "--rm", "--network=none"}, args...)...)
}

// startJail starts a jail in the background that is removed with the test.
func startJail(p *engine.PodmanT, args ...string) string {
	p.Helper()
	return p.Detached(append([]string{"--network=none"}, args...)...)
}

// sh runs a shell command in a running jail.
func sh(p *engine.PodmanT, id, script string) string {
	p.Helper()
	return p.Must("exec", id, "sh", "-c", script)
}

// held tests that a process is jailed, with host ids of its jail's own where podman is root's.
func held(t testing.TB, p *engine.PodmanT, what string, w engine.Who) {
	t.Helper()
	if !p.User {
		promise.Jailed(t, what, w)
		return
	}
	promise.Held(t, what, w)
}

// probeIn runs the probe in a running jail and decodes its answer.
func probeIn[A any](p *engine.PodmanT, id string, args ...string) A {
	p.Helper()
	return env.Decode[A](p, p.Must(append([]string{"exec", id, "probe"}, args...)...))
}
