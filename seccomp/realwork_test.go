package seccomp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/tests/workloads"
)

// TestRealWork runs the host's own toolchains under runc with the host's root
// read-only, once without any filter and once with each of ours and nothing else, and compares what
// they print. Where a filter kills, the same one that returns an error has nothing to refuse: it is
// not tried too.
func TestRealWork(t *testing.T) {
	if testing.Short() {
		t.Skip("takes most of a minute: not with -short")
	}
	runc := needRunc(t)
	dir := t.TempDir()
	for _, w := range workloads.List {
		if w.OnlyImage {
			continue // tests/e2e runs it
		}
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			for _, n := range w.Needs {
				if _, err := exec.LookPath(n); err != nil {
					t.Skip("needs ", err)
				}
			}
			want, err := startIn(runc, dir, w.Script, nil)
			if err != nil {
				t.Fatalf("without a filter: %v\n%s", err, want)
			}
			variants := []Options{{Profile: "default", Kill: true}}
			if w.Server {
				variants = []Options{{Profile: "server"}}
			}
			if w.Debug {
				variants = []Options{{Profile: "debug"}}
			}
			if w.Tools || w.Strict {
				variants = append(variants, Options{Profile: "tools", Kill: true})
			}
			if w.Strict {
				variants = append(variants, Options{Profile: "strict", Kill: true})
			}
			for _, o := range variants {
				o.Arch = runtime.GOARCH
				filter, err := OCI(o)
				if err != nil {
					t.Fatal(err)
				}
				got, err := startIn(runc, dir, w.Script, filter)
				if err != nil || got != want {
					t.Errorf("with %+v: %v\n%s", o, err, diffLines(want, got))
				}
			}
		})
	}
}

// needRunc skips the test where runc does not run containers.
func needRunc(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root to run containers")
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		t.Skip("needs runc: ", err)
	}
	if out, err := startIn(runc, t.TempDir(), "true", nil); err != nil {
		t.Skipf("runc does not run containers here: %v: %s", err, out)
	}
	return runc
}

// diffLines shows the lines that differ.
func diffLines(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	var out strings.Builder
	for i := range max(len(a), len(b)) {
		var x, y string
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			fmt.Fprintf(&out, "line %d: without %q, with %q\n", i+1, x, y)
		}
	}
	return out.String()
}

// workCaps are what servers drop their root with: the filter is what is tried
// here, nothing else.
var workCaps = []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_SETGID", "CAP_SETUID"}

var containers atomic.Int64

// goCache is kept between runs: compiling go's library takes most of a minute.
func goCache() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	dir = filepath.Join(dir, "agentjail-realwork")
	return dir, os.MkdirAll(dir, 0o755)
}

// startIn runs a script in a container: the host's root directories read-only,
// a fresh tmpfs at /tmp, a network of its own with only lo.
func startIn(runc, dir, script string, filter *specs.LinuxSeccomp) (string, error) {
	id := fmt.Sprintf("agentjail-realwork-%d-%d", os.Getpid(), containers.Add(1))
	bundle := filepath.Join(dir, id)
	rootfs := filepath.Join(bundle, "rootfs")
	if err := os.MkdirAll(rootfs, 0o755); err != nil {
		return "", err
	}
	cache, err := goCache()
	if err != nil {
		return "", err
	}
	spec := &specs.Spec{
		Version:  specs.Version,
		Hostname: "work",
		Root:     &specs.Root{Path: rootfs},
		Process: &specs.Process{
			Args: []string{"/bin/sh", "-c", script},
			Cwd:  "/tmp",
			Env: []string{
				"PATH=" + os.Getenv("PATH"), "HOME=/tmp", "TMPDIR=/tmp", "LC_ALL=C.UTF-8", "GOFLAGS=-mod=mod", "GOPROXY=off",
				"GOTOOLCHAIN=local", "GOCACHE=/cache", "PYENV_ROOT=" + os.Getenv("PYENV_ROOT"), "PYTHONDONTWRITEBYTECODE=1",
				"CARGO_HOME=/tmp/cargo", "RUSTUP_HOME=" + filepath.Join(os.Getenv("HOME"), ".rustup"),
			},
			NoNewPrivileges: true,
			Capabilities:    &specs.LinuxCapabilities{Bounding: workCaps, Effective: workCaps, Permitted: workCaps},
		},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "mode=755"}},
			{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
			{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "nodev", "mode=1777"}},
			{Destination: "/tmp", Type: "tmpfs", Source: "tmpfs", Options: []string{"mode=1777"}},
			{Destination: "/cache", Type: "bind", Source: cache, Options: []string{"rbind", "rw"}},
			{Destination: "/run", Type: "tmpfs", Source: "tmpfs", Options: []string{"mode=755"}},
		},
		Linux: &specs.Linux{
			Namespaces: []specs.LinuxNamespace{{Type: specs.PIDNamespace}, {Type: specs.NetworkNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace}, {Type: specs.MountNamespace}},
			Seccomp:    filter,
		},
	}
	for _, d := range []string{"/bin", "/sbin", "/usr", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/root", "/var"} {
		fi, err := os.Lstat(d)
		switch {
		case err != nil:
		case fi.Mode()&os.ModeSymlink != 0:
			to, err := os.Readlink(d)
			if err != nil {
				return "", err
			}
			if err := os.Symlink(to, rootfs+d); err != nil {
				return "", err
			}
		default:
			spec.Mounts = append(spec.Mounts, specs.Mount{Destination: d, Type: "bind", Source: d, Options: []string{"rbind", "ro"}})
		}
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), data, 0o644); err != nil {
		return "", err
	}
	var out bytes.Buffer
	c := exec.Command(runc, "run", "--bundle", bundle, id)
	c.Stdout, c.Stderr = &out, &out
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("exit status %d", exit.ExitCode())
	}
	return out.String(), err
}

// TestDocsWork: docs/seccomp.md reports how much of the work each profile lets run.
func TestDocsWork(t *testing.T) {
	text, err := os.ReadFile("../docs/seccomp.md")
	if err != nil {
		t.Fatal(err)
	}
	of, runs := 0, map[string]int{}
	for _, w := range workloads.List {
		if w.OnlyImage {
			continue
		}
		of++
		for profile, ok := range map[string]bool{
			"default": !w.Server && !w.Debug, "debug": !w.Server, "server": !w.Debug, "tools": w.Tools || w.Strict, "strict": w.Strict,
		} {
			if ok {
				runs[profile]++
			}
		}
	}
	for profile, n := range runs {
		row := regexp.MustCompile(fmt.Sprintf(`(?m)^\| %s \| .* \| %d of %d \|$`, profile, n, of))
		if !row.Match(text) {
			t.Errorf("docs/seccomp.md does not state that %s lets run %d of %d", profile, n, of)
		}
	}
}
