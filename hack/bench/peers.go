package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"agentjail.dev/tests/engine"
)

// alone is the kind of what is no delegate and runs the same root file system by its own means.
const alone kind = "alone"

// peerWait bounds one run of a peer.
const peerWait = 20 * time.Second

// peers are subjects of the start measure that agentjail has no part in, each with its own idea of
// a container. What does not run here is left out with the reason.
func (b *bench) peers() []*subject {
	var out []*subject
	for _, p := range []struct {
		name string
		make func() (*subject, error)
	}{
		{"bubblewrap", b.bubblewrap},
		{"systemd-nspawn", b.nspawn},
		{"gVisor", b.gvisor},
	} {
		s, err := p.make()
		if err == nil {
			_, err = s.lifecycle()
		}
		if err != nil {
			b.res.leftOut(p.name, err)
			continue
		}
		out = append(out, s)
	}
	return out
}

// bubblewrap has every namespace, no capability, no filter and no control group.
func (b *bench) bubblewrap() (*subject, error) {
	s, root, err := b.peer("bwrap", "bubblewrap")
	if err != nil {
		return nil, err
	}
	s.whole = s.command("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
		"--bind", root, "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "/bin/true")
	return s, nil
}

// nspawn has ids and a network of its own, and its own filter, but requests nothing from systemd.
func (b *bench) nspawn() (*subject, error) {
	s, root, err := b.peer("systemd-nspawn", "systemd-nspawn")
	if err != nil {
		return nil, err
	}
	machine := b.e.CgroupParent()
	run := s.command("--quiet", "--register=no", "--keep-unit", "--as-pid2", "--private-users=65536:65536", "--private-network",
		"--resolv-conf=off", "--timezone=off", "--machine", machine, "--directory", root, "/bin/true")
	s.whole = func() (sample, error) {
		out, err := run()
		// Where /run is no tmpfs it leaves this.
		if rerr := os.Remove(filepath.Join("/run/systemd/nspawn/propagate", machine)); rerr != nil && !errors.Is(rerr, os.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
		return out, err
	}
	return s, nil
}

// gvisor runs the bundle as Docker makes it, with a kernel of its own and without a network.
func (b *bench) gvisor() (*subject, error) {
	path, err := engine.Tool("runsc")
	if err != nil {
		return nil, err
	}
	s, err := b.subject(delegate{name: "gVisor", path: path}, alone, b.captured.id, nil)
	if err != nil {
		return nil, err
	}
	s.global = append(s.global, "--network=none", "--platform=systrap")
	return s, nil
}

// peer makes a subject of an installed program, with a root of its own.
func (b *bench) peer(program, name string) (*subject, string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, "", err
	}
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return nil, "", fmt.Errorf("%s --version: %w", path, err)
	}
	if f := strings.Fields(string(out)); len(f) > 1 { // "bubblewrap 0.8.0", "systemd 252 (252.39-1~deb12u1)"
		name += " " + f[1]
	}
	s, err := b.subject(delegate{name: name, path: path}, alone, "", nil)
	if err != nil {
		return nil, "", err
	}
	return s, filepath.Join(s.bundle, "merged"), nil
}

// command returns what runs a program once.
func (s *subject) command(args ...string) func() (sample, error) {
	return func() (out sample, err error) {
		ctx, cancel := context.WithTimeout(context.Background(), peerWait)
		defer cancel()
		cmd := exec.CommandContext(ctx, s.bin, args...)
		cmd.WaitDelay = time.Second // a process that it left behind may hold the output
		start := time.Now()
		text, err := cmd.CombinedOutput()
		out.wall = time.Since(start)
		if err != nil {
			return out, fmt.Errorf("%s: %w: %s", s.name, err, strings.TrimSpace(string(text)))
		}
		out.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		return out, nil
	}
}
