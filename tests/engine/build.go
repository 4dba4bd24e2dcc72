package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/flock"
	"agentjail.dev/runtime/kernel/programs"
)

// CacheDir is where tests keep what is slow to make, outside the checkout.
const CacheDir = "/var/cache/agentjail-tests"

// ModuleRoot returns the directory of the module that the working directory lies in.
func ModuleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for d := dir; d != "/"; d = filepath.Dir(d) {
		if text, err := os.ReadFile(filepath.Join(d, "go.mod")); err == nil && strings.HasPrefix(string(text), "module agentjail.dev\n") {
			return d, nil
		}
	}
	return "", fmt.Errorf("%s is not inside agentjail's module", dir)
}

// Build compiles a package of this module into a static binary at out, as make build does, with
// what DelegateEnv and PoolEnv state.
func Build(pkg, out string, flags ...string) error {
	return build(map[string]string{pkg: out}, flags)
}

// build compiles packages, each to its path. Go's cache keeps no linked programs, which each suite
// needs anew: in a checkout that make works in they are kept in dist, and copied.
func build(outs map[string]string, flags []string) error {
	root, err := ModuleRoot()
	if err != nil {
		return err
	}
	args := append([]string{"build", "-trimpath", "-tags=urfave_cli_no_docs", LinkerFlags()}, flags...)
	for _, out := range outs {
		if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
			return err
		}
	}
	dist := filepath.Join(root, "dist")
	if unix.Access(dist, unix.W_OK) != nil {
		for pkg, out := range outs {
			if err := goTool(root, append(args, "-o", out, pkg)); err != nil {
				return err
			}
		}
		return nil
	}
	kept := filepath.Join(dist, "built", fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(args, "\x00"))))[:16])
	if err := os.MkdirAll(kept, 0o755); err != nil {
		return err
	}
	dir, err := os.Open(kept)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := flock.Wait(int(dir.Fd()), unix.LOCK_EX); err != nil { // until all are copied
		return err
	}
	if err := goTool(root, append(append(args, "-o", kept+"/"), slices.Sorted(maps.Keys(outs))...)); err != nil {
		return err
	}
	for pkg, out := range outs {
		if err := copyProgram(filepath.Join(kept, filepath.Base(pkg)), out); err != nil {
			return err
		}
	}
	return nil
}

func goTool(root string, args []string) error {
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %v: %w\n%s", args, err, text)
	}
	return nil
}

