package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/tests/engine"
)

// mobyPackages are the packages of moby's integration tests that run containers, with the flags by
// which tests are chosen.
var mobyPackages = []struct{ dir, flag string }{
	{"integration/container", ""},
	{"integration/volume", ""},
	{"integration/network", ""},
	{"integration/image", "-test.skip=^TestImportExtremelyLargeImageWorks$"}, // 8 GiB, and no container
	{"integration/build", ""},
	{"integration/service", ""},
	{"integration-cli", "-test.run=^TestDockerCLI(Run|Exec|Cp|Start|Restart|Pause|Stats|Logs)Suite$"},
}

// mobyWait bounds what one package may take: each starts hundreds of containers.
const mobyWait = 40 * time.Minute

// mobyModule is Docker's engine, of the version that hack/tools builds.
const mobyModule = "github.com/moby/moby/v2"

// mobySuite is the integration tests of Docker's engine: each package against a Docker 29 of its
// own, whose runc is the runtime that is tried. A unit's name is that of a package.
func mobySuite(ctx context.Context, o *options, _ string) ([]unit, error) {
	root, err := engine.ModuleRoot()
	if err != nil {
		return nil, err
	}
	version, err := do(ctx, filepath.Join(root, "hack/tools/dockerd"), "go", "list", "-m", "-f", "{{.Version}}", mobyModule)
	if err != nil {
		return nil, err
	}
	dir, err := moduleCopy(ctx, mobyModule+"@"+strings.TrimSpace(string(version)), "moby-"+strings.TrimSpace(string(version)), nil)
	if err != nil {
		return nil, err
	}
	var units []unit
	for _, p := range mobyPackages {
		if !o.only.MatchString(p.dir) {
			continue
		}
		in := filepath.Join(dir, p.dir)
		program := in + ".test"
		// The same each time: an up-to-date one is made in no time.
		if _, err := do(ctx, dir, "env", "CGO_ENABLED=0", "go", "test", "-c", "-trimpath", "-o", program, "./"+p.dir); err != nil {
			return nil, err
		}
		args := []string{program, "-test.v", "-test.timeout=" + (mobyWait - mobyWait/10).String()}
		switch {
		case o.tests != "":
			args = append(args, "-test.run="+o.tests)
		case p.flag != "":
			args = append(args, p.flag)
		}
		units = append(units, unit{name: p.dir, wait: mobyWait, run: func(ctx context.Context, path, log string) error {
			return onDocker(ctx, o.delegate, path, log, in, args)
		}, read: func(log string) (results, error) { return readGoTest(log, p.dir) }})
	}
	return units, nil
}

