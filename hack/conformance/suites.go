package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"agentjail.dev/tests/engine"
)

var suites = []suite{
	{"runc", runcSuite, nil},
	{"runtime-tools", toolsSuite, nil},
	{"shimtest", shimSuite, nil},
	{"moby", mobySuite, goPattern},
	{"critest", critestSuite, namePattern},
	{"podman", podmanSuite, namePattern},
}

// versionOf is a delegate's name and version, as "runc-1.1.5".
func versionOf(path string) (string, error) {
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("reading the version of %s: %w", path, err)
	}
	m := regexp.MustCompile(`^(\w+) version (\d+\.\d+(?:\.\d+)?(?:-rc\.\d+)?)`).FindStringSubmatch(string(out))
	if m == nil {
		return "", fmt.Errorf("%s does not print its version: %q", path, out)
	}
	return m[1] + "-" + m[2], nil
}

// workDir is where a suite is built: a directory that everybody can search, as jails' users have
// to.
func workDir(name string) string { return filepath.Join(engine.CacheDir, "conformance", name) }

// command runs a program with all output going to a file, and kills what it started when the time
// is over. An exit status other than 0 is no error: the suites fail by it.
func command(ctx context.Context, dir, log string, env []string, args ...string) error {
	f, err := os.Create(log)
	if err != nil {
		return err
	}
	defer f.Close()
	// Input that never comes and does not end: script(1) sends its terminal an end of file, and
	// what is there echoes it.
	in, hold, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	defer hold.Close()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin = in
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = dir, f, f, append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	err = cmd.Run()
	var ee *exec.ExitError
	if errors.As(err, &ee) || errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	return err
}

// do runs a step of the preparation.
func do(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	var errOut strings.Builder
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, errOut.String())
	}
	return out, nil
}

// runcModule copies runc's module of a version to a directory of ours and returns it.
func runcModule(ctx context.Context, version string) (string, error) {
	return moduleCopy(ctx, "github.com/opencontainers/runc@v"+strings.TrimPrefix(version, "runc-"), version, func(dir string) error {
		// Module archives have no modes.
		if _, err := do(ctx, dir, "find", ".", "-name", "*.*sh", "-exec", "chmod", "+x", "{}", "+"); err != nil {
			return err
		}
		return runcHelpers(ctx, dir)
	})
}

// runcHelpers builds the programs that runc's suite calls: in contrib/cmd until 1.1, in tests/cmd
// since.
func runcHelpers(ctx context.Context, dir string) error {
	for _, place := range []string{"contrib/cmd", "tests/cmd"} {
		mains, _ := filepath.Glob(filepath.Join(dir, place, "*"))
		for _, m := range mains {
			if st, err := os.Stat(m); err != nil || !st.IsDir() {
				continue
			}
			out := filepath.Join(m, filepath.Base(m))
			if place == "tests/cmd" {
				out = filepath.Join(dir, place, "_bin", filepath.Base(m))
			}
			if _, err := do(ctx, dir, "env", "CGO_ENABLED=1", "go", "build", "-mod=mod", "-tags", "seccomp", "-o", out, "./"+filepath.Join(place, filepath.Base(m))); err != nil {
				return err
			}
		}
	}
	return nil
}

// runcSuite is runc's own, in bats. It is the delegate's version's: tests are written for the code
// beside them.
func runcSuite(ctx context.Context, o *options, version string) ([]unit, error) {
	if !strings.HasPrefix(version, "runc-") {
		return nil, fmt.Errorf("this suite is runc's own, and the delegate is %s", version)
	}
	for _, tool := range []string{"bats", "gawk", "jq", "script", "xz"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("%s is needed (Debian: apt-get install bats gawk jq bsdutils xz-utils)", tool)
		}
	}
	dir, err := runcModule(ctx, version)
	if err != nil {
		return nil, err
	}
	if err := images(ctx, filepath.Join(dir, "tests/integration/testdata")); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "tests/integration/*.bats"))
	if err != nil {
		return nil, err
	}
	var units []unit
	for _, f := range files {
		name := filepath.Base(f)
		units = append(units, unit{name: name, run: func(ctx context.Context, path, log string) error {
			tmp, err := os.MkdirTemp("/var/tmp", "agentjail-conformance-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(tmp)
			if err := os.Chmod(tmp, 0o711); err != nil {
				return err
			}
			// Some of the tests need a terminal.
			return command(ctx, dir, log, []string{"RUNC=" + path, "TMPDIR=" + tmp}, "script", "-qefc", "bats -t "+f, "/dev/null")
		}, read: func(log string) (results, error) { return readTAPFile(log, name, nil) }})
	}
	return units, nil
}

// images makes the root file systems that runc's suite would fetch from a registry: of this
// machine's busybox, and of Debian by debootstrap.
func images(ctx context.Context, dir string) error {
	arch, err := do(ctx, "", "go", "env", "GOARCH")
	if err != nil {
		return err
	}
	suffix := "-" + strings.TrimSpace(string(arch)) + ".tar.xz"
	debian := workDir("debian" + suffix)
	if _, err := os.Stat(debian); err != nil {
		const script = `d=$(mktemp -d /var/tmp/agentjail-conformance-XXXXXX); trap 'rm -rf "$d"' EXIT
debootstrap --variant=minbase bookworm "$d/r" >&2; rm -rf "$d"/r/var/cache/apt/archives/*.deb "$d"/r/var/lib/apt/lists/*
tar -C "$d/r" -c . | xz -1 -T0 > "$0.partial"; mv "$0.partial" "$0"`
		if _, err := do(ctx, "", "sh", "-ec", script, debian); err != nil {
			return err
		}
	}
	if err := os.Symlink(debian, filepath.Join(dir, "debian"+suffix)); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	busybox := filepath.Join(dir, "busybox"+suffix)
	if _, err := os.Stat(busybox); err == nil {
		return nil
	}
	tar := filepath.Join(dir, "busybox.tar")
	defer os.Remove(tar)
	// The suite knows no user but root by name.
	if err := busyboxTar(ctx, tar, "root:x:0:0:root:/root:/bin/sh\n", "root:x:0:\n"); err != nil {
		return err
	}
	_, err = do(ctx, dir, "sh", "-ec", `xz -1 -c "$1" >"$0.partial"; mv "$0.partial" "$0"`, busybox, tar)
	return err
}

// busyboxTar makes an archive of this machine's busybox with certain users and groups.
func busyboxTar(ctx context.Context, out, passwd, group string) error {
	tree, err := os.MkdirTemp(filepath.Dir(out), "busybox-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tree)
	f, err := os.Create(filepath.Join(tree, "tar"))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := engine.BusyboxTree(f); err != nil {
		return err
	}
	const script = `mkdir r; tar -C r -xf tar; rm -rf r/home/* r/usr/local; printf %s "$1" >r/etc/passwd; printf %s "$2" >r/etc/group
tar -C r -cf "$0.partial" .; mv "$0.partial" "$0"`
	_, err = do(ctx, tree, "sh", "-ec", script, out, passwd, group)
	return err
}
