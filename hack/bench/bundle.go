package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/tests/engine"
)

// captureRuntime is a runtime that keeps a copy of the bundle's config.json and is runc otherwise.
const captureRuntime = `#!/bin/sh
bundle=. before=
for a; do
	case $before in --bundle | -b) bundle=$a ;; esac
	before=$a
done
case " $* " in *" create "*) cp "$bundle/config.json" "%s" ;; esac
exec runc "$@"
`

// capture reports where the bundle that Docker really makes was kept, and for which container. That
// container stays, ended: its host name and resolver files are mounted into what is measured.
type capture struct {
	id   string
	spec specs.Spec
}

// captureBundle lets Docker make a bundle.
func captureBundle(ctx context.Context, e *engine.Engine, runtime, file string) (*capture, error) {
	r := e.Docker(ctx, "create", "--runtime", runtime, engine.Busybox, "true")
	if r.Code != 0 {
		return nil, fmt.Errorf("make a container to copy the bundle of: %s", r)
	}
	c := &capture{id: strings.TrimSpace(r.Stdout)}
	if r := e.Docker(ctx, "start", "--attach", c.id); r.Code != 0 {
		return nil, fmt.Errorf("run a container to copy the bundle of: %s", r)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the bundle that Docker made: %w", err)
	}
	if err := json.Unmarshal(data, &c.spec); err != nil {
		return nil, fmt.Errorf("the bundle that Docker made: %w", err)
	}
	// Docker plugs its network in by a hook. Bare delegates would run it and agentjail drops it: no
	// subject runs it here.
	c.spec.Hooks = nil
	c.spec.Process.Args = []string{"/bin/true"}
	if c.spec.Linux.Seccomp == nil {
		return nil, errors.New("no seccomp profile came from Docker: there is nothing to compare with")
	}
	return c, nil
}

// A rootfs is an image mounted as Docker's overlay2 driver does it: read-only layers below a
// writable one, with names relative to the directory of all layers, where the mounting program is.
type rootfs struct {
	dir    string
	lowers []string // the uppermost first
}

// newRootfs makes an image of some layers: one that is unpacked once for all images in dir, and
// small ones above it.
func newRootfs(dir string, layers int) (*rootfs, error) {
	r := &rootfs{dir: dir}
	for i := range layers {
		name := fmt.Sprintf("l/%02d", i)
		r.lowers = append([]string{name}, r.lowers...)
		at := filepath.Join(dir, name)
		if _, err := os.Stat(at); err == nil {
			continue
		}
		make := layer
		if i == 0 {
			make = unpack
		}
		if err := make(at); err != nil {
			return nil, fmt.Errorf("layer %d of the image: %w", i, err)
		}
	}
	return r, nil
}

// unpack makes the lowest layer.
func unpack(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var tree bytes.Buffer
	if err := engine.BusyboxTree(&tree); err != nil {
		return err
	}
	cmd := exec.Command("tar", "-x", "-C", dir)
	cmd.Stdin = &tree
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	// As Docker's own layer does: mount points that container root could not make in a user
	// namespace.
	for _, f := range dockersFiles {
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// layer makes a further layer: a directory of its own, and a file in one that all have.
func layer(dir string) error {
	own := filepath.Join(dir, "opt", filepath.Base(dir))
	if err := os.MkdirAll(own, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(own, "file"), make([]byte, 4096), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "opt", "last"), []byte(dir), 0o644)
}

// mount makes dir/merged. dir lies in the directory of all layers.
func (r *rootfs) mount(dir string) (string, error) {
	for _, d := range []string{"diff", "work", "merged"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return "", err
		}
	}
	merged := filepath.Join(dir, "merged")
	cmd := exec.Command("mount", "-t", "overlay", "overlay", "-o",
		"lowerdir="+strings.Join(r.lowers, ":")+",upperdir="+filepath.Join(dir, "diff")+",workdir="+filepath.Join(dir, "work"), merged)
	cmd.Dir = r.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mount the image: %w: %s", err, out)
	}
	return merged, nil
}

// clone copies a spec.
func clone(s *specs.Spec) *specs.Spec {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // it came from JSON
	}
	out := new(specs.Spec)
	if err := json.Unmarshal(data, out); err != nil {
		panic(err)
	}
	return out
}

// writeBundle makes a bundle in dir with a mounted root. change may be nil.
func writeBundle(dir string, r *rootfs, spec *specs.Spec, change func(*specs.Spec)) error {
	merged, err := r.mount(dir)
	if err != nil {
		return err
	}
	s := clone(spec)
	s.Root.Path = merged
	if change != nil {
		change(s)
	}
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600)
}
