// Package cve makes the attempts of known exploits against container runtimes, as those prepare them: by the content of
// the image, by arguments, by configuration. In a jail none reaches the host, whichever delegate makes it; and so that
// this states something, each is seen to succeed where nothing holds it: under an old runc that has the holes
// (hack/tools/vulnerable), or in a container that is given what the exploit needs.
//
// Every attempt aims at files and processes that the tests made and at nothing else of the machine.
package cve

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
)

// A system is one way to run a container.
type system struct {
	name     string   // as docker run --runtime knows it
	jail     bool     // agentjail, or whatever runtime is under test
	path     string   // the runtime
	args     []string // before the verb
	delegate string   // the runc that does the work in the end
}

// caller is how to run a bundle by it.
func (s system) caller() engine.Caller {
	return engine.Caller{Path: s.path, Args: append(slices.Clone(s.args), "--root", filepath.Join(base, "state-"+s.name))}
}

var (
	docker  *engine.Engine
	systems []system
	// base is a directory of the tests' own on the host.
	base string
	// oldRunc is the runtime with known holes.
	oldRunc string
)

func TestMain(m *testing.M) {
	engine.IfJanitor()
	engine.SuiteNeedsRoot("it runs containers")
	engine.Exit(runTests(m))
}

func runTests(m *testing.M) (int, error) {
	var err error
	if base, err = os.MkdirTemp("/var/tmp", "agentjail-cve-"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(base)
	if err := os.Chmod(base, 0o711); err != nil {
		return 1, err
	}
	if err := findSystems(); err != nil {
		return 1, err
	}
	defer engine.RemoveBuilt()
	return engine.Main(m, func(e *engine.Engine) error {
		docker = e
		return e.ImportBusybox()
	}), nil
}

// findSystems builds the runtimes and reports how Docker is to call them.
func findSystems() error {
	under, err := engine.UnderTest()
	if err != nil {
		return err
	}
	distribution, err := exec.LookPath("runc")
	if err != nil {
		return fmt.Errorf("no runc (hack/deps.sh installs it): %w", err)
	}
	newest, err := engine.Tool("runc")
	if err != nil {
		return err
	}
	vulnerable, err := engine.Tool("runc-vulnerable")
	if err != nil {
		return err
	}
	dir, err := engine.BinDir()
	if err != nil {
		return err
	}
	// A copy: an exploit overwrites it.
	oldRunc = filepath.Join(dir, "runc-old")
	if err := copyFile(vulnerable, oldRunc); err != nil {
		return err
	}
	systems = []system{
		{name: "runc", path: distribution, delegate: distribution},
		{name: "runc-new", path: newest, delegate: newest},
		{name: "runc-old", path: oldRunc, delegate: oldRunc},
		{name: engine.Name, jail: true, path: under, delegate: distribution},
	}
	if engine.UnderTestIsAgentjail() {
		for name, delegate := range map[string]string{"agentjail-new": newest, "agentjail-old": oldRunc} {
			policy := fmt.Sprintf("delegate = %q\n", delegate)
			engine.Policies[name] = policy
			file := filepath.Join(dir, name+".toml")
			if err := os.WriteFile(file, []byte(policy), 0o644); err != nil {
				return err
			}
			systems = append(systems, system{name: name, jail: true, path: under, args: []string{"--config", file}, delegate: delegate})
		}
	}
	for _, s := range systems {
		if !s.jail && s.name != "runc" { // dockerd has that by itself
			engine.Runtimes[s.name] = engine.Runtime{Path: s.path}
		}
	}
	return nil
}

// copyFile copies an executable, also over one that runs.
func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to+".new", text, 0o755); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}

// An attack is an exploit's attempt.
type attack struct {
	cve, how string
	// try makes the attempt and reports whether it reached the host, and what was seen.
	try func(t *testing.T, s system) (reached bool, seen string)
	// falls names the systems without a jail on which it has to succeed.
	falls []string
	// only limits it to systems whose delegate is this one: an attempt that could harm the machine elsewhere.
	only *string
}

// TestCVE makes every attempt in jails over every delegate, side by side, and before that where it has to succeed.
func TestCVE(t *testing.T) {
	for _, a := range attacks {
		t.Run(a.cve+" "+a.how, func(t *testing.T) {
			for _, s := range systems {
				if a.only != nil && s.delegate != *a.only {
					continue
				}
				falls := false
				for _, f := range a.falls {
					falls = falls || f == s.name
				}
				if !s.jail && !falls {
					continue
				}
				t.Run(s.name, func(t *testing.T) {
					if s.jail {
						t.Parallel()
					}
					reached, seen := a.try(t, s)
					t.Logf("reached the host: %v; %s", reached, short(seen))
					switch {
					case s.jail && reached:
						t.Errorf("the attempt reached the host: %s", seen)
					case falls && !reached:
						t.Errorf("the attempt does not work where nothing holds it, and so shows nothing in a jail: %s", seen)
					}
				})
			}
		})
	}
}

// TestEverySystemRunsContainers: each system runs a container, so that an attempt that fails fails for its own reasons.
func TestEverySystemRunsContainers(t *testing.T) {
	for _, s := range systems {
		t.Run(s.name, func(t *testing.T) {
			d := docker.For(t)
			if out := d.Must("run", "--rm", "--runtime="+s.name, engine.Busybox, "echo", "works"); out != "works" {
				t.Errorf("docker run: %q", out)
			}
			b := engine.NewBundle(t, base)
			b.Spec.Process.Args = []string{"echo", "works"}
			if out, err := b.Run(t, s.caller()); err != nil || strings.TrimSpace(out) != "works" {
				t.Errorf("run: %v: %q", err, out)
			}
		})
	}
}

// short keeps a log line readable.
func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 300 {
		return s[:300] + "..."
	}
	return s
}
