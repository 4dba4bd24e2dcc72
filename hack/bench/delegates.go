package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"agentjail.dev/tests/engine"
)

// A delegate is a runc, and the policy that makes agentjail use it.
type delegate struct{ name, path, policy string }

// findDelegates takes the distribution's runc and builds the newest one.
func (b *bench) findDelegates() error {
	var paths []string
	if p, err := exec.LookPath("runc"); err == nil {
		if p, err = filepath.EvalSymlinks(p); err == nil {
			paths = append(paths, p)
		}
	}
	root, err := engine.ModuleRoot()
	if err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(root, "hack/tools/build.sh"), "runc")
	cmd.Stderr = os.Stderr
	if out, err := cmd.Output(); err == nil {
		paths = append(paths, strings.TrimSpace(string(out)))
	} else {
		b.say("the newest runc cannot be built here, and is left out: %v", err)
	}
	bin, err := engine.BinDir()
	if err != nil {
		return err
	}
	for i, p := range paths {
		out, err := exec.Command(p, "--version").Output()
		if err != nil {
			return fmt.Errorf("%s --version: %w", p, err)
		}
		// "runc version 1.1.5+ds1"
		line, _, _ := strings.Cut(string(out), "\n")
		version, _, _ := strings.Cut(line[strings.LastIndexByte(line, ' ')+1:], "+")
		d := delegate{name: "runc " + version, path: p, policy: filepath.Join(bin, fmt.Sprintf("policy-%d.toml", i))}
		if !strings.Contains(d.name, b.delegates) {
			continue
		}
		if err := os.WriteFile(d.policy, fmt.Appendf(nil, "delegate = %q\n", p), 0o644); err != nil {
			return err
		}
		b.found = append(b.found, d)
	}
	if len(b.found) == 0 {
		return errors.New("no runc to compare with")
	}
	return nil
}
