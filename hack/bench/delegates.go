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

// A delegate is a runc or crun, with what makes agentjail use it: a policy file, and a build that
// does so by itself. The latter is what is measured: an engine calls a runtime with arguments of
// its own by way of a shell.
type delegate struct{ name, path, policy, agentjail string }

// program is the delegate's, without its version.
func (d delegate) program() string {
	program, _, _ := strings.Cut(d.name, " ")
	return program
}

// findDelegates takes the distribution's runc, builds the newest one, and takes the distribution's
// crun.
func (b *bench) findDelegates() error {
	var paths []string
	installed := func(name string) {
		p, err := exec.LookPath(name)
		if err == nil {
			p, err = filepath.EvalSymlinks(p)
		}
		if err != nil {
			b.res.leftOut(name, err)
			return
		}
		paths = append(paths, p)
	}
	installed("runc")
	if p, err := engine.Tool("runc"); err == nil {
		paths = append(paths, p)
	} else {
		b.res.leftOut("the newest runc", err)
	}
	installed("crun")
	bin, err := engine.BinDir()
	if err != nil {
		return err
	}
	for i, p := range paths {
		name, err := nameOf(p)
		if err != nil {
			return err
		}
		if !strings.Contains(name, b.delegates) {
			continue
		}
		d := delegate{name: name, path: p, policy: filepath.Join(bin, fmt.Sprintf("policy-%d.toml", i)), agentjail: filepath.Join(bin, fmt.Sprint(i), "agentjail")}
		if err := os.WriteFile(d.policy, fmt.Appendf(nil, "delegate = %q\n", p), 0o644); err != nil {
			return err
		}
		if err := engine.BuildAgentjail(d.agentjail, "-ldflags=-s -w -X agentjail.dev/runtime/spec/policy.defaultDelegate="+p); err != nil {
			return err
		}
		b.found = append(b.found, d)
	}
	if len(b.found) == 0 {
		return errors.New("no runtime to compare with")
	}
	return nil
}

// nameOf queries a program for its name and version: "runc version 1.1.5+ds1", "crun version
// 1.8.1".
func nameOf(path string) (string, error) {
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", path, err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	version, _, _ := strings.Cut(line[strings.LastIndexByte(line, ' ')+1:], "+")
	return filepath.Base(path) + " " + version, nil
}

// dropBroken leaves out the delegates that cannot run a container here: crun refuses some layouts
// of the control groups.
func (b *bench) dropBroken() error {
	return reaping(func() error {
		var works []delegate
		for _, d := range b.found {
			s, err := b.subject(d, bareDocker, b.captured.id, nil)
			if err != nil {
				return err
			}
			if _, err := s.lifecycle(); err != nil {
				b.res.leftOut(d.name, err)
				continue
			}
			works = append(works, d)
		}
		b.found = works
		if len(works) == 0 {
			return errors.New("no runtime to compare with runs here: " + strings.Join(b.res.LeftOut, "; "))
		}
		return nil
	})
}

// newest returns the last of each program's delegates, for measures that take long.
func (b *bench) newest() []delegate {
	var out []delegate
	for i, d := range b.found {
		if i+1 == len(b.found) || b.found[i+1].program() != d.program() {
			out = append(out, d)
		}
	}
	return out
}
