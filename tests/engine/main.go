package engine

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"agentjail.dev/tests/env"
	"golang.org/x/sys/unix"
)

// RuntimeEnv names the environment variable that reports which runtime the tests try: the absolute path of a
// runc-compatible binary. Unset, agentjail is built from this checkout. Pointing it at plain runc shows that the hostile
// tests fail without the protection.
const RuntimeEnv = "AGENTJAIL_RUNTIME_UNDER_TEST"

// Name is what the runtime under test is registered as.
const Name = "agentjail"

// Policies are further policies to test, by the name of the runtime that has them. They are registered when the runtime
// under test is agentjail.
var Policies = map[string]string{
	"agentjail-nobody":      "[userns]\nmap = \"nobody\"\n",
	"agentjail-refuse":      "on_loosen = \"refuse\"\n",
	"agentjail-strict":      "[seccomp]\nprofile = \"strict\"\n",
	"agentjail-kill":        "[seccomp]\non_violation = \"kill\"\n",
	"agentjail-strict-kill": "[seccomp]\nprofile = \"strict\"\non_violation = \"kill\"\n",
	"agentjail-net":         "[network]\nmode = \"engine\"\n",
	"agentjail-names":       "[network]\nmode = \"names\"\nallow = [\"api.example.test\", \"*.wild.example.test:443\"]\n",
	"agentjail-ports":       "[network]\nmode = \"names\"\npublish = [\"engine:7000\", \"17000\", \"17001\", \"17002\"]\nservers = [\"192.0.2.53\"]\n",
	"agentjail-no-links":    "[root]\nengine_links = false\n",
	"agentjail-small":       "[root]\nsize = \"8MiB\"\ninodes = 200\n[limits]\npids = 20\nmemory = \"64MiB\"\n[process]\ndeny_write_execute = true\n",
}

// Builtins are runtimes of built-in policies: agentjail by these names, without a policy file.
var Builtins = []string{"agentjail-service"}

// Runtimes are further runtimes to register beside the one under test, by name.
var Runtimes = map[string]Runtime{}

// Main runs a package's tests with one engine shared by all of them and returns the exit code. before is called once
// the engine is there, to make images and keep the pointer.
func Main(m *testing.M, before func(*Engine) error) int { return MainWith(m, Options{}, before) }

// MainWith is Main with an engine of a certain kind; its runtimes and log are set here.
func MainWith(m *testing.M, opts Options, before func(*Engine) error) int {
	IfJanitor()
	SuiteNeedsRoot("it starts a Docker of its own")
	// The caller of the tests may have left files open. The daemons would get them and hand them on, and descriptors in
	// containers would have other numbers than elsewhere (os/exec closes only what this program opened).
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		fmt.Fprintln(os.Stderr, "engine: closing files of the caller:", err)
		return 1
	}
	e, err := startForTests(opts)
	if err != nil {
		fmt.Fprintln(os.Stderr, "engine:", err)
		return 1
	}
	// The janitor would clean up after an interrupt as well, but only once this process is gone, and no process would wait for it.
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		_ = e.Close()
		_ = RemoveBuilt()
		os.Exit(130)
	}()
	code := 1
	if err := before(e); err != nil {
		fmt.Fprintln(os.Stderr, "engine:", err)
	} else {
		code = m.Run()
	}
	if err := e.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "engine: clean up:", err)
		code = 1
	}
	if err := RemoveBuilt(); err != nil {
		fmt.Fprintln(os.Stderr, "engine: clean up:", err)
	}
	return code
}

// startForTests starts an engine with the runtime under test.
func startForTests(opts Options) (*Engine, error) {
	under, err := UnderTest()
	if err != nil {
		return nil, err
	}
	runtimes := map[string]Runtime{Name: {Path: under}}
	maps.Copy(runtimes, Runtimes)
	if UnderTestIsAgentjail() {
		// The host's owner can decide some things differently: the same program with other policies. A policy counts
		// only where root alone can write.
		dir, err := BinDir()
		if err != nil {
			return nil, err
		}
		for name, policy := range Policies {
			file := filepath.Join(dir, name+".toml")
			if err := os.WriteFile(file, []byte(policy), 0o644); err != nil {
				return nil, err
			}
			runtimes[name] = Runtime{Path: under, Args: []string{"--config", file}}
		}
		for _, name := range Builtins {
			path := filepath.Join(dir, name)
			if err := os.Symlink(under, path); err != nil && !errors.Is(err, os.ErrExist) {
				return nil, err
			}
			runtimes[name] = Runtime{Path: path, Args: []string{"--config", os.DevNull}}
		}
		if runtimes[Passthrough], err = passthrough(dir, under); err != nil {
			return nil, err
		}
		if _, err := os.Stat("/etc/agentjail/config.toml"); err == nil {
			fmt.Fprintln(os.Stderr, "engine: /etc/agentjail/config.toml is there: the tests expect the default policy")
		}
	}
	opts.Runtimes = runtimes
	opts.Log = func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	e, err := Start(opts)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "engine: %s; runtime under test: %s\n", e.Versions(), under)
	return e, nil
}

// Passthrough is the runtime that hardens nothing: agentjail by the name of a profile that reports it.
const Passthrough = "agentjail-passthrough"

func passthrough(dir, under string) (Runtime, error) {
	file, link := filepath.Join(dir, Passthrough+".toml"), filepath.Join(dir, Passthrough)
	if err := os.WriteFile(file, []byte("[policies.passthrough]\npassthrough = true\n"), 0o644); err != nil {
		return Runtime{}, err
	}
	if err := os.Symlink(under, link); err != nil && !errors.Is(err, os.ErrExist) {
		return Runtime{}, err
	}
	return Runtime{Path: link, Args: []string{"--config", file}}, nil
}

// StartFor starts an engine of the test's own, with busybox, and ends it with the test.
func StartFor(t testing.TB, opts Options) *Engine {
	t.Helper()
	opts.Log = t.Logf
	e, err := Start(opts)
	env.Check(t, err)
	env.AtEnd(t, e.Close)
	env.Check(t, e.ImportBusybox())
	return e
}

// ContainerdFor starts a containerd of the test's own, with busybox in its namespace, and ends it with the test.
func ContainerdFor(t testing.TB, opts ContainerdOptions) *Containerd {
	t.Helper()
	opts.Log = t.Logf
	c, err := StartContainerd(opts)
	env.Check(t, err)
	env.AtEnd(t, c.Close)
	env.Check(t, c.ImportBusybox(c.Namespace()))
	return c
}

// PodmanFor makes a place for Podman, with busybox for root or the ordinary user, and ends it with the test.
func PodmanFor(t testing.TB, user bool) *PodmanPlace {
	t.Helper()
	p := env.Get(t, StartPodman)
	env.AtEnd(t, p.Close)
	env.Check(t, p.ImportBusybox(user))
	return p
}

// Exit ends a suite with the code that its tests returned, or with 1 at an error.
func Exit(code int, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// OnOwnHost runs this program again in a network namespace and a mount namespace of its own, with
// the variable set to 1, and returns the exit code.
func OnOwnHost(variable string) int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), variable+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