// copyProgram replaces a program, also one that runs. It writes small parts, as installers do: of
// what is written at once, the kernel can make pages of 2 MiB, which a process then has as a whole.
func copyProgram(from, to string) error {
	program, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(to+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(program, 64<<10) {
		if _, err := f.Write(part); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(f.Close(), os.Rename(to+".new", to))
}

// DelegateEnv names the environment variable that reports which delegate agentjail has in the tests, unless a policy of
// theirs names one: an absolute path. Unset, it chooses for itself.
const DelegateEnv = "AGENTJAIL_DELEGATE"

// PoolEnv names the environment variable with the default pool of host ids of the programs that
// tests build, FIRST:COUNT: another one than that of the host's own jails (hack/alone.sh). Unset,
// they have agentjail's.
const PoolEnv = "AGENTJAIL_POOL"

// BuildAgentjail compiles agentjail to out, and what belongs beside it.
func BuildAgentjail(out string, flags ...string) error {
	beside := func(name string) string { return filepath.Join(filepath.Dir(out), name) }
	err := build(map[string]string{
		"./cmd/agentjail-enter":       beside("agentjail-enter"),
		"./cmd/agentjail-egress":      beside("agentjail-egress"),
		"./cmd/agentjail-egress-keys": beside("agentjail-egress-keys"),
	}, nil)
	return errors.Join(err, build(map[string]string{"./cmd/agentjail": out, "./cmd/agentjailctl": beside("agentjailctl")}, flags))
}

// Programs are agentjail's programs that `install node` copies, by their names below cmd/.
var Programs = []string{
	programs.Agentjail, programs.Ctl, programs.Enter, programs.Egress, programs.EgressKeys, ShimName,
}

// BuildRelease builds agentjail's programs from a tree into dir, as another release: with more
// variables set (PACKAGE.NAME=TEXT).
func BuildRelease(tree, dir string, variables ...string) error {
	args := []string{"build", "-buildvcs=false", "-trimpath", "-tags=urfave_cli_no_docs", LinkerFlags(variables...), "-o", dir + "/"}
	for _, name := range Programs {
		args = append(args, "./cmd/"+name)
	}
	return errors.Join(os.MkdirAll(dir, 0o755), goTool(tree, args))
}

// OtherForm builds this tree into dir as a release that writes form number, and reads the forms from
// oldest.
func OtherForm(dir string, number, oldest int) error {
	tree, err := ModuleRoot()
	if err != nil {
		return err
	}
	const name = "agentjail.dev/runtime/version/form."
	return BuildRelease(tree, dir, fmt.Sprintf("%snumber=%d", name, number), fmt.Sprintf("%soldest=%d", name, oldest))
}

// PreviousRelease builds into dir the commit of main that this tree follows: the newest that both
// have, and the one before HEAD where that is HEAD.
func PreviousRelease(dir string) error {
	tree, err := ModuleRoot()
	if err != nil {
		return err
	}
	git := func(args ...string) (string, error) {
		cmd := exec.Command("git", append([]string{"-C", tree, "-c", "safe.directory=" + tree}, args...)...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			err = fmt.Errorf("git %v: %w: %s", args, err, &stderr)
		}
		return strings.TrimSpace(string(out)), err
	}
	head, err := git("rev-parse", "HEAD")
	if err != nil {
		return fmt.Errorf("%w (remedy: a clone with its history)", err)
	}
	commit := head
	for _, main := range []string{"main", "origin/main"} {
		if base, err := git("merge-base", "HEAD", main); err == nil {
			commit = base
			break
		}
	}
	if commit == head {
		if commit, err = git("rev-parse", "--verify", "HEAD~1"); err != nil {
			return fmt.Errorf("%w (remedy: git fetch --unshallow)", err)
		}
	}
	from, err := os.MkdirTemp("", "agentjail-previous-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(from)
	if _, err := git("archive", "--output="+filepath.Join(from, "tree.tar"), commit); err != nil {
		return err
	}
	if out, err := exec.Command("tar", "-x", "-C", from, "-f", from+"/tree.tar").CombinedOutput(); err != nil {
		return fmt.Errorf("unpacking commit %s: %w: %s", commit, err, out)
	}
	if err := BuildRelease(from, dir); err != nil {
		return fmt.Errorf("building commit %s: %w", commit, err)
	}
	return nil
}

// Upgrade puts a release's programs into a directory, each by a rename, as installers do. What runs
// there goes on with its file.
func Upgrade(dir, release string) error {
	for _, name := range Programs {
		if err := copyProgram(filepath.Join(release, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// LinkerFlags is the build flag of a program that is linked as the one under test, with more variables set (PACKAGE.NAME=TEXT).
func LinkerFlags(variables ...string) string {
	if d := os.Getenv(DelegateEnv); d != "" {
		variables = append(variables, "agentjail.dev/runtime/spec/policy.defaultDelegate="+d)
	}
	if p := os.Getenv(PoolEnv); p != "" {
		variables = append(variables, "agentjail.dev/runtime/spec/policy.defaultPool="+p)
	}
	flags := "-ldflags=-s -w"
	for _, v := range variables {
		flags += " -X '" + v + "'"
	}
	return flags
}

// ShimName is the file name of the containerd shim, by which containerd finds it for ShimRuntime.
const ShimName = "containerd-shim-agentjail-v2"

// ShimRuntime is the shim's name for containerd.
const ShimRuntime = "io.containerd.agentjail.v2"

// Shim returns the directory of the containerd shim and of what belongs beside it, building it the first time: for
// ContainerdOptions.Shims. RemoveBuilt removes it.
func Shim() (string, error) { return shim() }

var shim = sync.OnceValues(func() (string, error) {
	agentjail, err := built()
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(agentjail)
	return dir, Build("./cmd/"+ShimName, filepath.Join(dir, ShimName))
})

// builtToolsEnv names a directory with what Tool would build: a directory for each, by name. For a machine without a Go tool.
const builtToolsEnv = "AGENTJAIL_BUILT_TOOLS"

// Tool returns the path of one of the programs of other people that hack/tools fixes the versions of, building it the
// first time.
func Tool(name string) (string, error) {
	if dir := os.Getenv(builtToolsEnv); dir != "" {
		path := filepath.Join(dir, name, name)
		_, err := os.Stat(path)
		return path, err
	}
	root, err := ModuleRoot()
	if err != nil {
		return "", err
	}
	cmd := exec.Command(filepath.Join(root, "hack/tools/build.sh"), name)
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, log.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// BinDir makes the directory that UnderTest builds into, where a policy or a delegate of the tests' own may lie too, and
// returns its path. It belongs to root all the way up: runtimes refuse to be run from, or to delegate into, places that
// others can write. RemoveBuilt removes it.
func BinDir() (string, error) { return binDir() }

// binDir makes a directory and locks it, which shows other processes that this one lives: its number may be another's
// in their PID namespace.
var binDir = sync.OnceValues(func() (string, error) {
	if err := os.MkdirAll(CacheDir, 0o755); err != nil {
		return "", err
	}
	all, err := os.Open(CacheDir)
	if err != nil {
		return "", err
	}
	defer all.Close()
	if err := flock.Wait(int(all.Fd()), unix.LOCK_EX); err != nil {
		return "", err
	}
	removeStaleBins()
	dir, err := os.MkdirTemp(CacheDir, "bin-")
	if err != nil {
		return "", err
	}
	if ownBins, err = os.Open(dir); err != nil {
		return "", err
	}
	return dir, errors.Join(flock.Wait(int(ownBins.Fd()), unix.LOCK_SH), ownBins.Chmod(0o755))
})

// ownBins is this process's directory, locked; nil if there is none.
var ownBins *os.File

var underTest = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(RuntimeEnv); path != "" {
		return filepath.EvalSymlinks(path)
	}
	return built()
})

// built builds agentjail in binDir.
var built = sync.OnceValues(func() (string, error) {
	dir, err := binDir()
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, "agentjail")
	return out, BuildAgentjail(out)
})

// removeStaleBins removes what processes that are gone built for themselves.
func removeStaleBins() {
	old, _ := filepath.Glob(filepath.Join(CacheDir, "bin-*"))
	for _, dir := range old {
		f, err := os.Open(dir)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		f.Close()
	}
}

// UnderTest returns the path of the runtime under test, building it the first time.
func UnderTest() (string, error) { return underTest() }

// RemoveBuilt removes what UnderTest built, and BinDir: at the end of a suite, not of a test. A directory that a later test makes again at
// its place is not locked, and another suite takes it for a dead one's.
func RemoveBuilt() error {
	if ownBins == nil {
		return nil
	}
	return os.RemoveAll(ownBins.Name())
}

// UnderTestIsAgentjail reports whether the runtime under test is agentjail and not another one named by RuntimeEnv.
func UnderTestIsAgentjail() bool {
	path, err := UnderTest()
	if err != nil {
		return false
	}
	out, err := exec.Command(path, "--version").Output()
	return err == nil && strings.HasPrefix(string(out), "agentjail")
}

// Versions reports which engine this is, in one line.
func (e *Engine) Versions() string {
	r := e.Docker(context.Background(), "version", "--format", "docker {{.Server.Version}}{{range .Server.Components}}{{if ne .Name \"Engine\"}}, {{.Name}} {{.Version}}{{end}}{{end}}")
	return strings.TrimSpace(r.Stdout)
}