// onDocker runs a test program in the network namespace of a Docker 29 whose runc is the runtime at
// path. Tests start further dockerds, which look for containerd where that is installed: there is
// this one's, in this program's mount namespace.
func onDocker(ctx context.Context, delegate, path, log, dir string, args []string) (err error) {
	// A directory of root's alone: runtimes are not run from others.
	own, err := os.MkdirTemp(filepath.Dir(path), "moby-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(own)
	// BuildKit runs its steps with a runc of its own, which a person leaves it.
	script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in */buildkit/executor/*) exec %s \"$@\" ;; esac\nexec %s \"$@\"\n", delegate, path)
	if err := os.WriteFile(filepath.Join(own, "runc"), []byte(script), 0o755); err != nil {
		return err
	}
	edition := engine.Editions["29"]
	e, err := engine.Start(engine.Options{Edition: &edition, Shims: []string{own}})
	if err != nil {
		return err
	}
	defer func() {
		// Where the tests have the sockets of their dockerds.
		err = errors.Join(err, e.Close(), removeMounted("/tmp/dxr"), removeMounted("/tmp/docker-integration"))
	}()
	if err := mobyImages(ctx, e); err != nil {
		return err
	}
	const installed = "/run/docker/containerd"
	if err := os.MkdirAll("/run/docker", 0o711); err != nil {
		return err
	}
	if err := unix.Mount("agentjail-conformance", "/run/docker", "tmpfs", 0, "mode=0711"); err != nil {
		return fmt.Errorf("mounting over /run/docker: %w", err)
	}
	defer func() { _ = unix.Unmount("/run/docker", unix.MNT_DETACH) }()
	if err := errors.Join(os.Mkdir(installed, 0o711), os.Symlink(e.ContainerdSocket(), installed+"/containerd.sock")); err != nil {
		return err
	}
	programs, err := edition.Programs()
	if err != nil {
		return err
	}
	env := []string{
		"DOCKER_HOST=unix://" + e.Socket(), "TEST_CLIENT_BINARY=" + e.Command(ctx).Path, "DEST=" + e.Dir,
		"PATH=" + strings.Join(append(append([]string{own}, programs...), os.Getenv("PATH")), ":"),
	}
	return e.InNetns(func() error { return command(ctx, dir, log, env, args...) })
}

// removeMounted removes a directory with what is mounted in it: a test that fails leaves the
// network namespaces of its dockerd.
func removeMounted(dir string) error {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		if at := strings.Fields(line)[1]; pathname.Below(at, dir) {
			_ = unix.Unmount(at, unix.MNT_DETACH)
		}
	}
	return os.RemoveAll(dir)
}

// mobyImages makes stand-ins for the images that moby's tests would pull.
func mobyImages(ctx context.Context, e *engine.Engine) error {
	busybox := workDir("busybox.tar")
	if err := busyboxTar(ctx, busybox, mobyUsers, mobyGroups); err != nil {
		return err
	}
	f, err := os.Open(busybox)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := e.ImportTar(f, "busybox:latest", `CMD ["sh"]`, "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"); err != nil {
		return err
	}
	for _, name := range []string{"busybox:glibc", "debian:trixie-slim", "hello-world:frozen", "hello-world:latest", "hello-world:amd64", "hello-world:arm64"} {
		if r := e.Docker(ctx, "tag", "busybox:latest", name); r.Code != 0 {
			return fmt.Errorf("making a stand-in for %s: %s", name, r)
		}
	}
	return nil
}

// The users and groups that moby's tests know from busybox's own image.
const (
	mobyUsers = `root:x:0:0:root:/root:/bin/sh
daemon:x:1:1:daemon:/usr/sbin:/bin/false
bin:x:2:2:bin:/bin:/bin/false
sys:x:3:3:sys:/dev:/bin/false
sync:x:4:100:sync:/bin:/bin/sync
mail:x:8:8:mail:/var/spool/mail:/bin/false
www-data:x:33:33:www-data:/var/www:/bin/false
operator:x:37:37:Operator:/var:/bin/false
nobody:x:65534:65534:nobody:/home:/bin/false
`
	mobyGroups = `root:x:0:
daemon:x:1:
bin:x:2:
sys:x:3:
adm:x:4:
tty:x:5:
disk:x:6:
wheel:x:10:root
mail:x:8:
www-data:x:33:
operator:x:37:
nobody:x:65534:
`
)

// moduleCopy copies a module to a directory of ours of that name, where it can be built and
// written to, and returns it. prepare, if not nil, completes a new copy.
func moduleCopy(ctx context.Context, module, name string, prepare func(dir string) error) (string, error) {
	dir := workDir(name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	out, err := do(ctx, "", "go", "mod", "download", "-json", module)
	if err != nil {
		return "", err
	}
	var mod struct{ Dir string }
	if err := json.Unmarshal(out, &mod); err != nil {
		return "", err
	}
	part := dir + ".partial"
	for _, step := range [][]string{{"rm", "-rf", part}, {"mkdir", "-p", filepath.Dir(dir)}, {"cp", "-r", mod.Dir, part}, {"chmod", "-R", "u+w", part}, {"rm", "-rf", part + "/vendor"}} {
		if _, err := do(ctx, "", step...); err != nil {
			return "", err
		}
	}
	if prepare != nil {
		if err := prepare(part); err != nil {
			return "", err
		}
	}
	return dir, os.Rename(part, dir)
}
