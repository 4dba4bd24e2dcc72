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
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/spec/traits"
	"agentjail.dev/tests/engine"
)

// A lab is what all subjects run: a file tree, a marker of the host's, a process of the host's.
type lab struct {
	dir, root, marker, token string
	device                   uint64
	victim                   *exec.Cmd
	agentjail, runsc         string
	docker                   *engine.Engine
	podman                   *engine.PodmanPlace
	closers                  []func()
}

func newLab() (l *lab, err error) {
	l = &lab{token: strconv.Itoa(7000000 + os.Getpid())}
	if l.dir, err = os.MkdirTemp("/var/tmp", "agentjail-boundaries-"); err != nil {
		return nil, err
	}
	l.closers = append(l.closers, func() {
		_ = unix.Unmount(filepath.Join(l.root, "proc"), unix.MNT_DETACH) // what escape mounts in a chroot
		os.RemoveAll(l.dir)
	})
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if err := os.Chmod(l.dir, 0o755); err != nil {
		return nil, err
	}
	l.root, l.marker, l.device = filepath.Join(l.dir, "root"), filepath.Join(l.dir, "marker"), deviceOf("/")
	if err := os.WriteFile(l.marker, []byte(l.marker), 0o644); err != nil {
		return nil, err
	}
	l.victim = exec.Command("sleep", "3600")
	if err := l.victim.Start(); err != nil {
		return nil, err
	}
	l.closers = append(l.closers, func() { _ = l.victim.Process.Kill(); _ = l.victim.Wait() })
	if err := l.tree(); err != nil {
		return nil, err
	}
	if l.agentjail, err = engine.UnderTest(); err != nil {
		return nil, err
	}
	l.closers = append(l.closers, func() { _ = engine.RemoveBuilt() })
	if l.runsc, err = engine.Tool(traits.Bounded("gvisor")); err != nil {
		fmt.Fprintln(os.Stderr, "boundaries:", err)
	}
	return l, nil
}

func (l *lab) close() {
	for i := len(l.closers) - 1; i >= 0; i-- {
		l.closers[i]()
	}
}

// tree makes the file tree: busybox, and the program that tries to leave.
func (l *lab) tree() error {
	if err := os.Mkdir(l.root, 0o755); err != nil {
		return err
	}
	var tar bytes.Buffer
	if err := engine.BusyboxTree(&tar); err != nil {
		return err
	}
	unpack := exec.Command("tar", "-x", "-C", l.root)
	unpack.Stdin = &tar
	if out, err := unpack.CombinedOutput(); err != nil {
		return fmt.Errorf("unpacking: %w: %s", err, out)
	}
	top, err := engine.ModuleRoot()
	if err != nil {
		return err
	}
	build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(l.root, "escape"), "./hack/bench/boundaries/escape")
	build.Dir, build.Env = top, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the attacks: %w: %s", err, out)
	}
	for _, dir := range []string{"proc", "tmp", "usr", "etc", "dev", "sys"} {
		if err := os.MkdirAll(filepath.Join(l.root, dir), 0o755); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(l.root, "etc/os-release"), []byte("ID=boundaries\n"), 0o644)
}

const image = "boundaries"

// engines starts Docker and Podman with the tree as their image.
func (l *lab) engines() (dockerWhy, podmanWhy string) {
	tar, err := exec.Command("tar", "-c", "-C", l.root, ".").Output()
	if err != nil {
		return err.Error(), err.Error()
	}
	l.docker, err = engine.Start(engine.Options{Runtimes: map[string]engine.Runtime{"agentjail": {Path: l.agentjail}}})
	if err == nil {
		l.closers = append(l.closers, func() { _ = l.docker.Close() })
		err = l.docker.ImportTar(bytes.NewReader(tar), image)
	}
	if err != nil {
		dockerWhy = "not run here: " + err.Error()
	}
	l.podman, err = engine.StartPodman()
	if err == nil {
		l.closers = append(l.closers, func() { _ = l.podman.Close() })
		err = l.podman.Import(false, tar, image)
	}
	if err != nil {
		podmanWhy = "not run here: " + err.Error()
	}
	return dockerWhy, podmanWhy
}

