package clients

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// A plainContainerd is a containerd without Docker, which sees a policy for agentjail's shim in /etc: nerdctl has no way to name another.
type plainContainerd struct {
	*engine.Containerd
	policy string
}

// containerds start when the first client requests them: one for runc, one for jails. TestMain stops them.
var containerds = map[string]func() (*plainContainerd, error){
	"runc":      sync.OnceValues(func() (*plainContainerd, error) { return startContainerd("runc") }),
	engine.Name: sync.OnceValues(func() (*plainContainerd, error) { return startContainerd(engine.Name) }),
}

func startContainerd(name string) (*plainContainerd, error) {
	shims, err := engine.Shim()
	if err != nil {
		return nil, err
	}
	dir, err := engine.BinDir()
	if err != nil {
		return nil, err
	}
	dir = filepath.Join(dir, "for-"+name)
	etc := filepath.Join(dir, "etc")
	if err := os.MkdirAll(filepath.Join(etc, "agentjail"), 0o755); err != nil {
		return nil, err
	}
	binary, err := wrap(dir, etc)
	if err != nil {
		return nil, err
	}
	started, err := engine.StartContainerd(engine.ContainerdOptions{Binary: binary, Shims: []string{shims}})
	if err != nil {
		return nil, err
	}
	closeAtEnd(started.Close)
	return &plainContainerd{started, filepath.Join(etc, "agentjail", "config.toml")}, started.ImportBusybox("default")
}

// nerdctlData is where nerdctl keeps its data unless configured otherwise: in a directory for each containerd.
const nerdctlData = "/var/lib/nerdctl"

// data is nerdctl's directory for this containerd, which it names by the socket's address.
func (c *plainContainerd) data() string {
	sum := sha256.Sum256([]byte(c.Socket()))
	return filepath.Join(nerdctlData, fmt.Sprintf("%x", sum[:4]))
}

// allowLogger has the shim run nerdctl as the logger of its containers, as docs/engines.md states.
func (c *plainContainerd) allowLogger(bin string) error {
	program, err := filepath.EvalSymlinks(filepath.Join(bin, "nerdctl"))
	if err != nil {
		return err
	}
	entry := fmt.Sprintf("%s?_NERDCTL_INTERNAL_LOGGING=%s", program, url.QueryEscape(c.data()))
	return os.WriteFile(c.policy, fmt.Appendf(nil, "shim.loggers = [%q]\n", entry), 0o644)
}

// shimOf is containerd's name for a runtime's shim.
var shimOf = map[string]string{"runc": "io.containerd.runc.v2", engine.Name: engine.ShimRuntime}

// runOverContainerd runs the client's script over containerd with a runtime's shim.
func (c client) runOverContainerd(t *testing.T, bin, runtime string) string {
	t.Helper()
	began := time.Now()
	defer func() { t.Logf("%s: %v", runtime, time.Since(began).Round(time.Second/10)) }()
	d, err := containerds[runtime]()
	if err == nil {
		err = d.allowLogger(bin)
	}
	env.Check(t, err)
	ct := d.For(t)
	t.Cleanup(func() {
		os.RemoveAll(d.data())
		os.Remove(nerdctlData) // if it is empty
	})
	out := c.script(t, d.Engine, bin, append(os.Environ(), "RUNTIME="+shimOf[runtime], "CONTAINERD="+d.Socket()))
	for _, what := range []string{"tasks", "containers"} {
		if left := strings.TrimSpace(nerdctlsCtr(ct, what, "ls", "-q")); left != "" {
			t.Errorf("%s: %s are left: %s", runtime, what, left)
		}
	}
	return out
}

// nerdctlsCtr runs a ctr command in nerdctl's namespace.
func nerdctlsCtr(d *engine.CT, args ...string) string {
	d.Helper()
	out, err := d.CommandIn(context.Background(), "default", args...).Output()
	if err != nil {
		d.Errorf("ctr %v: %v", args, err)
	}
	return string(out)
}

// wrap writes a program that starts containerd where the files of etc are in /etc, and links ctr beside it.
func wrap(dir, etc string) (string, error) {
	for _, name := range []string{"containerd", "ctr"} {
		if _, err := exec.LookPath(name); err != nil {
			return "", fmt.Errorf("%w (hack/deps.sh installs it)", err)
		}
	}
	ctr, _ := exec.LookPath("ctr")
	bin := filepath.Join(dir, "wrapped")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return "", err
	}
	if err := os.Symlink(ctr, filepath.Join(bin, "ctr")); err != nil {
		return "", err
	}
	program := filepath.Join(bin, "containerd")
	// The search path has this program's directory in front.
	text := fmt.Sprintf(`#!/bin/sh
PATH=${PATH#%s:}
PATH=$(echo "$PATH" | sed 's|:%s||')
export PATH
exec unshare --mount --propagation slave sh -c 'mount -t overlay overlay -o lowerdir=%s:/etc /etc && exec containerd "$@"' sh "$@"
`, bin, bin, etc)
	return program, os.WriteFile(program, []byte(text), 0o755)
}