// subjects are the boundaries, the weakest first.
func (l *lab) subjects() []subject {
	dockerWhy, podmanWhy := l.engines()
	fromEngine := func(name, why string, command func(context.Context, ...string) *exec.Cmd, remove []string, options ...string) subject {
		run := slices.Concat([]string{"run", "--rm", "--network=none"}, options)
		return subject{
			name: name, client: true, why: why,
			command: func(ctx context.Context, token string, args ...string) *exec.Cmd {
				return command(ctx, slices.Concat(run, []string{"--name=b" + token, image}, args)...)
			},
			beside: func(ctx context.Context, token string, args ...string) *exec.Cmd {
				return command(ctx, slices.Concat([]string{"exec", "b" + token}, args)...)
			},
			stop: func(token string) {
				_ = command(context.Background(), slices.Concat(remove, []string{"b" + token})...).Run()
			},
		}
	}
	docker := func(ctx context.Context, args ...string) *exec.Cmd { return l.docker.Command(ctx, args...) }
	podman := func(ctx context.Context, args ...string) *exec.Cmd {
		return l.podman.Inside(ctx, append([]string{"podman"}, args...)...)
	}
	remove := []string{"rm", "-f"}
	return []subject{
		{name: "chroot", bare: true, command: func(ctx context.Context, _ string, args ...string) *exec.Cmd {
			return exec.CommandContext(ctx, "chroot", append([]string{l.root}, args...)...)
		}},
		{name: "systemd-nspawn", why: missing("systemd-nspawn"), command: func(ctx context.Context, token string, args ...string) *exec.Cmd {
			return exec.CommandContext(ctx, "systemd-nspawn", append([]string{
				"--quiet", "--register=no", "--keep-unit", "--as-pid2", "--private-users=65536:65536", "--private-network", "--resolv-conf=off",
				"--timezone=off", "--machine=b" + token, "--directory=" + l.root,
			}, args...)...)
		}},
		l.oci("runc", found("runc"), nil),
		l.oci("crun", found("crun"), nil),
		fromEngine("Docker", dockerWhy, docker, remove),
		fromEngine("Podman", podmanWhy, podman, append(remove, "-t0")),
		l.jail("agentjail", found("runc")),
		l.jail("agentjail, crun", found("crun")),
		fromEngine("agentjail, Docker", dockerWhy, docker, remove, "--runtime=agentjail"),
		l.oci("gVisor alone", l.runsc, []string{"--platform=systrap", "--network=none", "--overlay2=none", "--gofer-network-namespace=new"}),
		l.jail("agentjail, gVisor", l.runsc),
	}
}

func missing(program string) string {
	if _, err := exec.LookPath(program); err != nil {
		return "not run here: " + err.Error()
	}
	return ""
}

// oci is a program with runc's command line on a bundle of its own.
func (l *lab) oci(name, path string, flags []string) subject {
	s := subject{name: name}
	if _, err := os.Stat(path); err != nil || path == "" {
		s.why = "not run here: " + errors.Join(err, errors.New("not found")).Error()
		return s
	}
	call := func(ctx context.Context, args ...string) *exec.Cmd {
		return exec.CommandContext(ctx, path, slices.Concat([]string{"--root", filepath.Join(l.dir, "state")}, flags, args)...)
	}
	s.command = func(ctx context.Context, token string, args ...string) *exec.Cmd {
		dir, err := l.bundle(filepath.Join(l.dir, strings.ReplaceAll(name, " ", "-")), token, args)
		if err != nil {
			return exec.CommandContext(ctx, "/no/bundle: "+err.Error())
		}
		return call(ctx, "run", "--bundle", dir, "b"+token)
	}
	s.beside = func(ctx context.Context, token string, args ...string) *exec.Cmd {
		return call(ctx, append([]string{"exec", "b" + token}, args...)...)
	}
	s.stop = func(token string) { _ = call(context.Background(), "delete", "--force", "b"+token).Run() }
	return s
}

// found is where a program is, or "".
func found(program string) string {
	path, _ := exec.LookPath(program)
	return path
}

// jail is agentjail with the policy for a delegate.
func (l *lab) jail(name, delegate string) subject {
	config := filepath.Join(l.dir, filepath.Base(delegate)+".toml")
	err := os.WriteFile(config, fmt.Appendf(nil, "delegate = %q\n", delegate), 0o644)
	s := l.oci(name, l.agentjail, []string{"--config", config})
	if err != nil || delegate == "" {
		s.why = "not run here: no delegate"
	}
	return s
}

// bundle makes one as engines do for an ordinary container.
func (l *lab) bundle(above, token string, args []string) (string, error) {
	dir := filepath.Join(above, token)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	spec, err := exec.Command("runc", "spec", "--bundle", dir).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, spec)
	}
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		return "", err
	}
	var s specs.Spec
	if err := json.Unmarshal(text, &s); err != nil {
		return "", err
	}
	s.Root.Path, s.Root.Readonly, s.Process.Args, s.Process.Terminal = l.root, false, args, false
	s.Linux.CgroupsPath = "/agentjail-b" + token
	if text, err = json.Marshal(&s); err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "config.json"), text, 0o644)
}
